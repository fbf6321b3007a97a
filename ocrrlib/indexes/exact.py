"""``exact``: every entry is compared."""

import numpy as np

from ocrrlib.indexes.base import Index
from ocrrlib.search import top_k


class Exact(Index):
    """Every entry is compared."""

    def _make(self, capacity):
        self._X = np.empty((0, self.dim), np.float32)

    def _add(self, X):
        self._X = np.concatenate([self._X, X])

    def _search(self, Q, k):
        return top_k(Q, self._X, np.arange(self.size), k)

    @property
    def nbytes(self):
        return self._X.nbytes
