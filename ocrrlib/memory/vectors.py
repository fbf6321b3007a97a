"""The vectors and labels of a ledger's file, as a system reads them."""

from pathlib import Path

import numpy as np

from ocrrlib.files import InputError
from ocrrlib.memory.database import size_on_disk
from ocrrlib.memory.rows import Row
from ocrrlib.search import Entries

VALUE = 4  # bytes of a float32


class Vectors:
    """The entries of a file that hold a vector; an ``Observer`` of ``LedgerFile``.

    ``entries`` has vectors and class ids, ``labels`` the label of each class id, ``places`` (a
    list) the place in the file of each vector. The first ``n_first`` were written at once.
    """

    def __init__(self, path: Path):
        self._path = path
        self.clear()

    def clear(self):
        """Drop all rows."""
        self.entries = Entries(np.empty((0, 0), np.float32), [])
        self.labels = []
        self.places = []
        self.n_first = 0
        self._ids = {}  # class id of each label
        self._began = None  # time of the first write

    def add(self, rows: list[Row]):
        """Take the rows that hold a vector: not those erased, nor tombstones.

        Raises ``InputError`` if a vector has another length than those before it, or is not a unit
        vector.
        """
        rows = [row for row in rows if row.x]
        if not rows:
            return
        if not self.places:
            self._began = rows[0].time
            length = len(rows[0].x or b"")
            self.admit(size_on_disk(self._path) // length, length // VALUE)
        X = self._unit_vectors([row.x for row in rows])
        if X is None:
            raise InputError(
                f"{self._path} holds vectors of other lengths: its writer was another program"
            )
        self.entries.extend(X, [self._class_id(row.label) for row in rows])
        self.places += [row.place for row in rows]
        self.n_first += sum(row.time == self._began for row in rows)

    def admit(self, n: int, dim: int):
        """Make room for ``n`` more vectors; ``InputError`` if they differ from others in length."""
        held = self.entries.X.shape[1]
        if dim != held:
            if self.places:
                raise InputError(f"the vectors have {dim} values, those in {self._path} {held}")
            self.entries = Entries(np.empty((0, dim), np.float32), np.empty(0, np.int64))
        self.entries.make_room(self.entries.size + n)

    def _unit_vectors(self, vectors):
        """Rows (n, d) from their bytes, or None if these are not n unit vectors of length d."""
        dim = self.entries.X.shape[1]
        if any(len(vector) != VALUE * dim for vector in vectors):
            return None
        X = np.frombuffer(b"".join(vectors), "<f4").reshape(-1, dim)
        with np.errstate(over="ignore", invalid="ignore"):
            deviation = abs(np.einsum("nd,nd->n", X, X) - 1)
        return X if (deviation < 0.01).all() else None  # NaN is not

    def _class_id(self, label):
        if label not in self._ids:
            self._ids[label] = len(self.labels)
            self.labels.append(label)
        return self._ids[label]
