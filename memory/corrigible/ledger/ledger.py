"""A ledger in a store: verified as it is read, and only appended to."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from operator import index
from random import uniform
from typing import Protocol

from corrigible.ledger.writers import Writers
from corrigible.proofs.heads import Head
from corrigible.proofs.keys import Key
from corrigible.proofs.proofs import proof_text
from corrigible.proofs.rows import Content, Row, is_whole, new_rows
from corrigible.proofs.tree import Tree
from corrigible.proofs.witnesses import request
from corrigible.stores.store import ROWS_AT_ONCE, Store
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


class StoredLedger(AbstractContextManager):
    """A ledger in a store.

    Any thread may call the methods; what they wrote is durable when they return. ``observer`` is
    handed every row once it is verified. ``len`` counts all entries; erased ones and tombstones
    count;
    ``size`` those known as of the last call.

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
        self._writers = Writers(self)
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
            self._finish_erasure()

    def __len__(self) -> int:
        with self._locked():
            self._catch_up()
            return self.size

    @property
    def has_failed(self) -> bool:
        """Whether a ``transaction`` can only be undone."""
        return self.store.has_failed

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
            self._finish_erasure()

    def write(self, contents: Callable[[], Iterable[Content]]) -> range:
        """Append entries, with those of other threads that wait; see ``Writers.write``."""
        return self._writers.write(contents)

    @contextmanager
    def transaction(self, until: float | None = None) -> Iterator[None]:
        """Read all new entries and exclude other writers; an exception undoes all writes.

        Waits for other programs until a time of ``time.monotonic``, by default ``LOCK_TIMEOUT``.
        """
        with self._locked():
            if not self.size:  # all would be read while others wait to write
                self._catch_up()
            start = self.size
            try:
                with self.store.writing():
                    self._exclude_others(deadline() if until is None else until)
                    self._catch_up()
                    start = self.size
                    yield
            except BaseException:
                if self.size > start:  # it has rows that were not written
                    self._restart()
                raise
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
        if self._holds_erased:
            self._holds_erased = not self.store.cleans_itself
            with suppress(*self.store.errors):  # if the disk is full, it can be read
                self._holds_erased = not self.store.cleaned() and self._holds_erased

    def entry(self, place: int) -> dict:
        """Return the fields of an entry, bytes in hexadecimal digits, without those erased."""
        return self.entries([place])[index(place)]

    def entries(self, places: Iterable[int]) -> dict[int, dict]:
        """Return the fields of entries, as ``entry`` does, by their places."""
        with self._locked():
            self._catch_up()
            rows = {place: self.store.row(place) for place in map(index, places)}
        for place, row in rows.items():
            if row is None:
                raise InputError(f"there is no entry {place!r} in {self.where}")
        return {place: row.fields() for place, row in rows.items() if row is not None}

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
                f"{self.where} does not extend the head of {old.origin} with {old.size} entries: "
                "verify it"
            )

    # Locking and reading

    def _exclude_others(self, until):
        """Begin a transaction that excludes other writers; threads go on while it waits."""
        while not self.store.try_begin():
            if time.monotonic() > until:
                raise TimeoutError("database is locked by another program that writes")
            self._lock.wait(uniform(0, LONGEST_WAIT))

    @contextmanager
    def _locked(self):
        """Keep other threads out, and turn errors of the store into ``InputError``."""
        with as_input_error(self.where, self.store.errors, self.store.remedy), self._lock:
            yield

    def _restart(self):
        """Forget all rows."""
        self._tree = Tree()
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
        self._tree.extend([row.hash for row in rows])
        self.size += len(rows)
        self._newest = rows[-1].hash
        self._time = rows[-1].time
        if self._observer is not None:
            self._observer.add(rows)
