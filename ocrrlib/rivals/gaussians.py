"""Gaussian class models that read a ledger."""

import numpy as np

ALL_CLASSES = slice(None)


class GaussianClasses:
    """Log-densities of rows under Gaussian classes, given the rows of each class so far.

    ``counts`` (C,) and ``sums`` (C, D) are numbers and sums of the rows of each class.
    Log-densities are linear in the features of a row, by ``weights`` (C, F) and ``offset`` (C,).
    ``changes`` lists the classes of the rows learnt, in order. Subclasses have ``project`` and
    ``_add``.
    """

    weights: np.ndarray
    offset: np.ndarray

    def __init__(self, counts: np.ndarray, sums: np.ndarray):
        self.counts = counts.copy()
        self.sums = sums.copy()
        self.changes: list[int] = []

    def project(self, X: np.ndarray) -> np.ndarray:
        """Features (m, F) float64 of rows (m, d)."""
        raise NotImplementedError

    def _add(self, features: np.ndarray, y: int) -> None:
        raise NotImplementedError

    def learn(self, x: np.ndarray, y: int) -> None:
        """Learn one row (d,) of class ``y``."""
        self._add(self.project(x[None])[0], y)
        self.changes.append(y)

    def scores(self, features: np.ndarray, classes: slice | np.ndarray = ALL_CLASSES) -> np.ndarray:
        """Log-densities (m, c), less a constant, of features (m, F) under some classes."""
        return features @ self.weights[classes].T + self.offset[classes]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(part.nbytes for part in vars(self).values() if isinstance(part, np.ndarray))
