"""The SQLite database in which a ledger is kept: its tables, settings and rows.

Table ``about`` has one row: JSON of format version, origin (name of the ledger), encoder, and for
texts its probe. Table ``entries`` has a ``Row`` an entry; its column ``act`` comes with the first
entry that has one, and releases that do not know it refuse the file. A database with any other
table, index, view or trigger is refused.
"""

import os
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path

from ocrrlib.files import sync_to_disk
from ocrrlib.memory import store
from ocrrlib.memory.rows import Row
from ocrrlib.memory.store import LONGEST, About, tries

MOMENT = 1  # second in which other programs open or close a file
# The file may be a stranger's, and whatever was deleted must be gone.
PRAGMAS = "trusted_schema = OFF", "cell_size_check = ON", "secure_delete = ON", "synchronous = FULL"
SCHEMA = [
    "CREATE TABLE about (about TEXT NOT NULL) STRICT",
    "CREATE TABLE entries ("
    "place INTEGER PRIMARY KEY, time INTEGER NOT NULL, commitment BLOB NOT NULL, "
    "previous BLOB NOT NULL, hash BLOB NOT NULL, "
    "salt BLOB, label TEXT, author TEXT, text TEXT, x BLOB) STRICT",
]
SCHEMA_WITH_ACTS = [SCHEMA[0], SCHEMA[1].replace("x BLOB)", "x BLOB, act TEXT)")]
ADD_ACTS = "ALTER TABLE entries ADD COLUMN act TEXT"
INSERT = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?{})"
CONTENT = "salt", "label", "author", "text", "x", "act"


def connect(path: Path, about: Callable[[], str]) -> sqlite3.Connection:
    """Open a ledger's database; make it, with what ``about`` says of a new one, if there is none.

    An empty file counts as none: whoever is killed while making a file leaves one. Raises
    ``sqlite3.Error`` or ``OSError`` if the file cannot be used.
    """
    _check_names(path)
    base = _connected(path, "mode=rwc")
    try:
        if not _tables(base):
            said = about()
            keep_log(base)
            _create(base, said)
            sync_to_disk(path.parent)
        has_acts(base)
    except BaseException:
        close_unchanged(base, path)
        raise
    return base


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a ledger's database so that nothing is written, neither to it nor beside it.

    Raises ``sqlite3.Error`` or ``OSError`` if the file cannot be used, as when there is none.
    """
    _check_names(path)
    if not _size(path):
        raise sqlite3.DatabaseError("it is empty")
    failure: Exception
    for _ in tries(MOMENT):
        try:
            return _connected_to_read(path)
        except (sqlite3.OperationalError, OSError) as error:  # others may just open or close it
            failure = error
    raise failure


def _connected_to_read(path):
    log, index, journal = _beside(path)
    if _size(journal) or (_size(log) and not index.exists()):  # left by a killed process
        base = _connected_to_copy(path)
    elif log.exists() and index.exists():  # others may have it open
        base = _connected(path, "mode=ro&readonly_shm=1")
    else:
        base = _connected(path, "immutable=1")
    try:
        has_acts(base)
    except BaseException:
        base.close()
        raise
    return base


def _connected_to_copy(path):
    """A connection to a copy that is gone once it is closed; SQLite finishes or undoes changes."""
    log, _, journal = _beside(path)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        run_beside("cp", *filter(Path.exists, (path, log, journal)), folder)
        for file in Path(folder).iterdir():
            file.chmod(0o600)
        with closing(_connected(copy, "mode=rw")) as base:
            _tables(base)
            emptied_log(base)
        return _connected(copy, "immutable=1")


def run_beside(*command: str | Path) -> bytes:
    """Return what a program prints; ``OSError`` if it fails.

    It reads files that may be open here: closing one here would end all locks of this process.
    """
    result = subprocess.run(command, capture_output=True)
    if result.returncode:
        raise OSError(result.stderr.decode(errors="replace"))
    return result.stdout


def _connected(path, how):
    """A connection with our pragmas; ``how`` are parameters of its URI."""
    base = sqlite3.connect(
        f"{path.as_uri()}?{how}",
        store.PATIENCE,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
    )
    try:
        base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        for pragma in PRAGMAS:
            base.execute(f"PRAGMA {pragma}")
    except BaseException:
        close_unchanged(base, path)
        raise
    return base


def close_unchanged(base: sqlite3.Connection, path: Path):
    """Close a connection to a file that is refused; file and log stay as they are."""
    if not _size(_beside(path)[0]):
        base.close()
        return
    # The last one to close would move the log's pages to the file: a reader, which cannot.
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as reader:
        with suppress(sqlite3.Error):
            reader.execute("SELECT * FROM sqlite_master").fetchone()
        base.close()


def _check_names(path):
    """Raise ``sqlite3.DatabaseError`` if entries would be lost: the log goes by the file's name."""
    log = _beside(path)[0]
    if path.is_file() and path.stat().st_nlink > 1:
        raise sqlite3.DatabaseError("it has a second name, a hard link, with a log of its own")
    if _size(log) and not _size(path):  # in this order, since others may be making both
        raise sqlite3.DatabaseError(f"it is missing or empty, but its log {log.name} is not")


