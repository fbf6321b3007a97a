"""The file of a ledger: verified as it is read, and only appended to."""

import os
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from operator import index
from os import PathLike
from pathlib import Path
from random import uniform
from typing import Protocol

from ocrrlib.chain import Fault, file_genesis, verify_entry
from ocrrlib.files import InputError
from ocrrlib.memory.damage import diagnose
from ocrrlib.memory.database import (
    ADD_ACTS,
    began,
    close_unchanged,
    connect,
    connect_to_read,
    data_version,
    deadline,
    emptied_log,
    erase,
    has_acts,
    identity,
    insert,
    keep_log,
    read_about,
    size_on_disk,
    tries,
    waits_no_more,
    way_out,
)
from ocrrlib.memory.heads import Head
from ocrrlib.memory.keys import Key
from ocrrlib.memory.proofs import proof_text
from ocrrlib.memory.rows import FIELDS, FIELDS_BEFORE, Content, Row, is_whole, new_rows
from ocrrlib.memory.tree import Tree
from ocrrlib.memory.witnesses import request
from ocrrlib.memory.writers import Writers

BLOCK = 256  # rows read at once
LONGEST_WAIT = 0.002  # seconds between attempts to write, by chance: all get their turn
# What one path's file is verified with cannot write: no other connection here may share it.
VERIFIED: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)


class Broken(InputError):
    """A file is not as it was written: ``fault`` is the first broken entry."""

    def __init__(self, path: Path, fault: Fault):
        super().__init__(f"{path} is not as it was written, {fault}: {way_out(path)}")
        self.fault = fault


class Observer(Protocol):
    """An object that keeps what it needs of the rows of a ledger's file."""

    def clear(self):
        """Drop all rows: they are read again, since an entry was erased or a write failed."""

    def add(self, rows: list[Row]):
        """Take verified rows, the next ones in order; an error stops the read or the write."""


