"""``substrate_hnsw``: the substrate with approximate search, for ledgers too large to read whole (section 6.5)."""

from ocrrlib.indexes import make_index
from ocrrlib.systems.base import Storage
from ocrrlib.systems.substrate import Substrate


class SubstrateHNSW(Substrate):
    """Neighbours come from an index beside the ledger.

    Parameters
    ----------
    index : str
        A name in ``ocrrlib.indexes.INDEXES``.
    k, margin, rule
        As for the substrate.
    settings
        The index's own parameters.
    """

    def __init__(self, seed=0, k=5, margin=0.05, rule="full", index="hnswlib", **settings):
        super().__init__(seed, k, margin, rule)
        self.index_name, self.settings = index, settings

    def _fit(self, X, y):
        super()._fit(X, y)
        self.index = make_index(self.index_name, self.dim, capacity=len(X), seed=self.seed, **self.settings).add(X)

    def _correct(self, x, y):
        super()._correct(x, y)
        self.index.add(x[None])

    def _search(self, X):
        return self.index.search(X, self.k)

    def _follow(self, Q):
        return lambda rows: self._search(Q[rows])

    def storage(self):
        return Storage(bytes=self.entries.nbytes + self.index.nbytes, entries=self.entries.size)
