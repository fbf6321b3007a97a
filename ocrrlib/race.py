"""hnswlib and its peers on one thread: recall against queries a second, and what a build takes."""

import time

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib import scale
from ocrrlib.indexes import make_index
from ocrrlib.scale import CHUNK, check_memory, exact_neighbours, recall

EFFORTS = {"ef": scale.EFFORTS, "probes": (1, 2, 4, 8, 16, 32, 64), None: (None,)}


def race(name, cell, k=5):
    """One index on one thread: recall and queries a second for every effort, after one build.

    Returns
    -------
    list of dict, one per effort
    """
    check_memory(cell.n)
    data, lists = cell.data, int(cell.n**0.5)
    settings = {"lists": lists} if name == "faiss_ivf" else {}
    starts = np.linspace(0, cell.n - lists, 64).astype(int)  # rows of all classes, 64 for each list
    sample = np.concatenate([data.rows(start, start + lists) for start in starts])
    Q, _ = data.queries(cell.queries)
    true = exact_neighbours(data, Q, k)[1]
    with threadpool_limits(1):
        index = make_index(name, data.dim, capacity=cell.n, seed=cell.seed, **settings)
        started = time.perf_counter()
        index.train(sample)
        build_s, rows = time.perf_counter() - started, []
        for chunk in data.chunks(CHUNK):
            started = time.perf_counter()
            index.add(chunk)
            build_s += time.perf_counter() - started
        for effort in EFFORTS[index.effort]:
            if effort:
                index.tune(effort)
            started = time.perf_counter()
            _, found = index.search(Q, k)
            qps = len(Q) / (time.perf_counter() - started)
            rows.append(dict(index=name, n=cell.n, effort=effort, recall=recall(found, true), qps=qps, build_s=build_s))
    return [row | {"bytes": index.nbytes} for row in rows]
