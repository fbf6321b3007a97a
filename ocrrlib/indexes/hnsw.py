"""``hnswlib``: navigable small worlds, the library's default for ledgers too large to read whole."""

import numpy as np

from ocrrlib.indexes.base import Index, optional


class HNSW(Index):
    """hnswlib's navigable small worlds (Malkov and Yashunin 2020); a loaded or pickled one draws other links later."""

    defaults = dict(M=16, ef_construction=200, ef=64)
    effort = "ef"

    def _make(self, capacity):
        self._index = optional("hnswlib").Index("ip", self.dim)
        made = {name: self.settings[name] for name in ("M", "ef_construction")}
        self._index.init_index(capacity, random_seed=self.seed, **made)
        self._tune()

    def _tune(self):
        self._index.set_num_threads(self.threads)
        self._index.set_ef(self.settings["ef"])

    def _add(self, X):
        if self.size + len(X) > self._index.get_max_elements():
            self._index.resize_index(self.size + max(len(X), self.size // 4))
        self._index.add_items(X, num_threads=self.threads)

    def _search(self, Q, k):
        try:
            slots, distances = self._index.knn_query(Q, k, num_threads=self.threads)
        except RuntimeError:  # some query reaches fewer than k entries
            return self._search_short(Q, k)
        return 1.0 - distances, slots.astype(np.int64)

    def _search_short(self, Q, k):
        sims, slots = np.full((len(Q), k), -np.inf), np.full((len(Q), k), -1, np.int64)
        for row, near in ((row, near) for row in range(len(Q)) for near in range(k, 0, -1)):
            if slots[row, 0] < 0:
                try:
                    found, distances = self._index.knn_query(Q[row], near, num_threads=1)
                except RuntimeError:
                    continue  # fewer still
                sims[row, :near], slots[row, :near] = 1.0 - distances, found.astype(np.int64)
        return sims, slots

    def save(self, path):
        """Write all rows and links to a file."""
        self._index.save_index(str(path))

    def load(self, path, capacity):
        """Go on from what ``save`` wrote, with room for ``capacity`` rows."""
        self._index = optional("hnswlib").Index("ip", self.dim)  # the old one goes first: memory may not hold both
        try:
            self._index.load_index(str(path), max_elements=capacity)
        except RuntimeError:
            self.size = 0
            self._make(capacity)
            raise
        self.size = self._index.get_current_count()
        self._tune()
        return self

    @property
    def nbytes(self):
        return self._index.index_file_size()
