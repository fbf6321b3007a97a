"""What every system is: fit once, then predict and be corrected, one example at a time."""

from dataclasses import dataclass

import numpy as np

from ocrrlib.errors import InputError
from ocrrlib.systems.standing import span


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

    row_type, row_shape = np.float32, None  # the shape of one row is known once the system is fitted

    def __init__(self, seed=0):
        self.seed = seed

    @property
    def dim(self):
        """Length of a row."""
        return self.row_shape[0]

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
        self._check_rows(X)
        if y.shape != X.shape[:1]:
            raise InputError(f"fit needs one label for each row; got {X.shape} and {y.shape}")
        if len(y) and not (y.dtype.kind in "iu" and 0 <= y.min() and y.max() < len(classes)):
            raise InputError(f"labels must be class ids from 0 to {len(classes) - 1}")
        self.row_shape, self.n_classes = X.shape[1:], len(classes)
        self.met = set(y.tolist())
        try:
            self._fit(X.astype(self.row_type, copy=False), y.astype(np.int64, copy=False))
        except BaseException:
            self.row_shape = None  # half fitted is not fitted
            raise
        return self

    def predict(self, X):
        """Class ids (m,) of the rows X (m, d); -1 where the system has no answer at all.

        Raises
        ------
        InputError
            If a row has the wrong length or is not a finite unit vector.
        """
        self._check_fitted()
        X = np.asarray(X)
        self._check_rows(X, self.row_shape)
        return self._predict(X.astype(self.row_type, copy=False))

    def correct(self, x, y):
        """Learn from one corrected example: x (d,), its class id y; one update step.

        Raises
        ------
        InputError
            If ``x`` is not a finite unit vector of the right length or ``y`` not a class id.
        """
        self._check_fitted()
        x = self._one_row(x)
        if not (isinstance(y, (int, np.integer)) and 0 <= y < self.n_classes):
            raise InputError(f"label {y} is not a class id from 0 to {self.n_classes - 1}")
        self._correct(x, int(y))
        self.met.add(int(y))

    def probabilities(self, X):
        """Class probabilities (m, C) of the rows X (m, d), float64; zero for a class of which no row was met.

        A row sums to 1, or to 0 where the system has no answer at all.

        Raises
        ------
        InputError
            If the system gives none, or a row has the wrong length or is not a finite unit vector.
        """
        self._check_fitted()
        X = np.asarray(X)
        self._check_rows(X, self.row_shape)
        return self._probabilities(X.astype(self.row_type, copy=False))

    def _probabilities(self, X):
        raise InputError(f"{type(self).__name__} gives no class probabilities: choose a system that does")

    def storage(self):
        """What the system holds now, as ``Storage``."""
        raise NotImplementedError

    def watch(self, Q):
        """Answer fixed queries Q (q, d) repeatedly: a function from row numbers to class ids.

        Must equal ``predict(Q[rows])`` at any time; systems with neighbours do less work for it.
        """
        return lambda rows: self._predict(Q[span(rows)])

    def watch_probabilities(self, Q):
        """The same for ``probabilities(Q[rows])``."""
        return lambda rows: self._probabilities(Q[span(rows)])

    def _check_fitted(self):
        if self.row_shape is None:
            raise InputError("the system knows no classes yet: call fit first")

    def _one_row(self, x):
        x = np.asarray(x, np.float32)
        if x.shape != self.row_shape:
            raise InputError(f"correct needs one row of length {self.dim}; got shape {x.shape}")
        if not 0.98 < x @ x < 1.02:  # false for NaN, too
            self._check_rows(x[None])
        return x

    @staticmethod
    def _check_rows(X, shape=None):
        if X.ndim != 2 or X.dtype.kind not in "fiu":
            raise InputError(f"rows must be embeddings, (n, d) numbers; got {X.dtype} of shape {X.shape}")
        if shape not in (None, X.shape[1:]):
            raise InputError(f"rows must be of length {shape[0]}, as in fit; got shape {X.shape}")
        squares = np.einsum("nd,nd->n", X, X, dtype=np.float64)
        bad = np.flatnonzero(~(np.abs(squares - 1) < 0.02))
        if len(bad):
            value = squares[bad[0]]
            why = (
                "has a NaN or infinity" if not np.isfinite(value) else "is zero" if value == 0 else "is not normalised"
            )
            raise InputError(f"row {bad[0]} {why} (length {np.sqrt(value):.4g}); embeddings must be unit vectors")


class TextSystem(System):
    """A system whose rows are sentences: wherever others take X (n, d), it takes n strings."""

    row_type = np.str_

    def _one_row(self, x):
        self._check_rows(np.asarray([x]))
        return str(x)

    @staticmethod
    def _check_rows(X, shape=()):
        if X.ndim != 1 or X.dtype.kind not in "UT" and not all(isinstance(x, str) for x in X):
            raise InputError(f"rows must be sentences, (n,) strings; got {X.dtype} of shape {X.shape}")
        empty = [place for place, x in enumerate(X) if not x.strip()]
        if empty:
            raise InputError(f"row {empty[0]} is an empty sentence")
