"""Nearest-neighbour indexes behind one interface: exact, hnswlib, and its peers faiss and usearch."""

from ocrrlib.errors import pick
from ocrrlib.indexes.exact import Exact
from ocrrlib.indexes.faiss import FaissFlat, FaissHNSW, FaissIVF
from ocrrlib.indexes.hnsw import HNSW
from ocrrlib.indexes.usearch import USearch

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
