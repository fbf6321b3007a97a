"""Cached products and scores of fixed queries: only what changed is computed again."""

from collections.abc import Sequence

import numpy as np


def as_slice(rows: np.ndarray) -> slice | np.ndarray:
    """Row numbers (m,) as a slice if each follows the one before, as slicing copies no features."""
    if (np.diff(rows) == 1).all():
        return slice(rows[0], rows[-1] + 1)
    return rows


class StandingProducts:
    """Products of fixed features (q, D) with vectors (D,) in a growing list, each computed once.

    It saves time where weights change by terms of rank one: between two tests there are fewer new
    vectors than classes.
    """

    def __init__(self, F: np.ndarray):
        self.F = F
        self._V = np.empty((0, F.shape[1]))  # the vectors so far, with room for more
        self._size = 0  # vectors in it
        self._products = np.empty((len(F), 0))
        self._upto = np.zeros(len(F), np.int64)  # vectors that each row was multiplied with

    def __call__(self, vectors: Sequence[np.ndarray], rows: np.ndarray) -> np.ndarray:
        """Products (m, k) of the features ``rows`` (m,) with all k vectors so far."""
        k = len(vectors)
        if k > len(self._V):
            self._V = np.vstack([self._V, np.empty((k, self._V.shape[1]))])
            self._products = np.hstack([self._products, np.empty((len(self.F), k))])
        if k > self._size:
            self._V[self._size : k] = vectors[self._size :]
            self._size = k
        upto = self._upto[rows]
        for first in np.unique(upto[upto < k]):
            stale = as_slice(rows[upto == first])
            self._products[stale, first:k] = self.F[stale] @ self._V[first:k].T
        self._upto[rows] = k
        return self._products[rows, :k]
