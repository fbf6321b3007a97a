"""Store a ledger in an SQLite file, for all programs on one machine.

Table ``about`` has one row: JSON of format version, origin (name of the ledger), encoder, and for
texts its probe. Table ``entries`` has a ``Row`` an entry. A database with any other table, index,
view or trigger is refused.
"""

import os
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import NoReturn

from corrigible.proofs.rows import MAX_VALUE, Row
from corrigible.stores import waiting
from corrigible.stores.store import ROWS_AT_ONCE, read_about
from corrigible.stores.waiting import as_input_error, polling
from ocrrlib.files import InputError, sync_to_disk

# What one path's file is verified with cannot write: no other connection here may share it.
VERIFIED: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)
ERRORS = (sqlite3.Error,)
MOMENT = 1  # second in which other programs open or close a file
# The file may be a stranger's, and whatever was deleted must be gone.
PRAGMAS = "trusted_schema = OFF", "cell_size_check = ON", "secure_delete = ON", "synchronous = FULL"
SCHEMA = [
    "CREATE TABLE about (about TEXT NOT NULL) STRICT",
    "CREATE TABLE entries ("
    "place INTEGER PRIMARY KEY, time INTEGER NOT NULL, commitment BLOB NOT NULL, "
    "previous BLOB NOT NULL, hash BLOB NOT NULL, "
    "salt BLOB, label TEXT, author TEXT, text TEXT, x BLOB, act TEXT) STRICT",
]
# Files without acts once had no column for them; it is added when they are opened to write.
SCHEMA_BEFORE_ACTS = [SCHEMA[0], SCHEMA[1].replace(", act TEXT)", ")")]
INSERT = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
ERASE = (
    "UPDATE entries SET salt = NULL, label = NULL, author = NULL, text = NULL, x = NULL, "
    "act = NULL WHERE place = ?"
)


def _not_searched(path):
    """The error that a file's vectors are not searched where they are."""
    return InputError(f"{path} is a file, whose vectors are read: leave search out")


class File:
    """The place of a ledger's file."""

    def __init__(self, path: str | PathLike):
        # The log goes by the file's own name: through a link SQLite would find another one.
        self.path = Path(os.path.realpath(path))
        self._given = path
        self.name = self.path.stem

    def __str__(self) -> str:
        return str(self._given)

    def is_there(self) -> bool:
        return self.path.exists()

    def holds_memory(self) -> bool:
        return self.path.is_file() and self.path.stat().st_size > 0

    def check_search(self, ef_search: int | None) -> NoReturn:
        raise _not_searched(self.path)

    def open(self, about: Callable[[], str]) -> "SQLiteStore":
        return SQLiteStore(self.path, about)

    def open_to_read(self) -> "SQLiteStore":
        if not self.path.is_file():
            raise InputError(f"there is no file {self.path}")
        return SQLiteStore(self.path)

    def verifying(self) -> AbstractContextManager[object]:
        return VERIFIED[self.path]

    def last_change(self) -> tuple[int, int, bool] | None:
        """Time and size of the file as of its last change, and whether others have it open.

        A killed process leaves it as if it had it open. None if there is no file.
        """
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_size, _beside(self.path)[1].exists()


class SQLiteStore:
    """A ledger's tables in a file; without ``about`` of a new one, nothing is written to disk."""

    errors = ERRORS
    residue = "whose log may hold the content"
    cleans_itself = False
    has_failed = False  # a statement that fails undoes itself alone
    beyond_erasure = ""

    def __init__(self, path: Path, about: Callable[[], str] | None = None):
        self.where = path
        self.fitted = path.with_name(f"{path.name}-fitted")
        self._reads_only = about is None
        self._seen: tuple | None = None  # SQLite's data version when all was read
        self._latest: tuple | None = None
        with as_input_error(path, ERRORS, self.remedy):
            if about is None:
                self._base = _opened_to_read(path)
            else:
                with VERIFIED[path]:
                    self._base = _opened(path, about)
            self._file_id = file_id(path)
            try:
                found = read_about(self._base.execute("SELECT about FROM about").fetchall())
                if found is None:
                    raise sqlite3.DatabaseError(
                        "its table about was changed, or is of another version"
                    )
                self.about = found
            except BaseException:
                self.close_untouched()
                raise

    def remedy(self, error: Exception) -> str:
        if type(error) is sqlite3.DatabaseError:  # not as with a full disk: it is damaged
            return f"{self.way_out()}, or choose another file"
        return "check disk, permissions and other programs, or choose another file"

    def way_out(self) -> str:
        log, _, journal = _beside(self.where)  # left beside it, they would damage a copy, too
        left = " and ".join(file.name for file in (log, journal) if _size(file))
        return f"restore a copy, without {left} beside it" if left else "restore a copy"

    def room(self) -> int:
        return _size(self.where) + _size(_beside(self.where)[0])

    def prepare_writes(self):
        if self._reads_only:
            return
        with suppress(sqlite3.OperationalError):  # if the disk is full, it can be read
            _keep_log(self._base)  # a copy that SQLite made has none
            self._add_acts()
            # Whoever uses the connection waits: SQLite would wait a tenth of a second longer.
            self._base.execute("PRAGMA busy_timeout = 0")

    def _add_acts(self):
        """Add the column for acts if the file has none."""
        if _tables(self._base) != SCHEMA:
            with self._base:
                self._base.execute("BEGIN IMMEDIATE")
                if _tables(self._base) == SCHEMA_BEFORE_ACTS:  # no other program just did
                    self._base.execute("ALTER TABLE entries ADD COLUMN act TEXT")

    def close_untouched(self):
        _close_untouched(self._base, self.where)

    def close(self):
        self._base.close()

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._base:
            self._base.execute("BEGIN")
            yield

    def writing(self) -> AbstractContextManager[object]:
        return self._base

    def try_begin(self) -> bool:
        try:
            self._base.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
            return False
        if file_id(self.where) != self._file_id:  # it would be lost
            raise InputError(
                f"{self.where} was replaced or removed since it was opened: open it anew"
            )
        return True

    def has_changed(self, size: int, newest: bytes) -> bool:
        # It changes with what others write, who may just mend the log's index.
        self._latest = _patiently(self._base, "PRAGMA data_version")
        return self._latest != self._seen or not size

    def check_tables(self):
        check_schema(self._base)

    def mark_read(self):
        self._seen = self._latest

    def hash_at(self, place: int) -> bytes | None:
        select = "SELECT hash FROM entries WHERE place = ?"
        found = self._base.execute(select, [place]).fetchone()
        return None if found is None else found[0]

    def row(self, place: int) -> Row | None:
        select = "SELECT * FROM entries WHERE place = ?"
        found = self._base.execute(select, [place]).fetchone()
        return None if found is None else Row(*found)

    def blocks(self, first: int | None = None) -> Iterator[list[Row]]:
        first = -(2**63) if first is None else first
        select = "SELECT * FROM entries WHERE place >= ? ORDER BY place"
        cursor = self._base.execute(select, [first])
        room = self.room()
        while True:
            rows = [Row(*values) for values in cursor.fetchmany(ROWS_AT_ONCE)]
            if not rows:
                return
            yield rows
            room -= sum(len(row.x or b"") for row in rows)
            if room < 0:  # damaged pages may refer to one another for ever
                raise InputError(
                    f"{self.where} claims more content than it has room for: {self.way_out()}"
                )

    def insert(self, rows: list[Row]):
        self._base.executemany(INSERT, rows)

    def erase(self, places: Iterable[int]):
        self.fitted.unlink(missing_ok=True)  # on what is erased
        self._base.executemany(ERASE, [[place] for place in places])

    def source(self, ef_search: int | None) -> NoReturn:
        raise _not_searched(self.where)

    def make_index(self, dim: int):
        raise InputError(f"{self.where} is a file, which is searched without an index")

    def cleaned(self) -> bool:
        return self._reads_only or _emptied_log(self._base)


