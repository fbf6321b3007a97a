"""A ledger's store in a file, by SQLite: for all programs of one machine."""

import os
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import NoReturn

from ocrrlib.files import InputError
from ocrrlib.memory.rows import FIELDS, FIELDS_BEFORE, Row
from ocrrlib.memory.sqlite_tables import (
    ADD_ACTS,
    about_of,
    began,
    close_unchanged,
    connect,
    connect_to_read,
    data_version,
    emptied_log,
    erase,
    has_acts,
    identity,
    insert,
    keep_log,
    last_change,
    size_on_disk,
    waits_no_more,
    way_out,
)
from ocrrlib.memory.store import BLOCK, usable

# What one path's file is verified with cannot write: no other connection here may share it.
VERIFIED: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)
ERRORS = (sqlite3.Error,)


def remedy(path: Path, error: Exception) -> str:
    """Return what to do about an error of SQLite or the disk."""
    if type(error) is sqlite3.DatabaseError:  # not as with a full disk: it is damaged
        return f"{way_out(path)}, or choose another file"
    return "check disk, permissions and other programs, or choose another file"


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

    def last_change(self) -> object:
        return last_change(self.path)


class SQLiteStore:
    """A ledger's tables in a file; without ``about`` of a new one, nothing is written to disk."""

    errors = ERRORS
    leftover = "whose log may hold the content"
    cleans_itself = False
    has_failed = False  # a statement that fails undoes itself alone
    unreached = ""

    def __init__(self, path: Path, about: Callable[[], str] | None = None):
        self.where = path
        self._reads_only = about is None
        self._acts = False  # whether the table has acts, as of the last reading
        self._seen: tuple | None = None  # SQLite's data version when all was read
        self._latest: tuple | None = None
        with usable(path, ERRORS, self.remedy):
            if about is None:
                self._base = connect_to_read(path)
            else:
                with VERIFIED[path]:
                    self._base = connect(path, about)
            self._identity = identity(path)
            try:
                self.about = about_of(self._base)
            except BaseException:
                self.refuse()
                raise

    def remedy(self, error: Exception) -> str:
        return remedy(self.where, error)

    def way_out(self) -> str:
        return way_out(self.where)

    def room(self) -> int:
        return size_on_disk(self.where)

    def ready(self):
        if self._reads_only:
            return
        with suppress(sqlite3.OperationalError):  # if the disk is full, it can be read
            keep_log(self._base)  # a copy that SQLite made has none
            waits_no_more(self._base)

    def refuse(self):
        close_unchanged(self._base, self.where)

    def close(self):
        self._base.close()

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._base:
            self._base.execute("BEGIN")
            yield

    def writing(self) -> AbstractContextManager[object]:
        return self._base

    def begun(self) -> bool:
        if not began(self._base):
            return False
        if identity(self.where) != self._identity:  # it would be lost
            raise InputError(
                f"{self.where} was replaced or removed since it was opened: open it anew"
            )
        return True

    def has_changed(self, size: int, newest: bytes) -> bool:
        self._latest = data_version(self._base)
        return self._latest != self._seen or not size

    def look_again(self):
        self._acts = has_acts(self._base)

    def caught_up(self):
        self._seen = self._latest

    def hash_at(self, place: int) -> bytes | None:
        select = "SELECT hash FROM entries WHERE place = ?"
        found = self._base.execute(select, [place]).fetchone()
        return None if found is None else found[0]

    def row(self, place: int) -> Row | None:
        select = f"SELECT {self._fields} FROM entries WHERE place = ?"
        found = self._base.execute(select, [place]).fetchone()
        return None if found is None else Row(*found)

    def blocks(self, first: int | None = None) -> Iterator[list[Row]]:
        first = -(2**63) if first is None else first
        select = f"SELECT {self._fields} FROM entries WHERE place >= ? ORDER BY place"
        cursor = self._base.execute(select, [first])
        room = self.room()
        while True:
            rows = [Row(*values) for values in cursor.fetchmany(BLOCK)]
            if not rows:
                return
            yield rows
            room -= sum(len(row.x or b"") for row in rows)
            if room < 0:  # damaged pages may refer to one another for ever
                raise InputError(
                    f"{self.where} claims more content than it has room for: {self.way_out()}"
                )

    @property
    def _fields(self):
        return FIELDS if self._acts else FIELDS_BEFORE

    def insert(self, rows: list[Row]):
        acts = self._acts
        if not acts and any(row.act for row in rows):
            self._base.execute(ADD_ACTS)
            acts = True
        insert(self._base, rows, acts)
        self._acts = acts  # now: a failure until here leaves the table as it was

    def erase(self, places: Iterable[int]):
        erase(self._base, places, self._acts)

    def source(self, ef_search: int | None) -> NoReturn:
        raise _not_searched(self.where)

    def make_index(self, dim: int):
        raise InputError(f"{self.where} is a file, which is searched without an index")

    def cleaned(self) -> bool:
        return self._reads_only or emptied_log(self._base)
