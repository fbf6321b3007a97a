"""A ledger in a store: verified as it is read, and only appended to, by any number of threads."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from operator import index
from random import uniform
from typing import Protocol

from corrigible.proofs.rows import Content, Row, is_whole, new_rows
from corrigible.proofs.tree import Tree
from corrigible.stores.store import ROWS_AT_ONCE, Store, Undone, Unknown
from corrigible.stores.waiting import as_input_error, deadline, polling, retry_undone
from ocrrlib.chain import Fault, file_genesis, verify_entry
from ocrrlib.files import InputError

LONGEST_WAIT = 0.002  # seconds between attempts to write, by chance: all get their turn


class Broken(InputError):
    """A ledger is not as it was written: ``fault`` is the first broken entry."""

    def __init__(self, store: Store, fault: Fault):
        super().__init__(f"{store.where} is not as it was written, {fault}: {store.way_out()}")
        self.fault = fault


class Observer(Protocol):
    """An object that keeps what it needs of the rows of a ledger."""

    def clear(self):
        """Drop all rows: they are read again, since an entry was erased or a write failed."""

    def add(self, rows: list[Row]):
        """Take verified rows, the next ones in order; an error stops the read or the write."""


@dataclass(eq=False)
class PendingWrite:
    """Entries that a thread writes until a time, and what came of it: their places, or an error."""

    contents: Callable[[], Iterable[Content]]
    until: float = field(default_factory=deadline)
    outcome: range | BaseException | None = None  # None as long as it waits


class StoredLedger(AbstractContextManager):
    """A ledger in a store.

    Any thread may call the methods; what they wrote is durable when they return. ``observer`` is
    handed every row once it is verified. ``len`` counts all entries; erased ones and tombstones
    count; ``size`` those known as of the last call, and ``tree`` has their hashes.

    Raises ``InputError`` if the store cannot be used, ``Broken`` if it is not as it was written.
    """

    def __init__(self, store: Store, observer: Observer | None = None):
        self.store = store
        self.where = store.where
        self.origin = store.about.origin
        self.encoder = store.about.encoder
        self.probe = store.about.probe
        self._genesis = file_genesis(store.about.text)
        self._observer = observer
        self._lock = threading.Condition()  # can be left for a moment
        self._waiting: deque[PendingWrite] = deque()
        self._is_busy = False  # whether a thread writes what waits
        self._turn = threading.Condition()  # to be that thread
        self._holds_erased = False  # whether the store may hold what was erased
        with self._locked():
            try:
                self._restart()
                self._catch_up()
                self._holds_erased = bool(self._erased)
                store.prepare_writes()
            except BaseException:
                store.close_untouched()
                raise
            if self._holds_erased:
                self._finish_erasure()

    def __len__(self) -> int:
        with self._locked():
            self._catch_up()
            return self.size

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Close the store."""
        with self._locked():
            self.store.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read all new entries; until the end, entries that others erase are still there."""
        with self._locked():
            with self.store.reading():
                self._catch_up()
                yield
            if self._holds_erased:
                self._finish_erasure()

    # Writing

    def write(self, contents: Callable[[], Iterable[Content]]) -> range:
        """Append entries; return their places once they are on disk.

        Threads that wait share a transaction and its flush: one of them writes what all wait for,
        each as if it came alone, after those before it. If all is undone for one of them, each
        writes its own. ``contents`` is called within the transaction, by any of the threads, and
        again if that was undone. Raises what it raises, and as ``transaction`` and ``append`` do.
        """
        own = PendingWrite(contents)
        self._waiting.append(own)
        try:
            with self._turn:
                while self._is_busy and own.outcome is None:
                    self._turn.wait()
                is_next = own.outcome is None
                self._is_busy = self._is_busy or is_next
            if is_next:
                self._write_waiting(own)
        finally:
            with suppress(ValueError):  # it was taken
                self._waiting.remove(own)
        if isinstance(own.outcome, range):
            return own.outcome
        assert own.outcome is not None
        raise own.outcome

    def _write_waiting(self, own):
        """Write what all threads wait for, or if that is undone, what this one does."""
        try:
            if own in self._waiting:
                self._write_together(own)
            if own.outcome is None:
                with suppress(ValueError):  # it was taken, and undone
                    self._waiting.remove(own)
                own.outcome = retry_undone(lambda: self._write_alone(own), own.until)
        finally:
            with self._turn:
                self._is_busy = False
                self._turn.notify_all()

    def _write_together(self, own):
        """Write all that waits and tell each; nobody if all was undone for one of the others."""
        batch: list[PendingWrite] = []
        outcomes: list[range | BaseException] = []
        is_whole = False
        try:
            with self.transaction(own.until):  # begins, and reads what others wrote
                for _ in range(len(self._waiting)):
                    batch.append(self._waiting.popleft())
                    outcomes.append(self._appended(batch[-1]))
                is_whole = True
        except Undone:
            return
        except Unknown as error:
            outcomes = [error.only(one) if isinstance(one, range) else one for one in outcomes]
        except BaseException as error:
            if not is_whole:
                if batch != [own] and isinstance(error, Exception):
                    return
                raise
            outcomes = [error] * len(batch)  # they may be on disk: not to be written again
        for write, outcome in zip(batch, outcomes, strict=True):
            write.outcome = outcome

    def _appended(self, write):
        """Places of what one of them writes, or why nothing of it was; other errors are raised."""
        size = self.size
        try:
            return self.append(write.contents())
        except InputError as error:
            is_undone = isinstance(error, Undone) or self.store.has_failed
            if is_undone or self.size != size:
                raise
            return error

    def _write_alone(self, write):
        with self.transaction(write.until):
            return self.append(write.contents())

    @contextmanager
    def transaction(self, until: float | None = None) -> Iterator[None]:
        """Read all new entries and exclude other writers; an exception undoes all writes.

        Waits for other programs until a time of ``time.monotonic``, by default ``LOCK_TIMEOUT``.
        """
        with self._locked():
            until = deadline() if until is None else until
            if not self.size:  # all would be read while others wait to write
                self._catch_up()
            start = self.size
            try:
                with self.store.writing():
                    while not self.store.try_begin():
                        if time.monotonic() > until:
                            raise TimeoutError("database is locked by another program that writes")
                        self._lock.wait(uniform(0, LONGEST_WAIT))  # threads go on meanwhile
                    self._catch_up()
                    start = self.size
                    yield
            except BaseException:
                if self.size > start:  # it has rows that were not written
                    self._restart()
                raise
            if self._holds_erased:
                self._finish_erasure()

    def append(self, contents: Iterable[Content]) -> range:
        """Append entries, within a ``transaction``; return their places.

        Raises ``InputError`` if a label or an author has a zero byte, or a word is no Unicode text.
        """
        start = self.size
        now = max(time.time_ns() // 1000, self._time + 1)  # times increase, whatever the clock
        new = new_rows(contents, start, self._newest, now)
        while True:
            rows = list(islice(new, ROWS_AT_ONCE))
            if not rows:
                break
            self.store.insert(rows)
            self._take(rows)
        return range(start, self.size)

    def adopt(self, blocks: Iterable[list[Row]]) -> None:
        """Append the entries of a ledger that this is a copy of, within a ``transaction``."""
        for rows in blocks:
            self._verify_rows(rows)
            self.store.insert(rows)
            self._take(rows)

    def erase(self, tombstones: Callable[[], list[Content]]) -> list[int]:
        """Erase salt and content of the entries of which tombstones tell; return their places.

        ``tombstones`` is called when all entries are read and other writers excluded, and again if
        the write was undone; all is erased, or nothing. Erasures that were not finished, by
        whomever, are finished as well. Raises ``InputError`` if old content stays in the store
        because others read it.
        """
        places = retry_undone(lambda: self._erase(tombstones), deadline())
        self._holds_erased = True
        if not self._is_cleaned():
            which = ", ".join(map(str, places[:9])) + ", ..." * (len(places) > 9)
            raise InputError(
                f"erased ({which or 'before'}), but others still read {self.where}, "
                f"{self.store.residue}: close them, then erase it again"
            )
        return places

    def _erase(self, tombstones):
        """Erase and tell, in one transaction."""
        with self.transaction():
            told = tombstones()
            places = [int(content.text or "") for content in told]
            if places:
                self.append(told)
                self.store.erase(places)
                self._restart()  # the observer has them
        return places

    def _is_cleaned(self):
        """Remove what is left, as soon as nobody reads it; False if somebody does for too long."""
        for _ in polling():
            with self._locked():  # not while it waits: other threads go on
                if self.store.cleaned():
                    self._holds_erased = False
                    return True
        return False

    def _finish_erasure(self):
        """Remove what a process left that erased and may have been killed, if one can."""
        self._holds_erased = not self.store.cleans_itself
        with suppress(*self.store.errors):  # if the disk is full, it can be read
            self._holds_erased = not self.store.cleaned() and self._holds_erased

    # Reading

    def entry(self, place: int) -> dict:
        """Return the fields of an entry, bytes in hexadecimal digits, without those erased."""
        place = index(place)
        with self._locked():
            self._catch_up()
            return self.rows_at([place])[place].fields()

    def rows_at(self, places: Iterable[int]) -> dict[int, Row]:
        """Return entries by their places, within a ``snapshot`` or a ``transaction``."""
        rows = {}
        for place in places:
            row = self.store.row(place)
            if row is None:
                raise InputError(f"there is no entry {place!r} in {self.where}")
            rows[place] = row
        return rows

    def rows(self) -> list[Row]:
        """Return all entries."""
        with self.snapshot():
            return [*self.scan()]

    def scan(self) -> Iterator[Row]:
        """Read one entry after the other, within a ``snapshot`` or a ``transaction``."""
        for rows in self.store.blocks():
            yield from rows

    def make_index(self, dim: int) -> None:
        """Let the store index its vectors (d,); others may read and write meanwhile."""
        with as_input_error(self.where, self.store.errors, self.store.remedy):
            self.store.make_index(dim)

    def told_by(self, place: int) -> int | None:
        """Return the place of the tombstone of an erased entry; None if it was not erased."""
        with self._locked():
            self._catch_up()
            return self._tombstones.get(place)

    # Locking and verifying

    @contextmanager
    def _locked(self):
        """Keep other threads out, and turn errors of the store into ``InputError``."""
        with as_input_error(self.where, self.store.errors, self.store.remedy), self._lock:
            yield

    def _restart(self):
        """Forget all rows."""
        self.tree = Tree()
        self.size = 0
        self._newest = self._genesis  # hash of the newest entry
        self._time = 0  # of the newest entry
        self._erased = set()  # places
        self._tombstones = {}  # their places, by those that they name
        if self._observer is not None:
            self._observer.clear()

    def _catch_up(self):
        """Verify and take what was written since, by whichever process."""
        size = self.size
        if not self.store.has_changed(size, self._newest):
            return
        self.store.check_tables()
        if size:
            self._check_newest(size - 1)
        unmatched = self._read()
        if unmatched and size:  # an entry read before was erased since
            self._holds_erased = True
            self._restart()
            unmatched = self._read()
        if unmatched:
            self._restart()  # it is read again at the next call
            raise Broken(self.store, Fault(min(unmatched), "changed"))
        self.store.mark_read()

    def _check_newest(self, place):
        """Raise ``Broken`` unless the newest entry known is still there."""
        found = self.store.hash_at(place)
        if found is None:
            raise Broken(self.store, Fault(place, "truncated"))
        if found != self._newest:
            raise Broken(self.store, Fault(place, "forked"))

    def _read(self):
        """Verify and take the entries after those known.

        Returns the places of erasures without a tombstone, and of tombstones without an erasure.
        """
        first = self.size or None  # not 0: no place below is overlooked
        try:
            for rows in self.store.blocks(first):
                self._verify_rows(rows)
                self._take(rows)
        except BaseException:
            self._restart()  # the observer may have taken part of a block
            raise
        return self._erased ^ self._tombstones.keys()

    def _verify_rows(self, rows):
        """Raise ``Broken`` unless the rows follow those known."""
        previous = self._newest
        for place, row in enumerate(rows, self.size):
            if not is_whole(row) or not verify_entry(row.link, place, previous):
                raise Broken(self.store, Fault(place, "changed"))
            if row.salt is None:
                self._erased.add(place)
            elif not row.x and row.text is not None:
                self._tombstones[int(row.text)] = place
            previous = row.hash

    def _take(self, rows):
        for row in rows:
            self.tree.leaves += row.hash
        self.size += len(rows)
        self._newest = rows[-1].hash
        self._time = rows[-1].time
        if self._observer is not None:
            self._observer.add(rows)
