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

from corrigible.ledger.meaning import Reading
from corrigible.proofs.rows import (
    LATEST,
    Content,
    Row,
    done_to_others,
    is_whole,
    new_rows,
    read_act,
    told_place,
)
from corrigible.proofs.tree import HASH, Tree
from corrigible.stores.store import ROWS_AT_ONCE, Store, Undone, Unknown
from corrigible.stores.waiting import as_input_error, deadline, polling, retry_undone
from ocrrlib.chain import Fault, entry_hash, file_genesis
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
        """Take verified rows, the next ones in order, as ``Reading.take`` returns them.

        An error stops the read or the write.
        """

    def erase(self, places: list[int]):
        """Drop what was taken of entries that were erased since.

        The rows that tell so are added after that, some for the second time, now with their acts.
        """


@dataclass(eq=False, repr=False)  # an error would spell it
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
                self._holds_erased = bool(self._reading.erased)
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

        Raises ``InputError`` if a label or an author has a zero byte, a word is no Unicode text,
        or an entry would be void, see ``corrigible.ledger.meaning``.
        """
        start = self.size
        n_void = len(self._reading.void)
        now = time.time_ns() // 1000
        if now <= self._time < LATEST - 1:  # times increase, whatever the clock, while they can
            now = self._time + 1
        new = new_rows(contents, start, self._newest, now)
        while True:
            rows = list(islice(new, ROWS_AT_ONCE))
            if not rows:
                break
            self.store.insert(rows)
            self._take(rows)
        if len(self._reading.void) > n_void:
            raise InputError(
                f"entry {max(self._reading.void)} would tell of no erasure, or name no earlier "
                f"entry: it is not written to {self.where}"
            )
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
        whomever, are finished as well. Raises ``InputError`` if a tombstone has an act that the
        entry did not have, if the entry was erased or tells of an erasure itself, if a void one
        would tell of it first, or if old content stays in the store because others read it.
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
            places = self._to_erase(told)
            if places:
                is_plain = self._reading.can_erase(places, [])
                try:
                    self.store.erase(places)
                    self._drop(places)
                    self.append(told)
                except BaseException:
                    self._restart()  # nothing is written
                    raise
                if not is_plain:
                    self._restart()
        return places

    def _drop(self, places):
        """Keep nothing of entries that were erased, of which tombstones are read next."""
        self._reading.erase(places)
        if self._observer is not None:
            self._observer.erase(places)

    def _to_erase(self, told):
        """Places of the entries of which tombstones may tell that they are erased now."""
        tombstones = {*self._reading.told_by.values()}
        places = []
        for content in told:
            place = told_place(content)
            if place is None:
                raise InputError(f"{content.text!r} is no place of an entry that could be erased")
            self._check_is_there(place)
            if place in tombstones:
                raise InputError(f"entry {place} tells of an erasure: there is nothing to erase")
            if done_to_others(read_act(content)) != self.done_by(place):
                raise InputError(f"entry {place} did other than its tombstone says: repeat its act")
            places.append(place)
        for void, named in self.void.items():
            if named in places and void not in places:
                raise InputError(f"erase entry {void}, too: it tells falsely that {named} was")
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
        # It can be read if the disk is full, or nobody can tell whether all is gone.
        with suppress(*self.store.errors, InputError):
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
            self._check_is_there(place)
            row = self.store.row(place)
            if row is None:
                raise Broken(self.store, Fault(place, "truncated"))
            rows[place] = row
        return rows

    def _check_is_there(self, place):
        if not 0 <= place < self.size:
            raise InputError(f"there is no entry {place} in {self.where}")

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
            self._check_is_there(place)
            return self._reading.told_by.get(place)

    def done_by(self, place: int) -> dict:
        """Return what the act of an entry does to others, as of the last call."""
        return self._reading.acts.get(place, {})

    @property
    def void(self) -> dict[int, int | None]:
        """Places of void entries, as of the last call, see ``corrigible.ledger.meaning``."""
        return self._reading.void

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
        self._reading = Reading()
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
        self._read()
        told = self._told_since(size)
        if told:
            self._holds_erased = True
            places = [*dict.fromkeys(told.values())]
            if self._reading.can_erase(places, told):
                self._drop(places)
                self._take_again(told)
            else:
                self._restart()
                self._read()
        untold = self._reading.erased - self._reading.told_by.keys()
        if untold:
            self._restart()  # it is read again at the next call
            raise Broken(self.store, Fault(min(untold), "changed"))
        self.store.mark_read()

    def _told_since(self, size):
        """Places of the first ``size`` entries that were erased since they were read.

        By the places of newer entries that tell so, and are void as far as it is known.
        """
        told = {}
        for place in reversed(self._reading.void):
            if place < size:
                break
            named = self._reading.void[place]
            if named is not None and 0 <= named < size and named not in self._reading.erased:
                if self._is_erased(named):
                    told[place] = named
        return dict(sorted(told.items()))

    def _is_erased(self, place):
        """Whether an entry that was read is erased by now; ``Broken`` if it is another one."""
        row = self.store.row(place)
        hash = bytes(self.tree.leaves[place * HASH : (place + 1) * HASH])
        if row is None or not is_whole(row) or entry_hash(*row[:4]) != hash or row.hash != hash:
            raise Broken(self.store, Fault(place, "changed"))
        return row.salt is None

    def _take_again(self, places):
        """Take entries that tell of erasures, now that these are known."""
        for place in places:
            row = self.store.row(place)
            del self._reading.void[place]
            understood = self._reading.take([row])
            if self._observer is not None:
                self._observer.add(understood)

    def _check_newest(self, place):
        """Raise ``Broken`` unless the newest entry known is still there."""
        found = self.store.hash_at(place)
        if found is None:
            raise Broken(self.store, Fault(place, "truncated"))
        if found != self._newest:
            raise Broken(self.store, Fault(place, "forked"))

    def _read(self):
        """Verify and take the entries after those known."""
        first = self.size or None  # not 0: no place below is overlooked
        try:
            for rows in self.store.blocks(first):
                self._verify_rows(rows)
                self._take(rows)
        except BaseException:
            self._restart()  # the observer may have taken part of a block
            raise

    def _verify_rows(self, rows):
        """Raise ``Broken`` unless the rows follow those known."""
        previous = self._newest
        for place, row in enumerate(rows, self.size):
            is_next = row.place == place and row.previous == previous
            if not is_next or not is_whole(row) or entry_hash(*row[:4]) != row.hash:
                raise Broken(self.store, Fault(place, "changed"))
            previous = row.hash

    def _take(self, rows):
        self.tree.leaves += b"".join([row.hash for row in rows])
        understood = self._reading.take(rows)
        self.size += len(rows)
        self._newest = rows[-1].hash
        self._time = rows[-1].time
        if self._observer is not None:
            self._observer.add(understood)
