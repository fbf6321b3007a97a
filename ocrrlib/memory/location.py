"""Where a correction memory is: in a file, or on a server by its address and name."""

import re
from os import PathLike

from ocrrlib.files import InputError
from ocrrlib.memory.sqlite import File
from ocrrlib.memory.store import Location

SERVER = re.compile("postgres(ql)?://")


def located(path: str | PathLike | Location, name: str | None = None) -> Location:
    """Return where a memory is kept.

    ``path`` is that of a file, or the address of a PostgreSQL database, in which a memory has a
    ``name``. Raises ``InputError`` if a name is missing, or given for a file.
    """
    if not isinstance(path, str | PathLike):
        return path
    if isinstance(path, str) and SERVER.match(path):
        return _server(path, name)
    if name is not None:
        raise InputError(f"{path} is a file, which holds one memory: leave the name out")
    return File(path)


def _server(address, name):
    try:
        from ocrrlib.memory.postgres import Server
    except ModuleNotFoundError as error:
        raise InputError(
            f"the package {error.name} is not installed: run `pip install 'ocrrlib[postgres]'`"
        ) from error
    return Server(address, name)
