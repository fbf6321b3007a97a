"""The SQLite database in which a ledger is kept: its tables, settings and rows.

Table ``about`` has one row: JSON of format version, origin (name of the ledger), encoder, and for
texts its probe. Table ``entries`` has a ``Row`` an entry. A database with any other table, index,
view or trigger is refused.
"""

import json
import secrets
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from ocrrlib.files import sync_to_disk
from ocrrlib.memory.rows import Row

FORMAT = 1
LONGEST = 2**20  # bytes of a value at most
PATIENCE = 60  # seconds to wait for other programs
# The file may be a stranger's, and whatever was deleted must be gone.
PRAGMAS = "trusted_schema = OFF", "cell_size_check = ON", "secure_delete = ON", "synchronous = FULL"
SCHEMA = [
    "CREATE TABLE about (about TEXT NOT NULL) STRICT",
    "CREATE TABLE entries ("
    "place INTEGER PRIMARY KEY, time INTEGER NOT NULL, commitment BLOB NOT NULL, "
    "previous BLOB NOT NULL, hash BLOB NOT NULL, "
    "salt BLOB, label TEXT, author TEXT, text TEXT, x BLOB) STRICT",
]
INSERT = f"INSERT INTO entries VALUES ({', '.join('?' * len(Row._fields))})"
ERASE = (
    "UPDATE entries SET salt = NULL, label = NULL, author = NULL, text = NULL, x = NULL "
    "WHERE place = ?"
)


def connect(path: Path, encoder: Callable[[], tuple[str, str]] | None = None) -> sqlite3.Connection:
    """Open a ledger's database; make it, for texts of an encoder, if there is none.

    ``encoder`` gives name and probe of that of a new file, see ``ocrrlib.memory.identity``. Raises
    ``sqlite3.Error`` or ``OSError`` if the file cannot be used.
    """
    base = sqlite3.connect(path.resolve(), PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        for pragma in PRAGMAS:
            base.execute(f"PRAGMA {pragma}")
        if not _tables(base):
            about = [None] if encoder is None else encoder()
            retried(base, "journal_mode = WAL")
            _create(base, path.stem, about)
            sync_to_disk(path.parent)
        check_tables(base)
    except BaseException:
        base.close()
        raise
    return base


def _create(base, name, encoder):
    """Make the tables, unless another program has just done so."""
    with base:
        base.execute("BEGIN IMMEDIATE")
        if _tables(base):
            return
        for table in SCHEMA:
            base.execute(table)
        origin = f"{name}-{secrets.token_hex(8)}"
        about = json.dumps([FORMAT, origin, *encoder])
        base.execute("INSERT INTO about VALUES (?)", [about])


def _tables(base):
    found = base.execute("SELECT sql FROM sqlite_master ORDER BY name LIMIT 9")
    return [sql for (sql,) in found]


def check_tables(base: sqlite3.Connection):
    """Raise ``sqlite3.DatabaseError`` unless the tables are those of a ledger, and no more."""
    if _tables(base) != SCHEMA:  # a trigger would change what is written
        raise sqlite3.DatabaseError("it is something else, or its tables were changed")


def read_about(base: sqlite3.Connection) -> tuple[str, str, str | None, str | None]:
    """Return what the file says about itself, and its origin, encoder's name and probe from it.

    Raises ``sqlite3.DatabaseError`` if that is of another version or damaged.
    """
    rows = base.execute("SELECT about FROM about").fetchall()
    try:
        ((about,),) = rows
        version, origin, encoder, *rest = json.loads(about)
        (probe,) = rest or [None]  # files for vectors have none, nor have those of earlier releases
    except (ValueError, TypeError, RecursionError):
        version = None
    if version != FORMAT or not isinstance(about, str):
        raise sqlite3.DatabaseError("its table about was changed, or is of another version")
    return about, origin, encoder, probe


def retried(base: sqlite3.Connection, pragma: str):
    """Run a pragma for which SQLite does not wait while others hold the file.

    Returns its value; 1 means that the file was still busy after ``PATIENCE`` seconds.
    """
    end = time.monotonic() + PATIENCE
    while True:
        late = time.monotonic() > end
        try:
            value = base.execute(f"PRAGMA {pragma}").fetchone()[0]
            if value != 1 or late:
                return value
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or late:
                raise
        time.sleep(0.01)


def size_on_disk(path: Path) -> int:
    """Return the size of a database and its log, in bytes."""
    log = path.with_name(path.name + "-wal")
    return sum(file.stat().st_size for file in (path, log) if file.exists())
