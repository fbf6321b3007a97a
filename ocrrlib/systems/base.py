"""What every system is: fit once, then predict and be corrected, one example at a time."""

from dataclasses import dataclass

import numpy as np

from ocrrlib.errors import InputError


@dataclass(frozen=True)
class Storage:
    """What a system holds: bytes in all, stored examples, learnt parameters."""

    bytes: int
    entries: int = 0
    parameters: int = 0


class System:
    """Checks what comes in, once for all systems; a method fills in ``_fit``, ``_predict``, ``_correct``.

    Parameters
    ----------
    seed : int
        Seed of whatever the method draws at random.
    """

    dim = None  # length of a row, known once the system is fitted

    def __init__(self, seed=0):
        self.seed = seed

    def fit(self, X, y, classes):
        """Set the initial state, from the known classes only; a second call starts afresh.

        Parameters
        ----------
        X : (n, d) float32
            Embeddings, unit rows.
        y : (n,) int
            Class ids of the rows.
        classes : sequence
            Names of all classes, those yet to come included; a class id is a position in it.

        Raises
        ------
        InputError
            If shapes disagree, a row is not a finite unit vector, or a label is not a class id.
        """
        X, y = np.asarray(X), np.asarray(y)
        if X.ndim != 2 or y.shape != X.shape[:1]:
            raise InputError(f"fit needs X (n, d) and y (n,); got {X.shape} and {y.shape}")
        self._check_rows(X)
        if len(y) and not (y.dtype.kind in "iu" and 0 <= y.min() and y.max() < len(classes)):
            raise InputError(f"labels must be class ids from 0 to {len(classes) - 1}")
        self.dim, self.n_classes = X.shape[1], len(classes)
        self._fit(X.astype(np.float32, copy=False), y.astype(np.int64, copy=False))
        return self

    def predict(self, X):
        """Class ids (m,) of the rows X (m, d); -1 where the system has no answer at all.

        Raises
        ------
        InputError
            If a row has the wrong length or is not a finite unit vector.
        """
        self._check_fitted()
        X = np.asarray(X, np.float32)
        if X.ndim != 2 or X.shape[1] != self.dim:
            raise InputError(f"predict needs rows of length {self.dim}; got shape {X.shape}")
        self._check_rows(X)
        return self._predict(X)

    def correct(self, x, y):
        """Learn from one corrected example: x (d,), its class id y; one update step.

        Raises
        ------
        InputError
            If ``x`` is not a finite unit vector of the right length or ``y`` not a class id.
        """
        self._check_fitted()
        x = np.asarray(x, np.float32)
        if x.shape != (self.dim,):
            raise InputError(f"correct needs one row of length {self.dim}; got shape {x.shape}")
        if not 0.98 < x @ x < 1.02:  # false for NaN, too
            self._check_rows(x[None])
        if not (isinstance(y, (int, np.integer)) and 0 <= y < self.n_classes):
            raise InputError(f"label {y} is not a class id from 0 to {self.n_classes - 1}")
        self._correct(x, int(y))

    def storage(self):
        """What the system holds now, as ``Storage``."""
        raise NotImplementedError

    def watch(self, Q):
        """Answer fixed queries Q (q, d) repeatedly: a function from row numbers to class ids.

        Must equal ``predict(Q[rows])`` at any time; systems with neighbours do less work for it.
        """
        return lambda rows: self._predict(Q[rows])

    def _check_fitted(self):
        if self.dim is None:
            raise InputError("the system knows no classes yet: call fit first")

    @staticmethod
    def _check_rows(X):
        squares = np.einsum("nd,nd->n", X, X, dtype=np.float64)
        bad = np.flatnonzero(~(np.abs(squares - 1) < 0.02))
        if len(bad):
            value = squares[bad[0]]
            why = (
                "has a NaN or infinity" if not np.isfinite(value) else "is zero" if value == 0 else "is not normalised"
            )
            raise InputError(f"row {bad[0]} {why} (length {np.sqrt(value):.4g}); embeddings must be unit vectors")
