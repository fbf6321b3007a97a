"""What every index is: rows are added, queries get their nearest rows."""

import importlib

import numpy as np

from ocrrlib.errors import InputError, pick


def optional(module, package=None):
    """Import a library that not everyone has.

    Raises
    ------
    InputError
        If it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = package or module
        raise InputError(f"this needs the optional library {package}: pip install {package}") from error


class Index:
    """Unit rows that are searched by cosine; slots count up in the order of ``add``.

    Parameters
    ----------
    dim : int
        Length of a row.
    capacity : int
        Rows that there is room for at first; it grows when needed.
    seed : int
        Of the index's own draws.
    threads : int
        Threads that build and search; with one, the same rows give the same index.
    settings
        The index's own parameters, over its defaults.
    """

    defaults = {}
    effort = None  # the setting that buys recall with time

    def __init__(self, dim, capacity=1024, seed=0, threads=1, **settings):
        self.dim, self.seed, self.threads = dim, seed, threads
        self.settings = self.defaults | {
            pick("setting", name, dict(zip(self.defaults, self.defaults))): value for name, value in settings.items()
        }
        self._make(max(1, capacity))

    size = 0

    def train(self, X):
        """Learn from a sample of what will be added; indexes that need none do nothing."""
        return self

    def add(self, X):
        """Add rows (n, d)."""
        if len(X):
            self._add(self._rows(X))
            self.size += len(X)
        return self

    def _rows(self, X):
        X = np.ascontiguousarray(X, np.float32)
        if X.shape[1:] != (self.dim,):
            raise InputError(f"rows of shape {X.shape} do not fit an index over rows of length {self.dim}")
        return X

    def tune(self, value):
        """Set the effort of searches from now on."""
        self.settings = self.settings | {self.effort: value}
        self._tune()
        return self

    def search(self, Q, k):
        """Cosines (m, k), best first, newest first among equals, and slots (m, k); -inf and -1 where fewer are."""
        sims, slots = np.full((len(Q), k), -np.inf), np.full((len(Q), k), -1, np.int64)
        if self.size and len(Q):
            near = min(k, self.size)
            sims[:, :near], slots[:, :near] = self._search(self._rows(Q), near)
            sims[slots < 0] = -np.inf
            order = np.lexsort((-slots, -sims), axis=-1)
            sims, slots = (np.take_along_axis(a, order, axis=1) for a in (sims, slots))
        return sims, slots

    @property
    def nbytes(self):
        """Bytes held."""
        raise NotImplementedError
