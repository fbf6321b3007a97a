"""Vectors and labels of a ledger in RAM, for the reader: of now, or of an earlier size."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from corrigible.ledger.meaning import Meaning, acts_of
from corrigible.proofs.rows import VALUE, Row
from corrigible.stores.database_search import DatabaseEntries, Source, WithExtra
from ocrrlib.files import InputError
from ocrrlib.search import Entries


class Origin(NamedTuple):
    """Place and time of the entry that a vector is from, and its label."""

    place: int
    time: int
    label: str


def content_key(text: str | None, x: bytes | memoryview) -> int:
    """The same number for equal texts, whatever their blanks, or equal vectors without text.

    It holds in this process alone.
    """
    return hash(bytes(x) if text is None else " ".join(text.split()))


SPARSE = 16  # places a key in a new table; with half of them, few are taken by others yet


class Numbers:
    """Whole numbers in one growing array: ``values`` (n,)."""

    def __init__(self, values: Sequence[int] | np.ndarray = ()):
        self._room = np.asarray(values, np.int64)
        self.values = self._room

    def extend(self, values: Sequence[int] | np.ndarray) -> None:
        """Append numbers; amortised constant time for each."""
        n = len(self.values)
        size = n + len(values)
        if size > len(self._room):
            self._room = np.empty(size + size // 8 + 64, np.int64)
            self._room[:n] = self.values
        self._room[n:size] = values
        self.values = self._room[:size]


class Keys(Numbers):
    """Numbers of which it is known at once that most others are not among them."""

    def __init__(self) -> None:
        super().__init__()
        self._is_taken = np.zeros(1, bool)  # by the last bits of the numbers

    def extend(self, values: Sequence[int] | np.ndarray) -> None:
        """Append numbers; amortised constant time for each."""
        start = len(self.values)
        super().extend(values)
        if SPARSE * len(self.values) > 2 * len(self._is_taken):
            self._is_taken = np.zeros(SPARSE << len(self.values).bit_length(), bool)
            start = 0
        self._is_taken[self._last_bits(self.values[start:])] = True

    def slots_of(self, numbers: Sequence[int]) -> np.ndarray:
        """Where one of some numbers stands: slots (n,), in order."""
        wanted = np.asarray(numbers, np.int64)
        wanted = wanted[self._is_taken[self._last_bits(wanted)]]
        if not len(wanted):
            return wanted
        return np.flatnonzero(np.isin(self.values, wanted))

    def _last_bits(self, numbers):
        return numbers & (len(self._is_taken) - 1)


def _n_equal(values):
    """How many of the first values are equal."""
    others = np.flatnonzero(values != values[:1])
    return int(others[0]) if len(others) else len(values)


class LiveVectors:
    """Vectors that count, in their order: what a system reads.

    ``entries`` has vectors and class ids, ``labels`` the label of each class id, in the order in
    which they came first; ``places`` and ``times`` are those of the vectors' entries. The first
    ``n_first`` were written at once.
    """

    def __init__(
        self,
        entries: Entries,
        places: Numbers | None = None,
        times: np.ndarray | None = None,
        labels: Sequence[str] = (),
    ):
        self.entries = entries
        self.labels = [*labels]
        self._ids = {label: id for id, label in enumerate(labels)}
        self.places = Numbers() if places is None else places
        self.times = Numbers(() if times is None else times)
        self.n_first = _n_equal(self.times.values)

    def origin(self, slot: int) -> Origin:
        """Where the vector in a slot is from."""
        label = self.labels[self.entries.y[slot]]
        return Origin(int(self.places.values[slot]), int(self.times.values[slot]), label)

    def extend(self, X: np.ndarray, rows: list[Row]) -> None:
        """Take vectors X (n, d) of rows that were written since."""
        labels = [row.label or "" for row in rows]
        for label in dict.fromkeys(labels):
            if label not in self._ids:
                self._ids[label] = len(self.labels)
                self.labels.append(label)
        self.places.extend([row.place for row in rows])
        self.times.extend([row.time for row in rows])
        if self.n_first == self.entries.size:
            # Of all before the last one the times are equal.
            start = max(0, self.n_first - 1)
            self.n_first = start + _n_equal(self.times.values[start:])
        self.entries.extend(X, np.array([self._ids[label] for label in labels], np.int64))

    def with_extra(self, x: np.ndarray, y: int, without: int | None) -> tuple[Entries, int]:
        """Entries as they would be with one more, and how many of them were written at once.

        It is x (d,) of class id ``y``; the one at place ``without`` is left out.
        """
        if isinstance(self.entries, DatabaseEntries):
            return WithExtra(self.entries, x, y, without), self.n_first
        if without is None:
            more = Entries.sharing(self.entries.X, self.entries.y)
            n_first = self.n_first
        else:
            stays = self.places.values != without
            more = Entries.sharing(self.entries.X[stays], self.entries.y[stays])
            n_first = max(1, int(stays[: self.n_first].sum()))
        more.append(x, y)
        return more, n_first


class Vectors:
    """All vectors of a ledger, and all acts; an ``Observer`` of a ``StoredLedger``.

    ``written`` has the vectors with the labels that they were written with, whether they count or
    not. They are held here, or stay in a database: the ``source``, see ``DatabaseEntries``.
    """

    def __init__(
        self,
        where: object,
        room: Callable[[], int],
        source: Source | None = None,
        ef_search: int | None = None,
    ):
        """Hold what is read from ``where``, as messages name it, which has ``room`` in bytes."""
        self._where = where
        self._room = room
        self._source = source
        self._ef_search = ef_search
        self.clear()

    def clear(self):
        """Drop all rows."""
        self.dim = 0  # of the vectors, as far as it is known
        self._keys = Keys()  # of what was written, in its order
        self.written = self._no_vectors(0)
        self._acts: list[tuple[int, dict]] = []  # places, and what is said there of other entries
        self._count_anew()

    def _count_anew(self):
        """Make ``meaning`` and ``counted`` anew when they are asked for."""
        self.__dict__.pop("meaning", None)
        self.__dict__.pop("counted", None)

    def _no_vectors(self, dim):
        """No vectors of a length."""
        places = Numbers()
        y = np.empty(0, np.int64)
        if self._source is None:
            return LiveVectors(Entries(np.empty((0, dim), np.float32), y), places)
        entries = DatabaseEntries(self._source, self._ef_search, dim, lambda: places.values, y, y)
        return LiveVectors(entries, places)

    @cached_property
    def meaning(self) -> Meaning:
        """What the acts mean by now."""
        return Meaning(self._acts)

    @cached_property
    def counted(self) -> LiveVectors:
        """The vectors that count by now; another object after an act."""
        if not self._acts:
            return self.written
        return self._count(self.meaning, self.written.entries.size, self._ef_search)

    def as_of(self, size: int) -> LiveVectors:
        """The vectors that counted when there were ``size`` entries, without those erased since.

        They are not copied, unless some had been taken out. They are searched exactly: what an
        index finds of them changes with what was written since.
        """
        meaning = Meaning(act for act in self._acts if act[0] < size)
        return self._count(meaning, int(np.searchsorted(self.written.places.values, size)), None)

    def _count(self, meaning, n, ef_search):
        """Those of the first ``n`` vectors that count."""
        written = self.written
        places = written.places.values[:n]
        counts, y, labels = what_counts(meaning, places, written.entries.y[:n], written.labels)
        return self._chosen(counts, y, labels, places[~counts], ef_search)

    def _chosen(self, stays, y, labels, without, ef_search):
        """Those of the first n vectors that stay (n,), with class ids and labels of their own.

        The database has others, too, at places ``without``.
        """
        written = self.written
        n = len(stays)
        live = Numbers(written.places.values[:n][stays])
        if self._source is None:
            X = written.entries.X[:n]
            entries = Entries.sharing(X if stays.all() else X[stays], y)
        else:
            entries = DatabaseEntries(
                self._source, ef_search, self.dim, lambda: live.values, y, without
            )
        return LiveVectors(entries, live, written.times.values[:n][stays], labels)

    def add(self, rows: list[Row]):
        """Take rows: vectors, and what acts say of other entries; nothing of those erased.

        Their vectors are unit vectors of one length.
        """
        acts = acts_of(row for row in rows if row.act)
        if acts:
            self._acts += acts
            self._count_anew()
        labelled = [row for row in rows if row.x]
        if labelled:
            self._add_vectors(labelled)

    def erase(self, places: list[int]):
        """Drop the vectors and acts of entries that were erased since."""
        gone = {*places}
        self._acts = [act for act in self._acts if act[0] not in gone]
        written = self.written
        stays = ~np.isin(written.places.values, places)
        if not stays.all():
            y, labels = in_order(written.entries.y[stays], written.labels)
            none = np.empty(0, np.int64)
            self.written = self._chosen(stays, y, labels, none, self._ef_search)
            keys = self._keys.values[stays]
            self._keys = Keys()
            self._keys.extend(keys)
        self._count_anew()

    def _add_vectors(self, rows):
        """Take the vectors of rows."""
        vectors = [row.x or b"" for row in rows]
        if not self.written.entries.size:
            length = len(vectors[0])
            self.admit(self._room() // length, length // VALUE)
        X = np.frombuffer(b"".join(vectors), "<f4").reshape(-1, self.dim)
        self.written.extend(X, rows)
        self._keys.extend([content_key(row.text, row.x or b"") for row in rows])
        counted = self.__dict__.get("counted", self.written)
        if counted is not self.written:
            if all(self.meaning.counts_as(row.place, row.label) == row.label for row in rows):
                counted.extend(X, rows)
            else:  # an act was written before what it speaks of: by another program
                del self.counted

    def with_keys(self, keys: Sequence[int]) -> np.ndarray:
        """Slots (n,) of vectors that were written with one of these ``content_key``."""
        return self._keys.slots_of(keys)

    def key_at(self, place: int) -> int:
        """The ``content_key`` of the entry at a place."""
        return int(self._keys.values[np.searchsorted(self.written.places.values, place)])

    def admit(self, n: int, dim: int):
        """Make room for ``n`` more vectors; ``InputError`` if they differ from others in length."""
        if dim != self.dim:
            self.check_length(dim)
            self.dim = dim
            self.written = self._no_vectors(dim)
            self._count_anew()
        self.written.entries.make_room(self.written.entries.size + n)

    def check_length(self, dim: int):
        """Raise ``InputError`` if there are vectors of another length."""
        if dim != self.dim and self.written.entries.size:
            raise InputError(f"the vectors have {dim} values, those in {self._where} {self.dim}")


def what_counts(
    meaning: Meaning, places: np.ndarray, y: np.ndarray, labels: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Which vectors count, and under which label, by the rule of ``corrigible.ledger.meaning``.

    ``places`` (n,) and ``y`` (n,) are places and class ids as written, positions in ``labels``.
    Returns which count (n,) bool, class ids (m,) of those, and their labels as these came first.
    """
    ids = y.copy()
    number = {label: id for id, label in enumerate(labels)}
    for naming in meaning.namings:
        old = [number[label] for label in naming.labels if label in number]
        new = number.setdefault(naming.new, len(number))
        ids[(places < naming.place) & np.isin(ids, old)] = new
    retired = [number[label] for label in meaning.retired_by if label in number]
    gone = [*meaning.undone_by, *meaning.replaced_by]
    counts = ~np.isin(places, gone) & ~np.isin(ids, retired)
    y, named = in_order(ids[counts], [*number])
    return counts, y, named


def in_order(y: np.ndarray, labels: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Class ids (n,), positions in ``labels``, in the order in which labels come first, and these.

    Labels without a vector are left out.
    """
    found, first, ranks = np.unique(y, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return np.argsort(order)[ranks], [labels[id] for id in found[order]]