# Opening


def _opened(path, about):
    """Open a ledger's database; make it, with what ``about`` says of a new one, if there is none.

    An empty file counts as none: whoever is killed while making a file leaves one. Raises
    ``sqlite3.Error`` or ``OSError`` if the file cannot be used.
    """
    _check_names(path)
    base = connected(path, "mode=rwc")
    try:
        if not _tables(base):
            said = about()
            _keep_log(base)
            _create(base, said)
            sync_to_disk(path.parent)
        check_schema(base)
    except BaseException:
        _close_untouched(base, path)
        raise
    return base


def _opened_to_read(path):
    """Open a ledger's database so that nothing is written, neither to it nor beside it.

    Raises ``sqlite3.Error`` or ``OSError`` if the file cannot be used, as when there is none.
    """
    _check_names(path)
    if not _size(path):
        raise sqlite3.DatabaseError("it is empty")
    failure: Exception
    for _ in polling(MOMENT):
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
        base = connected(path, "mode=ro&readonly_shm=1")
    else:
        base = connected(path, "immutable=1")
    try:
        check_schema(base)
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
        with closing(connected(copy, "mode=rw")) as base:
            _tables(base)
            _emptied_log(base)
        return connected(copy, "immutable=1")


def run_beside(*command: str | Path) -> bytes:
    """Return what a program prints; ``OSError`` if it fails.

    It reads files that may be open here: closing one here would end all locks of this process.
    """
    result = subprocess.run(command, capture_output=True)
    if result.returncode:
        raise OSError(result.stderr.decode(errors="replace"))
    return result.stdout


def connected(path: Path, how: str) -> sqlite3.Connection:
    """A connection with our pragmas; ``how`` are parameters of its URI."""
    base = sqlite3.connect(
        f"{path.as_uri()}?{how}",
        waiting.LOCK_TIMEOUT,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
    )
    try:
        base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
        for pragma in PRAGMAS:
            base.execute(f"PRAGMA {pragma}")
    except BaseException:
        _close_untouched(base, path)
        raise
    return base


def _close_untouched(base, path):
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


def _keep_log(base):
    """Let changes go to a log first, so that readers need not wait for writers."""
    _patiently(base, "PRAGMA journal_mode = WAL")


def _patiently(base, statement):
    """The row of a statement that others may prevent for some time."""
    end = time.monotonic() + waiting.LOCK_TIMEOUT
    while True:
        try:
            return base.execute(statement).fetchone()
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > end:
                raise
        time.sleep(0.01)


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


def check_schema(base: sqlite3.Connection) -> None:
    """Raise ``sqlite3.DatabaseError`` unless the tables are those of a ledger, and no more."""
    if _tables(base) not in (SCHEMA, SCHEMA_BEFORE_ACTS):  # a trigger would change what is written
        raise sqlite3.DatabaseError(
            "it is something else, of a later release, or its tables were changed"
        )


def _emptied_log(base):
    """Move the log's pages to their places and empty it; False, at once, if others still read it.

    Only then nothing is left of what was erased before.
    """
    busy, _, _ = base.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


def file_id(path: Path) -> tuple[int, int] | None:
    """Return the identity of a file (device and inode), or None if there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _size(file):
    try:
        return os.stat(file).st_size
    except FileNotFoundError:  # others remove the log as they close
        return 0


def _beside(path):
    """Files that SQLite keeps beside a database: log, the log's index, and what undoes changes."""
    return [Path(f"{path}{end}") for end in ("-wal", "-shm", "-journal")]
