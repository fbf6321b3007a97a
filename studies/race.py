"""hnswlib and its peers on one thread: recall against queries a second, and the time of a build.

One function per library makes an empty index and returns four functions: to add rows, to find the
slots of neighbours, to set the effort of searches, and to count bytes.
"""

import importlib.util
import os
import warnings
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from ocrrlib.codes import GROUPS, Codes, library
from ocrrlib.search import top_k
from ocrrlib.tasks import CACHE, Task, run_tasks
from studies import scale
from studies.results import Study
from studies.scale import DIM, EF_CONSTRUCTION, EFFORTS, Cell, K, M, timed

RACE = Study("race", ("dimensions", "n", "index", "effort"), timed=True)
PROBES = (1, 2, 4, 8, 16, 32, 64)  # lists that are searched
RANKED = 100  # candidates from compressed rows that are ranked by their own rows, at most
SINGLES = 100  # queries that are timed one at a time


class _Rows:
    """Rows (n, DIM) that an index without them is ranked or searched by."""

    def __init__(self):
        self.X = np.empty((0, DIM), np.float32)

    def add(self, rows):
        self.X = np.concatenate([self.X, rows])


def _exact(cell, sample):
    held = _Rows()
    born = np.arange(cell.n)

    def neighbours(Q, k):
        return top_k(Q, held.X, born, k)[1]

    return held.add, neighbours, None, lambda: held.X.nbytes


def _exact_int8(cell, sample):
    held = _Rows()
    codes = Codes()
    born = np.arange(cell.n)

    def add(rows):
        nonlocal codes
        held.add(rows)
        if len(held.X) >= GROUPS:  # fewer are not coded
            codes = codes.extended(held.X, len(held.X))

    def neighbours(Q, k):
        return top_k(Q, held.X, born, k, codes if codes.size else None)[1]

    return add, neighbours, None, lambda: held.X.nbytes + codes.size * DIM


def _hnswlib(cell, sample):
    index = scale.empty_index(cell.n, cell.ef, cell.seed)

    def neighbours(Q, k):
        return scale.search(index, Q, k)[1]

    add = partial(index.add_items, num_threads=1)
    return add, neighbours, index.set_ef, partial(scale.nbytes, index)


def _faiss(cell, sample, description, effort):
    import faiss  # optional, as the others

    faiss.omp_set_num_threads(1)
    lists = int(cell.n**0.5)
    index = faiss.index_factory(DIM, description.format(lists), faiss.METRIC_INNER_PRODUCT)
    if effort == "efSearch":
        index.hnsw.efConstruction = EF_CONSTRUCTION
    if effort == "nprobe":
        faiss.extract_index_ivf(index).cp.seed = cell.seed
    if "RFlat" in description:
        index.k_factor = RANKED / K
    if not index.is_trained:
        index.train(sample)

    def neighbours(Q, k):
        return index.search(Q, k)[1]

    tune = partial(faiss.ParameterSpace().set_index_parameter, index, effort)
    return index.add, neighbours, tune, lambda: len(faiss.serialize_index(index))


def _turbovec(cell, sample):
    os.environ["RAYON_NUM_THREADS"] = "1"
    from turbovec import TurboQuantIndex

    index = TurboQuantIndex(dim=DIM, bit_width=4)
    held = _Rows()
    candidates = K

    def add(rows):
        index.add(rows)
        held.add(rows)

    def neighbours(Q, k):
        slots = index.search(Q, candidates)[1]
        cosines = np.einsum("md,mkd->mk", Q, held.X[slots])
        return np.take_along_axis(slots, np.argsort(-cosines, axis=1)[:, :k], axis=1)

    def tune(effort):
        nonlocal candidates
        candidates = effort

    def size():
        with TemporaryDirectory() as folder:
            index.write(f"{folder}/index.tv")
            return os.path.getsize(f"{folder}/index.tv") + held.X.nbytes

    return add, neighbours, tune, size


