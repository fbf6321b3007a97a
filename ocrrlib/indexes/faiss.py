"""``faiss_flat``, ``faiss_hnsw``, ``faiss_ivf``: faiss's indexes (Douze et al. 2024)."""

import numpy as np

from ocrrlib.errors import InputError
from ocrrlib.indexes.base import Index, optional
from ocrrlib.indexes.hnsw import HNSW


class _Faiss(Index):
    def _make(self, capacity):
        self._faiss = optional("faiss", "faiss-cpu")
        self._faiss.omp_set_num_threads(self.threads)
        self._index = self._create()
        self._tune()

    def _tune(self):
        pass

    def _add(self, X):
        self._faiss.omp_set_num_threads(self.threads)  # one number for all indexes
        if not self._index.is_trained:
            self.train(X)
        self._index.add(X)

    def _search(self, Q, k):
        self._faiss.omp_set_num_threads(self.threads)
        sims, slots = self._index.search(Q, k)
        return sims.astype(np.float64), slots

    @property
    def nbytes(self):
        return len(self._faiss.serialize_index(self._index))


class FaissFlat(_Faiss):
    """faiss, every entry is compared."""

    def _create(self):
        return self._faiss.IndexFlatIP(self.dim)


class FaissHNSW(_Faiss):
    """faiss's navigable small worlds."""

    defaults = HNSW.defaults
    effort = "ef"

    def _create(self):
        index = self._faiss.IndexHNSWFlat(self.dim, self.settings["M"], self._faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = self.settings["ef_construction"]
        return index

    def _tune(self):
        self._index.hnsw.efSearch = self.settings["ef"]


class FaissIVF(_Faiss):
    """faiss's inverted lists; without ``train`` they are trained on the first rows added."""

    defaults = dict(lists=1024, probes=16)
    effort = "probes"

    def _create(self):
        lists = self.settings["lists"]
        quantiser = self._faiss.IndexFlatIP(self.dim)
        index = self._faiss.IndexIVFFlat(quantiser, self.dim, lists, self._faiss.METRIC_INNER_PRODUCT)
        index.cp.seed = self.seed
        return index

    def train(self, X):
        if len(X) < self.settings["lists"]:
            raise InputError(
                f"{len(X)} rows are too few to train {self.settings['lists']} lists: give more, or fewer lists"
            )
        self._faiss.omp_set_num_threads(self.threads)
        self._index.train(self._rows(X))
        return self

    def _tune(self):
        self._index.nprobe = self.settings["probes"]
