"""Find a memory's store by its location: a file, or an address and a name on a server."""

import re
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from corrigible.stores.sqlite import File, run_beside
from corrigible.stores.store import Location
from ocrrlib.files import InputError

DATABASE = b"SQLite format 3\0"  # the beginning of every file of SQLite
SERVER = re.compile("postgres(ql)?://", re.IGNORECASE)


def is_address(path: Any) -> bool:
    """Whether a memory's path is the address of a base on a server."""
    return isinstance(path, str) and SERVER.match(path) is not None


def located(path: str | PathLike | Location, name: str | None = None) -> Location:
    """Return where a memory is kept.

    ``path`` is that of a file, or the address of a PostgreSQL base, in which a memory has a
    ``name``; the address may end with it, as ``postgresql://user@host/base#name``. Raises
    ``InputError`` if a name is missing, or given for a file.
    """
    if not isinstance(path, str | PathLike):
        return path
    if is_address(path):
        return _server(str(path), name)
    if re.match(r"[\w+]+://", str(path)):  # it may hold a password, and is not shown
        raise InputError("no memory has such an address: give postgresql://user@host/base")
    if name is not None:
        raise InputError(f"{path} is a file, which holds one memory: leave the name {name} out")
    return File(path)


def is_database(path: Path) -> bool:
    """Whether a file is a database; another program reads, as closing it would end our locks."""
    return run_beside("head", "-c", str(len(DATABASE)), path.absolute()) == DATABASE


def _server(path, name):
    try:
        from corrigible.stores.postgres import ENCODE, Server
    except ModuleNotFoundError as error:
        raise InputError(
            f"the package {error.name} is not installed: run `pip install 'corrigible[postgres]'`"
        ) from error
    address, _, named = path.partition("#")
    if "@" in named:
        raise InputError(ENCODE)
    if name is not None and named:
        raise InputError(f"one memory has two names, {unquote(named)} and {name}: give one")
    return Server(address, name or unquote(named))