def _usearch(cell, sample):
    from usearch.index import Index

    index = Index(ndim=DIM, metric="ip", dtype="f32", connectivity=M, expansion_add=EF_CONSTRUCTION)

    def neighbours(Q, k):
        return index.search(Q, k, threads=1).keys

    add = partial(index.add, None, threads=1)
    tune = partial(setattr, index, "expansion_search")
    return add, neighbours, tune, lambda: index.memory_usage


RACED: dict[str, tuple[str, Callable, tuple]] = {  # the library, its function, efforts
    "exact": ("numpy", _exact, (None,)),
    "exact_int8": ("numkong", _exact_int8, (None,)),
    "hnswlib": ("hnswlib", _hnswlib, EFFORTS),
    "faiss_flat": ("faiss", partial(_faiss, description="Flat", effort=None), (None,)),
    "faiss_hnsw": ("faiss", partial(_faiss, description=f"HNSW{M}", effort="efSearch"), EFFORTS),
    "faiss_ivf": ("faiss", partial(_faiss, description="IVF{},Flat", effort="nprobe"), PROBES),
    "faiss_int8": ("faiss", partial(_faiss, description="SQ8", effort=None), (None,)),
    "faiss_rabitq": (
        "faiss",
        partial(_faiss, description="IVF{},RaBitQ4,RFlat", effort="nprobe"),
        PROBES,
    ),
    "usearch": ("usearch", _usearch, EFFORTS),
    "turbovec": ("turbovec", _turbovec, (K, 10, 20, 50, RANKED)),
}


def race(name: str, cell: Cell) -> list[dict]:
    """One index after one build, a dict per effort: recall, queries a second, build time, bytes.

    Queries come in one batch (``qps``), and one at a time (``qps_alone``).
    """
    scale.check_memory(cell.n)
    _, make_index, efforts = RACED[name]
    Q, _ = cell.query_rows()
    each = int(cell.n**0.5)
    starts = np.linspace(0, cell.n - each, 64).astype(int)  # in all classes
    sample = np.concatenate([cell.rows(start, start + each) for start in starts])
    (_, true), _ = scale.exact_neighbours(cell, Q, K)
    rows = []
    with threadpool_limits(1):
        (add, neighbours, tune, size), build_s = timed(make_index, cell, sample)
        build_s += sum(timed(add, chunk)[1] for chunk in cell.chunks())
        for effort in efforts:
            if effort:
                tune(effort)
            found, took = timed(neighbours, Q, K)
            recall = scale.recall(found, true)
            singles = [timed(neighbours, q[None], K)[1] for q in Q[:SINGLES]]
            speed = {"qps": len(Q) / took, "qps_alone": len(singles) / sum(singles)}
            rows.append({"effort": effort, "recall": recall} | speed)
    raced = {"index": name, "n": cell.n, "dimensions": cell.rank}
    held = {"build_s": build_s, "bytes": size()}
    return [raced | row | held for row in rows]


def _usable(name):
    """Whether the library of an index is installed, and of use to this processor."""
    if name == "exact_int8":
        return library() is not None
    return importlib.util.find_spec(RACED[name][0]) is not None


def races(parts: str, profile: str = "paper", cache=CACHE, progress: bool = True) -> pd.DataFrame:
    """All indexes on the data of these parts, a row per index and effort.

    One that is not usable here is left out, with a warning.
    """
    there = [name for name in RACED if _usable(name)]
    missing = [name for name in RACED if name not in there]
    if missing:
        warnings.warn(
            f"left out, for want of a library or an int8 processor: {', '.join(missing)}",
            stacklevel=2,
        )
    plan = [(name, cell) for cell in scale.cells(parts, profile, scale.RACES) for name in there]
    tasks = [Task({"race": name} | asdict(cell), (name, cell)) for name, cell in plan]
    found = run_tasks(race, tasks, 1, cache, progress)
    return pd.DataFrame([row for rows in found for row in rows])
