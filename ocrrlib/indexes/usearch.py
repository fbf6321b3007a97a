"""``usearch``: another library of navigable small worlds."""

import numpy as np

from ocrrlib.indexes.base import Index, optional
from ocrrlib.indexes.hnsw import HNSW


class USearch(Index):
    """usearch's navigable small worlds."""

    defaults = HNSW.defaults
    effort = "ef"

    def _make(self, capacity):
        made = optional("usearch.index", "usearch").Index
        s = self.settings
        self._index = made(
            ndim=self.dim,
            metric="ip",
            dtype="f32",
            connectivity=s["M"],
            expansion_add=s["ef_construction"],
        )
        self._tune()

    def _tune(self):
        self._index.expansion_search = self.settings["ef"]

    def _add(self, X):
        self._index.add(np.arange(self.size, self.size + len(X)), X, threads=self.threads)

    def _search(self, Q, k):
        found = self._index.search(Q, k, threads=self.threads)
        counts = np.atleast_1d(getattr(found, "counts", len(found)))  # of a single query there are no counts
        reached = np.arange(k) < counts[:, None]
        kept = reached if hasattr(found, "counts") else slice(None)
        sims, slots = np.full((len(Q), k), -np.inf), np.full((len(Q), k), -1, np.int64)
        sims[reached], slots[reached] = 1.0 - found.distances[kept].astype(np.float64), found.keys[kept]
        return sims, slots

    @property
    def nbytes(self):
        return self._index.memory_usage
