"""Nearest-neighbour indexes behind one interface: exact, hnswlib, and its peers faiss and usearch."""

import importlib

import numpy as np

from ocrrlib.errors import InputError, pick
from ocrrlib.search import top_k


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
        return self._bytes()


class Exact(Index):
    """Every entry is compared."""

    def _make(self, capacity):
        self._X = np.empty((capacity, self.dim), np.float32)

    def _add(self, X):
        if self.size + len(X) > len(self._X):
            room = max(len(X), len(self._X) // 4)
            self._X = np.concatenate([self._X[: self.size], np.empty((room, self.dim), np.float32)])
        self._X[self.size : self.size + len(X)] = X

    def _search(self, Q, k):
        return top_k(Q, self._X[: self.size], np.arange(self.size), k)

    def _bytes(self):
        return self._X[: self.size].nbytes


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

    def _bytes(self):
        return self._index.index_file_size()


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

    def _bytes(self):
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

    def _bytes(self):
        return self._index.memory_usage


INDEXES = {
    "exact": Exact,
    "hnswlib": HNSW,
    "faiss_flat": FaissFlat,
    "faiss_hnsw": FaissHNSW,
    "faiss_ivf": FaissIVF,
    "usearch": USearch,
}


def make_index(name, dim, **settings):
    """An empty index by its name.

    Raises
    ------
    InputError
        If there is no such index or setting, or its library is not installed.
    """
    return pick("index", name, INDEXES)(dim, **settings)
