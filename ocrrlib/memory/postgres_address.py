"""Addresses of PostgreSQL bases, and names of memories there."""

from ocrrlib.files import InputError
from ocrrlib.memory.location import ENCODE

LONGEST_NAME = 63  # bytes; PostgreSQL would cut a longer one


def checked_name(name: str | None) -> str:
    """Return the name of a memory if a schema can have it; ``InputError`` if not."""
    if not name:
        raise InputError("a base may hold several memories: give the name of one")
    size = len(str(name).encode(errors="replace"))
    is_odd = {*"\0%"} & {*name} or name.startswith("pg_")  # to the server, or to its driver
    if not 0 < size <= LONGEST_NAME or is_odd:
        raise InputError(f"{name!r} is no name of a memory: give a word of 1 to 63 bytes")
    return str(name)


def shown_address(parts: dict) -> str:
    """Return an address, by its parts as psycopg names them, without what is secret.

    Raises ``InputError`` if it may be cut at a wrong place.
    """
    if any("@" in (parts.get(name) or "") for name in ("host", "port", "dbname")):
        raise InputError(ENCODE)  # a part of a password may stand there
    user = f"{parts['user']}@" if "user" in parts else ""
    host = parts.get("host") or parts.get("hostaddr") or ""
    port = f":{parts['port']}" if "port" in parts else ""
    if host.startswith("/"):  # the folder of a socket
        return f"postgresql://{user}{port}/{parts.get('dbname', '')}?host={host}"
    return f"postgresql://{user}{host}{port}/{parts.get('dbname', '')}"
