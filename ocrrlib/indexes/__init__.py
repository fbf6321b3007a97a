"""The index of ``substrate_hnsw``."""

from ocrrlib.errors import pick
from ocrrlib.indexes.hnsw import HNSW

INDEXES = {"hnswlib": HNSW}


def make_index(name, dim, **settings):
    """An empty index by its name.

    Raises
    ------
    InputError
        If there is no such index or setting, or its library is not installed.
    """
    return pick("index", name, INDEXES)(dim, **settings)
