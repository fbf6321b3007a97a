"""Labelled embeddings that grow, one after the other, in one block of memory."""

import numpy as np


def is_fixed(array):
    """Whether nobody can write to an array: neither through it nor through one that it is a view of."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base
    return array is None or isinstance(array, bytes)


class Entries:
    """Rows, class ids and birth numbers of what is stored.

    Attributes
    ----------
    X : (n, d) float32
        Embeddings.
    y : (n,) int64
        Class ids.
    born : (n,) int64
        Number of writes before this one; higher is newer.
    writes : int
        Writes so far, overwritten ones included.
    """

    def __init__(self, X, y, born=None, writes=None):
        self.size = len(X)
        # What cannot change need not be copied; the first append moves to memory of our own.
        keep = None if is_fixed(X) and is_fixed(y) else True
        self._X = np.array(X, np.float32, order="C", copy=keep)
        self._y = np.array(y, np.int64, copy=keep)
        self._born = np.arange(self.size) if born is None else np.array(born, np.int64)
        self.writes = self.size if writes is None else writes

    @property
    def X(self):
        return self._X[: self.size]

    @property
    def y(self):
        return self._y[: self.size]

    @property
    def born(self):
        return self._born[: self.size]

    @property
    def nbytes(self):
        """Bytes of what is stored, room for growth not counted."""
        return self.X.nbytes + self.y.nbytes + self.born.nbytes

    def append(self, x, y):
        """Store one row; amortised constant time."""
        if self.size == len(self._y):
            room = max(64, len(self._y) // 4)
            self._X = np.concatenate([self._X, np.empty((room, self._X.shape[1]), np.float32)])
            self._y = np.concatenate([self._y, np.empty(room, np.int64)])
            self._born = np.concatenate([self._born, np.empty(room, np.int64)])
        self.size += 1
        self.overwrite(self.size - 1, x, y)

    def overwrite(self, slot, x, y):
        """Store one row in the place of another."""
        self._X[slot] = x
        self._y[slot] = y
        self._born[slot] = self.writes
        self.writes += 1

    def since(self, writes):
        """Slots of the entries written after the first ``writes`` writes."""
        if self.size == self.writes:  # nothing was ever overwritten: slot and birth number agree
            return np.arange(writes, self.size)
        return np.flatnonzero(self.born >= writes)