class LedgerFile(AbstractContextManager):
    """A ledger in a file.

    A file that is missing or empty is made, for texts if ``encoder`` gives name and probe of one,
    see ``ocrrlib.memory.identity``; if ``read_only``, nothing is written to disk at all. Any thread
    may call the methods; what they wrote is on disk when they return. ``observer`` is handed every
    row once it is verified. ``len`` counts all entries; erased ones and tombstones count.

    Raises ``InputError`` if the file cannot be used, ``Broken`` if it is not as it was written.
    """

    def __init__(
        self,
        path: str | PathLike,
        encoder: Callable[[], tuple[str, str]] | None = None,
        observer: Observer | None = None,
        read_only: bool = False,
    ):
        # The log goes by the file's own name: through a link SQLite would find another one.
        self.path = Path(os.path.realpath(path))
        self._observer = observer
        self._lock = threading.Condition()  # can be left for a moment
        self._writers = Writers(self)
        self._read_only = read_only
        self._holds_erased = False  # whether the log may hold what was erased
        self._acts = False  # whether the table has acts, as of the last reading
        with self._locked():
            if read_only:
                self._base = connect_to_read(self.path)
            else:
                with VERIFIED[self.path]:
                    self._base = connect(self.path, encoder)
            self._identity = identity(self.path)
            try:
                about, self.origin, self.encoder, self.probe = read_about(self._base)
                self._genesis = file_genesis(about)
                self._restart()
                self._catch_up()
                self._holds_erased = bool(self._erased)
                if not read_only:
                    with suppress(sqlite3.OperationalError):  # if the disk is full, it can be read
                        keep_log(self._base)  # a copy that SQLite made has none
                        waits_no_more(self._base)
            except BaseException:
                close_unchanged(self._base, self.path)
                raise
            self._finish_erasure()

    def __len__(self) -> int:
        with self._locked():
            self._catch_up()
            return len(self._tree)

    @property
    def size(self) -> int:
        """Number of entries known, as of the last call."""
        return len(self._tree)

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Close the file."""
        with self._locked():
            self._base.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read all new entries; until the end, entries that others erase are still there."""
        with self._locked():
            with self._base:
                self._base.execute("BEGIN")
                self._catch_up()
                yield
            self._finish_erasure()

    def write(self, contents: Callable[[], Iterable[Content]]) -> range:
        """Append entries, with those of other threads that wait; see ``Writers.write``."""
        return self._writers.write(contents)

    @contextmanager
    def transaction(self, until: float | None = None) -> Iterator[None]:
        """Read all new entries and exclude other writers; an exception undoes all writes.

        Waits for other programs until a time of ``time.monotonic``, by default ``PATIENCE``.
        """
        with self._locked():
            start = len(self._tree)
            try:
                with self._base:
                    self._exclude_others(deadline() if until is None else until)
                    if identity(self.path) != self._identity:  # it would be lost
                        raise InputError(
                            f"{self.path} was replaced or removed since it was opened: open it anew"
                        )
                    self._catch_up()
                    start = len(self._tree)
                    yield
            except BaseException:
                if len(self._tree) > start:  # it has rows that were not written
                    self._restart()
                raise
            self._finish_erasure()

    def append(self, contents: Iterable[Content]) -> range:
        """Append entries, within a ``transaction``; return their places.

        Raises ``InputError`` if a label or an author has a zero byte, or a word is no Unicode text.
        """
        start = len(self._tree)
        now = max(time.time_ns() // 1000, self._time + 1)  # times increase, whatever the clock
        new = new_rows(contents, start, self._newest, now)
        while True:
            rows = list(islice(new, BLOCK))
            if not rows:
                break
            acts = self._acts
            if not acts and any(row.act for row in rows):
                self._base.execute(ADD_ACTS)
                acts = True
            insert(self._base, rows, acts)
            self._take(rows)
            self._acts = acts  # now: a failure until here leaves the table as it was
        return range(start, len(self._tree))

    def erase(self, tombstones: Callable[[], list[Content]]) -> list[int]:
        """Erase salt and content of the entries of which tombstones tell; return their places.

        ``tombstones`` is called when all entries are read and other writers excluded; all is
        erased, or nothing. Erasures that were not finished, by whomever, are finished as well.
        Raises ``InputError`` if the pages with the old content stay in the log because others read
        them.
        """
        with self.transaction():
            told = tombstones()
            places = [int(content.text or "") for content in told]
            if places:
                self.append(told)
                erase(self._base, places, self._acts)
                self._restart()  # the observer has them
        self._holds_erased = True
        if not self._log_got_empty():
            which = ", ".join(map(str, places[:9])) + ", ..." * (len(places) > 9)
            raise InputError(
                f"erased ({which or 'before'}), but others still read {self.path}, whose log may "
                "hold the content: close them, then erase it again"
            )
        return places

    def _log_got_empty(self):
        """Empty the log, as soon as nobody reads it; False if somebody does for too long."""
        for _ in tries():
            with self._locked():  # not while it waits: other threads go on
                if emptied_log(self._base):
                    self._holds_erased = False
                    return True
        return False

    def _finish_erasure(self):
        """Empty the log of what was erased, by a process that may have been killed, if one can."""
        if self._holds_erased and not self._read_only:
            with suppress(sqlite3.OperationalError):  # if the disk is full, it can be read
                self._holds_erased = not emptied_log(self._base)

    def entry(self, place: int) -> dict:
        """Return the fields of an entry, bytes in hexadecimal digits, without those erased."""
        with self._locked():
            self._catch_up()
            select = f"SELECT {self._fields} FROM entries WHERE place = ?"
            found = self._base.execute(select, [index(place)]).fetchone()
        if found is None:
            raise InputError(f"there is no entry {place!r} in {self.path}")
        fields = {}
        for name, value in Row(*found)._asdict().items():
            if value is not None:
                fields[name] = value.hex() if isinstance(value, bytes) else value
        return fields

    def rows(self) -> list[Row]:
        """Return all entries."""
        with self.snapshot():
            return [*self.scan()]

    def scan(self) -> Iterator[Row]:
        """Read one entry after the other, within a ``snapshot`` or a ``transaction``."""
        select = f"SELECT {self._fields} FROM entries ORDER BY place"
        for values in self._base.execute(select):
            yield Row(*values)

    def told_by(self, place: int) -> int | None:
        """Return the place of the tombstone of an erased entry; None if it was not erased."""
        with self._locked():
            self._catch_up()
            return self._tombstones.get(place)

    def root(self, size: int) -> bytes:
        """Return the Merkle root of the first ``size`` entries."""
        with self._locked():
            return self._tree.root(size)

    def head(self, key: Key | None = None) -> Head:
        """Return the head as of now, signed by a key if one is given."""
        with self._locked():
            size = len(self)
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            head = Head(self.origin, size, self.root(size), now)
        return head if key is None else head.signed(key)

    def prove_entry(
        self, place: int, key: Key | None = None, head: Head | str | None = None
    ) -> str:
        """Return a C2SP tlog-proof that an entry is under a head, by default the newest.

        ``key`` signs the newest head. Raises ``InputError`` if there is no such entry, the head
        does not know it, or the file does not extend the head.
        """
        with self._locked():
            newest = self.head(key)
            shown = newest if head is None else Head.read(head)
            self._check_extends(shown, newest)
            entry = self.entry(place)
            if entry["place"] >= shown.size:
                raise InputError(
                    f"a head of {shown.size} entries does not know entry {place}: take a newer one"
                )
            path = self._tree.inclusion_proof(entry["place"], shown.size)
        return proof_text(entry, path, shown)

    def prove_extension(self, old_head: Head | str, key: Key | None = None) -> str:
        """Return a C2SP tlog-witness request: a proof that the newest head extends an older one.

        ``key`` signs the newest head. Raises ``InputError`` if the file does not extend it.
        """
        with self._locked():
            newest = self.head(key)
            old = Head.read(old_head)
            self._check_extends(old, newest)
            path = self._tree.consistency_proof(old.size, newest.size)
        return request(old.size, path, newest)

    def consistency(self, old: int, size: int) -> list[bytes]:
        """Return the proof that the first ``size`` entries extend the first ``old`` ones."""
        with self._locked():
            return self._tree.consistency_proof(old, size)

    def known_size(self, head: Head | str) -> int:
        """Return the size of a head; ``InputError`` unless the file extends it."""
        with self._locked():
            old = Head.read(head)
            self._check_extends(old, self.head())
        return old.size

    def _check_extends(self, old, newest):
        extends = old.origin == newest.origin and old.size <= newest.size
        if not extends or old.root != self.root(old.size):
            raise InputError(
                f"{self.path} does not extend the head of {old.origin} with {old.size} entries: "
                "verify it"
            )

    # Locking and reading

    def _exclude_others(self, until):
        """Begin a transaction that excludes other writers; threads go on while it waits."""
        while not began(self._base):
            if time.monotonic() > until:
                raise sqlite3.OperationalError("database is locked")
            self._lock.wait(uniform(0, LONGEST_WAIT))

    @contextmanager
    def _locked(self):
        """Keep other threads out, and turn errors of SQLite and the disk into ``InputError``."""
        try:
            with self._lock:
                yield
        except (sqlite3.Error, OSError, OverflowError, UnicodeDecodeError, MemoryError) as error:
            why = " ".join(str(error).split()) or "no memory is left"  # it may quote the file
            remedy = "check disk, permissions and other programs, or choose another file"
            if type(error) is sqlite3.DatabaseError:  # not as with a full disk: it is damaged
                remedy = f"{way_out(self.path)}, or choose another file"
            raise InputError(
                f"cannot use {self.path} as a correction memory ({why}): {remedy}"
            ) from error

    @property
    def _fields(self):
        return FIELDS if self._acts else FIELDS_BEFORE

    def _restart(self):
        """Forget all rows."""
        self._tree = Tree()
        self._newest = self._genesis  # hash of the newest entry
        self._time = 0  # of the newest entry
        self._erased = set()  # places
        self._tombstones = {}  # their places, by those that they name
        self._version = None  # SQLite's data version when the file was last read
        if self._observer is not None:
            self._observer.clear()

    def _catch_up(self):
        """Verify and take what was written since, by whichever process."""
        version = data_version(self._base)
        if version == self._version:
            return
        self._acts = has_acts(self._base)
        size = len(self._tree)
        if size:
            self._check_newest(size - 1)
        unmatched = self._read()
        if unmatched and size:  # an entry read before was erased since
            self._holds_erased = True
            self._restart()
            unmatched = self._read()
        if unmatched:
            raise Broken(self.path, Fault(min(unmatched), "changed"))
        self._version = version

    def _check_newest(self, place):
        """Raise ``Broken`` unless the newest entry known is still there."""
        found = self._base.execute("SELECT hash FROM entries WHERE place = ?", [place]).fetchone()
        if found is None:
            raise Broken(self.path, Fault(place, "truncated"))
        if found != (self._newest,):
            raise Broken(self.path, Fault(place, "forked"))

    def _read(self):
        """Verify and take the entries after those known.

        Returns the places of erasures without a tombstone, and of tombstones without an erasure.
        """
        first = len(self._tree) or -(2**63)  # not 0: no place below is overlooked
        select = f"SELECT {self._fields} FROM entries WHERE place >= ? ORDER BY place"
        cursor = self._base.execute(select, [first])
        room = size_on_disk(self.path)
        try:
            while True:
                rows = [Row(*values) for values in cursor.fetchmany(BLOCK)]
                if not rows:
                    break
                self._verify_rows(rows)
                room -= sum(len(row.x or b"") for row in rows)
                if room < 0:  # damaged pages may refer to one another for ever
                    raise InputError(
                        f"{self.path} claims more content than it has room for: "
                        f"{way_out(self.path)}"
                    )
                self._take(rows)
        except BaseException:
            self._restart()  # the observer may have taken part of a block
            raise
        return self._erased ^ self._tombstones.keys()

    def _verify_rows(self, rows):
        """Raise ``Broken`` unless the rows follow those known."""
        previous = self._newest
        for place, row in enumerate(rows, len(self._tree)):
            whole = is_whole(row)
            if not whole or not verify_entry(row.link, place, previous):
                select = "SELECT previous, hash FROM entries ORDER BY place"
                links = self._base.execute(select).fetchall()
                fault = diagnose(row.link, place, whole, self._genesis, links)
                raise Broken(self.path, fault)
            if row.salt is None:
                self._erased.add(place)
            elif not row.x and row.text is not None:
                self._tombstones[int(row.text)] = place
            previous = row.hash

    def _take(self, rows):
        self._tree.extend([row.hash for row in rows])
        self._newest = rows[-1].hash
        self._time = rows[-1].time
        if self._observer is not None:
            self._observer.add(rows)
