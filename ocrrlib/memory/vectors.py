"""The vectors and labels of a ledger's file, as a system reads them, now or as they were."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from ocrrlib.files import InputError
from ocrrlib.memory.meaning import Meaning, acts_of
from ocrrlib.memory.rows import VALUE, Row
from ocrrlib.search import Entries


class Written(NamedTuple):
    """A vector's place in the file, time, and label."""

    place: int
    time: int
    label: str


class Counted:
    """Vectors that count, in their order: what a system reads.

    ``entries`` has vectors and class ids, ``labels`` the label of each class id, in the order in
    which they came first, ``written`` place, time and label of each vector. The first ``n_first``
    were written at once.
    """

    def __init__(self, X: np.ndarray, written: list[Written]):
        self.labels: list[str] = []
        self._ids: dict[str, int] = {}  # class id of each label
        self.written: list[Written] = []
        self.n_first = 0
        self.entries = Entries.sharing(X, self._note(written))

    def extend(self, X: np.ndarray, written: list[Written]) -> None:
        """Take vectors X (n, d) that were written since."""
        self.entries.extend(X, self._note(written))

    def supposing(self, x: np.ndarray, y: int, without: int | None) -> tuple[Entries, int]:
        """Entries as they would be with one more, and how many of them were written at once.

        It is x (d,) of class id ``y``; the one at place ``without`` is left out.
        """
        X_now = self.entries.X
        y_now = self.entries.y
        n_first = self.n_first
        if without is not None:
            stays = np.array([one.place != without for one in self.written])
            X_now = X_now[stays]
            y_now = y_now[stays]
            n_first = max(1, int(stays[:n_first].sum()))
        more = Entries.sharing(X_now, y_now)
        more.append(x, y)
        return more, n_first

    def _note(self, written):
        """Class ids of vectors, whose labels may be new."""
        self.written += written
        self.n_first += sum(one.time == self.written[0].time for one in written)
        for one in written:
            if one.label not in self._ids:
                self._ids[one.label] = len(self.labels)
                self.labels.append(one.label)
        return np.array([self._ids[one.label] for one in written], np.int64)


class Vectors:
    """All vectors of a file, and all acts; an ``Observer`` of a ``StoredLedger``.

    ``held`` has the vectors with the labels that they were written with, whether they count or not.
    """

    def __init__(self, where: object, room: Callable[[], int]):
        """Hold what is read from ``where``, as messages name it, which has ``room`` in bytes."""
        self._where = where
        self._room = room
        self.clear()

    def clear(self):
        """Drop all rows."""
        self.held = Counted(np.empty((0, 0), np.float32), [])
        self._acts: list[tuple[int, dict]] = []  # places, and what is said there of other entries
        # Made when they are asked for
        self._meaning: Meaning | None = None
        self._counted: Counted | None = None

    @property
    def meaning(self) -> Meaning:
        """What the acts mean by now."""
        if self._meaning is None:
            self._meaning = Meaning(self._acts)
        return self._meaning

    @property
    def counted(self) -> Counted:
        """The vectors that count by now; another object after an act."""
        if not self._acts:
            return self.held
        if self._counted is None:
            self._counted = self._count(self.meaning, len(self.held.written))
        return self._counted

    def as_of(self, size: int) -> Counted:
        """The vectors that counted when the file had ``size`` entries, without those erased since.

        They are not copied, unless some had been taken out.
        """
        n = bisect_left(self.held.written, (size,))
        return self._count(Meaning(act for act in self._acts if act[0] < size), n)

    def _count(self, meaning, n):
        """Those of the first ``n`` vectors that count."""
        counted = as_they_count(meaning, self.held.written[:n])
        X = self.held.entries.X[:n]
        return Counted(X if len(counted) == n else X[[*counted]], [*counted.values()])

    def add(self, rows: list[Row]):
        """Take rows: vectors, and what acts say of other entries; nothing of those erased.

        Raises ``InputError`` if a vector has another length than those before it, or is not a unit
        vector.
        """
        acts = acts_of(rows)
        if acts:
            self._acts += acts
            self._meaning = None
            self._counted = None
        rows = [row for row in rows if row.x]
        if rows:
            self._add_vectors(rows)

    def _add_vectors(self, rows):
        if not self.held.written:
            length = len(rows[0].x)
            self.admit(self._room() // length, length // VALUE)
        X = self._unit_vectors([row.x for row in rows])
        written = [Written(row.place, row.time, row.label) for row in rows]
        self.held.extend(X, written)
        if self._counted is not None:
            counted = as_they_count(self.meaning, written)
            self.counted.extend(X[[*counted]], [*counted.values()])

    def admit(self, n: int, dim: int):
        """Make room for ``n`` more vectors; ``InputError`` if they differ from others in length."""
        length = self.held.entries.X.shape[1]
        if dim != length:
            if self.held.written:
                raise self._other_length(dim, length)
            self.held.entries = Entries(np.empty((0, dim), np.float32), np.empty(0, np.int64))
            self._counted = None
        self.held.entries.make_room(self.held.entries.size + n)

    def _other_length(self, dim, length):
        return InputError(f"the vectors have {dim} values, those in {self._where} {length}")

    def _unit_vectors(self, vectors):
        """Rows (n, d) from their bytes; ``InputError`` if these are no unit vectors of length d."""
        dim = self.held.entries.X.shape[1]
        if {*map(len, vectors)} == {VALUE * dim}:
            X = np.frombuffer(b"".join(vectors), "<f4").reshape(-1, dim)
            squares = np.einsum("nd,nd->n", X, X)
            if 0.99 < squares.min() and squares.max() < 1.01:  # false of NaN
                return X
        raise InputError(
            f"{self._where} holds vectors of other lengths: its writer was another program"
        )


def as_they_count(meaning: Meaning, written: Iterable[Written]) -> dict[int, Written]:
    """Those vectors that count, by their number, with the labels that they count under."""
    labels = [meaning.counts_as(one.place, one.label) for one in written]
    return {
        n: one._replace(label=label)
        for n, (one, label) in enumerate(zip(written, labels))
        if label is not None
    }