def keep_log(base: sqlite3.Connection):
    """Let changes go to a log first, so that readers need not wait for writers."""
    _patiently(lambda: base.execute("PRAGMA journal_mode = WAL"))


def _patiently(do):
    """Do what others may prevent for some time."""
    for _ in tries():
        try:
            return do()
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
            busy = error
    raise busy


def _is_busy(error):
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY  # of whatever kind


def _create(base, about):
    """Make the tables, unless another program has just done so."""
    with base:
        base.execute("BEGIN IMMEDIATE")
        if _tables(base):
            return
        for table in SCHEMA:
            base.execute(table)
        base.execute("INSERT INTO about VALUES (?)", [about])


def _tables(base):
    found = base.execute("SELECT sql FROM sqlite_master ORDER BY name LIMIT 9")
    return [sql for (sql,) in found]


def has_acts(base: sqlite3.Connection) -> bool:
    """Whether entries of a ledger have acts.

    Raises ``sqlite3.DatabaseError`` unless the tables are those of a ledger, and no more.
    """
    tables = _tables(base)
    if tables not in (SCHEMA, SCHEMA_WITH_ACTS):  # a trigger would change what is written
        raise sqlite3.DatabaseError(
            "it is something else, of a later release, or its tables were changed"
        )
    return tables == SCHEMA_WITH_ACTS


def insert(base: sqlite3.Connection, rows: list[Row], acts: bool):
    """Write rows; ``acts`` tells whether the table has these."""
    if acts:
        base.executemany(INSERT.format(", ?"), rows)
    else:
        base.executemany(INSERT.format(""), [row[:-1] for row in rows])


def erase(base: sqlite3.Connection, places: Iterable[int], acts: bool):
    """Overwrite salt and content of entries; ``acts`` tells whether the table has these."""
    nothing = ", ".join(f"{name} = NULL" for name in (CONTENT if acts else CONTENT[:-1]))
    erased = f"UPDATE entries SET {nothing} WHERE place = ?"
    base.executemany(erased, [[place] for place in places])


def about_of(base: sqlite3.Connection) -> About:
    """Return what a ledger says about itself.

    Raises ``sqlite3.DatabaseError`` if that is of another version or damaged.
    """
    about = store.read_about(base.execute("SELECT about FROM about").fetchall())
    if about is None:
        raise sqlite3.DatabaseError("its table about was changed, or is of another version")
    return about


def waits_no_more(base: sqlite3.Connection):
    """Let SQLite fail at once where others prevent it: it would wait a tenth of a second longer.

    Whoever uses the connection waits, see ``began`` and ``data_version``.
    """
    base.execute("PRAGMA busy_timeout = 0")


def began(base: sqlite3.Connection) -> bool:
    """Begin a transaction that excludes other writers; False if there is one."""
    try:
        base.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if not _is_busy(error):
            raise
        return False
    return True


def data_version(base: sqlite3.Connection) -> tuple[int]:
    """Return a number that changes with what others write; waits if they mend the log's index."""
    return _patiently(lambda: base.execute("PRAGMA data_version").fetchone())


def emptied_log(base: sqlite3.Connection) -> bool:
    """Move the log's pages to their places and empty it; False, at once, if others still read it.

    Only then nothing is left of what was erased before.
    """
    busy, _, _ = base.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


def size_on_disk(path: Path) -> int:
    """Return the size of a database and its log, in bytes."""
    return _size(path) + _size(f"{path}-wal")


def last_change(path: Path) -> tuple[int, int, bool] | None:
    """Return time and size of a database as of its last change, and whether others have it open.

    A killed process leaves the file as if it had it open. None if there is no file.
    """
    index = _beside(path)[1]
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size, index.exists()


def identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another one of its name, or None if there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def way_out(path: Path) -> str:
    """Return what to do about a damaged file: what is left beside it would damage a copy, too."""
    log, _, journal = _beside(path)
    left = " and ".join(file.name for file in (log, journal) if _size(file))
    return f"restore a copy, without {left} beside it" if left else "restore a copy"


def _size(file):
    try:
        return os.stat(file).st_size
    except FileNotFoundError:  # others remove the log as they close
        return 0


def _beside(path):
    """Files that SQLite keeps beside a database: log, the log's index, and what undoes changes."""
    return [Path(f"{path}{end}") for end in ("-wal", "-shm", "-journal")]
