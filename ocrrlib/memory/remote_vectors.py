"""What an application knows of vectors that stay in a database: place, time and label of each."""

from collections.abc import Sequence
from typing import overload

import numpy as np

from ocrrlib.memory.meaning import Meaning
from ocrrlib.memory.remote import Column, RemoteEntries, Source, Supposed
from ocrrlib.memory.rows import VALUE
from ocrrlib.memory.vectors import Counted, Vectors, Written, as_they_count
from ocrrlib.search import Entries


class RemoteWritten(Sequence[Written]):
    """Place, time and label of each entry, by its slot."""

    def __init__(self, entries: RemoteEntries, times: Column, labels: list[str]):
        self._entries = entries
        self._times = times
        self._labels = labels

    def __len__(self) -> int:
        return self._entries.size

    @overload
    def __getitem__(self, slot: int) -> Written: ...
    @overload
    def __getitem__(self, slot: slice) -> list[Written]: ...
    def __getitem__(self, slot):
        if isinstance(slot, slice):
            return [self[one] for one in range(*slot.indices(len(self)))]
        label = self._labels[self._entries.y[slot]]
        return Written(int(self._entries.places[slot]), int(self._times.values[slot]), label)


class RemoteCounted(Counted):
    """As ``Counted``, with vectors in a database."""

    entries: RemoteEntries

    def __init__(self, entries: RemoteEntries, times: np.ndarray, labels: list[str]):
        self.entries = entries
        self.labels = labels
        self._ids = {label: id for id, label in enumerate(labels)}
        self.times = Column(times)
        self.written: Sequence[Written] = RemoteWritten(  # type: ignore[assignment]
            entries, self.times, labels
        )
        self.n_first = int((times == times[0]).sum()) if len(times) else 0

    def supposing(self, x: np.ndarray, y: int, without: int | None) -> tuple[Entries, int]:
        """As ``Counted.supposing``; nothing is copied."""
        return Supposed(self.entries, x, y, without), self.n_first

    def take(self, written: list[Written], without: list[int]) -> None:
        """Take entries that were written since, and places of those that do not count."""
        for one in written:
            if one.label not in self._ids:
                self._ids[one.label] = len(self.labels)
                self.labels.append(one.label)
        places = [one.place for one in written]
        self.entries.add(places, [self._ids[one.label] for one in written], without)
        self.times.extend([one.time for one in written])
        if written:
            first = self.times.values[0]
            self.n_first += sum(one.time == first for one in written)


class RemoteVectors(Vectors):
    """As ``Vectors``, but the vectors themselves stay in a database."""

    held: RemoteCounted

    def __init__(self, where: object, source: Source, ef_search: int | None):
        self._source = source
        self._ef_search = ef_search
        super().__init__(where, room=lambda: 0)

    def clear(self):
        """Drop all rows."""
        super().clear()
        self.held = self._made(0)

    def _made(self, dim, places=(), y=(), without=(), times=(), labels=()):
        entries = RemoteEntries(self._source, self._ef_search, dim, places, y, without)
        return RemoteCounted(entries, np.asarray(times, np.int64), [*labels])

    def as_of(self, size: int) -> Counted:
        """The vectors that counted when there were ``size`` entries, without those erased since."""
        meaning = Meaning(act for act in self._acts if act[0] < size)
        return self._count(meaning, int(np.searchsorted(self.held.entries.places, size)))

    def _count(self, meaning, n):
        """Those of the first ``n`` vectors that count, by the rules of ``Meaning``."""
        held = self.held
        places = held.entries.places[:n]
        ids = held.entries.y[:n].copy()
        number = {label: id for id, label in enumerate(held.labels)}
        for naming in meaning.namings:
            old = [number[label] for label in naming.labels if label in number]
            new = number.setdefault(naming.new, len(number))
            ids[(places < naming.place) & np.isin(ids, old)] = new
        retired = [number[label] for label in meaning.retired_by if label in number]
        others = [*meaning.undone_by, *meaning.replaced_by]
        counts = ~np.isin(places, others) & ~np.isin(ids, retired)
        # Class ids follow the order in which labels came first.
        left, first, y = np.unique(ids[counts], return_index=True, return_inverse=True)
        order = np.argsort(first)
        labels = np.array([*number], object)[left[order]]
        return self._made(
            held.entries.dim,
            places[counts],
            np.argsort(order)[y],
            places[~counts],
            held.times.values[:n][counts],
            labels.tolist(),
        )

    def _add_vectors(self, rows):
        if not self.held.written:
            self.admit(0, len(rows[0].x) // VALUE)
        self._unit_vectors([row.x for row in rows])  # raises
        written = [Written(row.place, row.time, row.label) for row in rows]
        self.held.take(written, [])
        if self._counted is not None:
            counted = as_they_count(self.meaning, written)
            gone = [one.place for n, one in enumerate(written) if n not in counted]
            self._counted.take([*counted.values()], gone)

    def admit(self, n: int, dim: int):
        """Refuse vectors of another length than those held: raises ``InputError``."""
        if dim == self.held.entries.dim:
            return
        if self.held.written:
            raise self._other_length(dim, self.held.entries.dim)
        self.held = self._made(dim)
        self._counted = None
