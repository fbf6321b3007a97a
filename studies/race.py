"""hnswlib and its peers on one thread: recall against queries a second, and the time of a build.

One function per library makes an empty index and returns four functions: to add rows, to find the
slots of neighbours, to set the effort of searches, and to count bytes.
"""

import importlib.util
import os
import warnings
from dataclasses import asdict
from functools import partial
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from ocrrlib.search import top_k
from ocrrlib.tasks import CACHE, Task, run_tasks
from studies import scale
from studies.scale import DIM, EF_CONSTRUCTION, EFFORTS, K, M, timed

PROBES = (1, 2, 4, 8, 16, 32, 64)  # lists that are searched
RANKED = 100  # candidates from compressed rows that are ranked by their own rows, at most


def _exact(cell, sample):
    held, born = [np.empty((0, DIM), np.float32)], np.arange(cell.n)

    def add(rows):
        held[0] = np.concatenate([held[0], rows])

    return add, lambda Q, k: top_k(Q, held[0], born, k)[1], None, lambda: held[0].nbytes


def _hnswlib(cell, sample):
    index = scale.empty_index(cell.n, cell.ef, cell.seed)
    add = partial(index.add_items, num_threads=1)
    return (
        add,
        lambda Q, k: scale.search(index, Q, k)[1],
        index.set_ef,
        partial(scale.nbytes, index),
    )


def _faiss(cell, sample, description, effort):
    import faiss  # optional, as the others

    faiss.omp_set_num_threads(1)
    index = faiss.index_factory(
        DIM, description.format(int(cell.n**0.5)), faiss.METRIC_INNER_PRODUCT
    )
    if effort == "efSearch":
        index.hnsw.efConstruction = EF_CONSTRUCTION
    if effort == "nprobe":
        faiss.extract_index_ivf(index).cp.seed = cell.seed
    if "RFlat" in description:
        index.k_factor = RANKED / K
    if not index.is_trained:
        index.train(sample)
    tune = partial(faiss.ParameterSpace().set_index_parameter, index, effort)
    return (
        index.add,
        lambda Q, k: index.search(Q, k)[1],
        tune,
        lambda: len(faiss.serialize_index(index)),
    )


def _turbovec(cell, sample):
    os.environ["RAYON_NUM_THREADS"] = "1"
    from turbovec import TurboQuantIndex

    index, held, candidates = (
        TurboQuantIndex(dim=DIM, bit_width=4),
        [np.empty((0, DIM), np.float32)],
        [K],
    )

    def add(rows):
        index.add(rows)
        held[0] = np.concatenate([held[0], rows])

    def neighbours(Q, k):
        slots = index.search(Q, candidates[0])[1]
        cosines = np.einsum("md,mkd->mk", Q, held[0][slots])
        return np.take_along_axis(slots, np.argsort(-cosines, axis=1)[:, :k], axis=1)

    def size():
        with TemporaryDirectory() as folder:
            index.write(f"{folder}/index.tv")
            return os.path.getsize(f"{folder}/index.tv") + held[0].nbytes

    return add, neighbours, lambda effort: candidates.__setitem__(0, effort), size


def _usearch(cell, sample):
    from usearch.index import Index

    index = Index(ndim=DIM, metric="ip", dtype="f32", connectivity=M, expansion_add=EF_CONSTRUCTION)
    add, tune = partial(index.add, None, threads=1), partial(setattr, index, "expansion_search")
    return add, lambda Q, k: index.search(Q, k, threads=1).keys, tune, lambda: index.memory_usage


RACED = {  # the library, its function, efforts
    "exact": ("numpy", _exact, (None,)),
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


def race(name, cell):
    """One index after one build, a dict per effort: recall, queries a second, seconds of the build, bytes."""
    scale.check_memory(cell.n)
    (_, make_index, efforts), (Q, _), rows = RACED[name], cell.query_rows(), []
    starts = np.linspace(0, cell.n - int(cell.n**0.5), 64).astype(int)  # in all classes
    sample = np.concatenate([cell.rows(start, start + int(cell.n**0.5)) for start in starts])
    (_, true), _ = scale.exact_neighbours(cell, Q, K)
    with threadpool_limits(1):
        (add, neighbours, tune, size), build_s = timed(make_index, cell, sample)
        build_s += sum(timed(add, chunk)[1] for chunk in cell.chunks())
        for effort in efforts:
            if effort:
                tune(effort)
            found, took = timed(neighbours, Q, K)
            rows.append(
                {"effort": effort, "recall": scale.recall(found, true), "qps": len(Q) / took}
            )
    held = {"build_s": build_s, "bytes": size()}
    return [{"index": name, "n": cell.n, "dimensions": cell.rank} | row | held for row in rows]


def races(parts, profile="paper", cache=CACHE, progress=True):
    """All indexes on the data of these parts, a row per index and effort; one whose library is missing is left out."""
    there = [name for name, (library, *_) in RACED.items() if importlib.util.find_spec(library)]
    if len(there) < len(RACED):
        warnings.warn(
            f"without their libraries are left out: {', '.join(RACED.keys() - set(there))}",
            stacklevel=2,
        )
    plan = [(name, cell) for cell in scale.cells(parts, profile, scale.RACES) for name in there]
    tasks = [Task({"race": name} | asdict(cell), (name, cell)) for name, cell in plan]
    return pd.DataFrame(sum(run_tasks(race, tasks, 1, cache, progress), []))
