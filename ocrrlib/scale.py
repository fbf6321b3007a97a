"""Exact and approximate search side by side, on data of any size (paper, section 6.5)."""

import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ocrrlib.cache import RunCache
from ocrrlib.errors import InputError
from ocrrlib.files import ROOT, atomic
from ocrrlib.indexes.exact import Exact
from ocrrlib.indexes.hnsw import HNSW
from ocrrlib.provenance import closure, digest
from ocrrlib.search import top_k
from ocrrlib.synthetic import Synthetic, to_grid
from ocrrlib.voting import vote

CHUNK = 65536  # rows generated, and searched exactly, at a time
HELD = 1_000_000  # entries up to which all rows are held at once, to time an exact search for one query
SEGMENT = 100_000  # rows that are saved at a time, at least
EFFORTS = (8, 16, 32, 64, 128, 256, 512)  # values of ``ef``
FOLDER = ROOT / "build/indexes"
CACHE = ROOT / "build/cache/scale"


@dataclass(frozen=True)
class Cell:
    """One comparison: the data, the index and the queries.

    More than one thread builds faster, but no two such indexes are the same.
    """

    n: int
    classes: int
    noise: float
    seed: int = 0
    queries: int = 1000
    ef: int = 64
    threads: int = 1
    in_turn: bool = False

    @property
    def data(self):
        return Synthetic(self.n, self.classes, self.noise, self.seed, in_turn=self.in_turn)


def memory_needed(n, dim=384, M=16):
    """Bytes that hnswlib takes for ``n`` rows while it builds.

    Each entry has its row, 2M links and a label at the bottom, some links above,
    a lock and a place in the table of labels.
    """
    return n * (4 * dim + 8 * M + 16 + 8 * M // (M - 1) + 110) + 4 * dim * CHUNK * 4


def check_memory(n, dim=384):
    """Refuse a scale that would not fit.

    Raises
    ------
    InputError
        If less memory is free than it needs.
    """
    need, free = memory_needed(n, dim), psutil.virtual_memory().available
    if need > free:
        raise InputError(f"{n:,} entries need {need / 1e9:.1f} GB and {free / 1e9:.1f} GB are free: choose fewer")


def build(cell, folder=FOLDER, progress=False):
    """The index over a cell's data, and the seconds that adding took.

    It is saved after each tenth, and a stopped build goes on from there; it is loaded
    again at once, so that a build that was not stopped comes out the same.
    """
    data = cell.data
    index = HNSW(data.dim, capacity=cell.n, seed=cell.seed, threads=cell.threads, ef=cell.ef)
    tenth, seconds = max(cell.n // 10, SEGMENT), 0.0
    code, libraries = closure("ocrrlib.indexes.hnsw", "ocrrlib.synthetic")
    key = digest([asdict(cell) | {"queries": 0, "ef": 0}, code, libraries])
    for half in Path(folder).glob(f".{key}-*"):
        half.unlink()  # a stop while it was written
    parts = sorted(Path(folder).glob(f"{key}-*.bin"))
    while parts:
        try:
            index.load(parts[-1], cell.n)
            seconds = float(parts[-1].stem.split("-")[2])
            break
        except RuntimeError:
            warnings.warn(f"{parts[-1]} is damaged: what it held is built again", stacklevel=2)
            parts.pop().unlink()
    for old in parts[:-1]:
        old.unlink()
    parts = parts[-1:]
    with tqdm(total=cell.n, initial=index.size, unit="row", unit_scale=True, disable=not progress) as bar:
        while index.size < cell.n:
            end = min(index.size + tenth, cell.n)
            while index.size < end:
                rows = data.rows(index.size, min(index.size + CHUNK, end))
                started = time.perf_counter()
                index.add(rows)
                seconds += time.perf_counter() - started
                bar.update(len(rows))
            if cell.n > tenth:
                part = Path(folder) / f"{key}-{index.size:012d}-{seconds:.1f}.bin"
                with atomic(part) as temporary:
                    index.save(temporary)
                for old in parts:
                    old.unlink()
                parts = [part]
                index.load(part, cell.n)
    return index, seconds


def exact_neighbours(data, Q, k):
    """The ``k`` nearest entries of each query, chunk by chunk, and the seconds that searching took."""
    sims, slots = np.full((len(Q), k), -np.inf), np.full((len(Q), k), -1)
    seconds, first = 0.0, 0
    for rows in data.chunks(CHUNK):
        started = time.perf_counter()
        born = np.arange(first, first + len(rows))
        near, places = top_k(Q, rows, born, k)
        sims = np.concatenate([sims, near], axis=1)
        slots = np.concatenate([slots, np.where(places >= 0, places + first, -1)], axis=1)
        order = np.lexsort((-slots, -sims), axis=-1)[:, :k]
        sims, slots = (np.take_along_axis(a, order, axis=1) for a in (sims, slots))
        first += len(rows)
        seconds += time.perf_counter() - started
    return sims, slots, seconds


def recall(found, true):
    """Share of the true neighbours that were found, both (m, k) slots."""
    return float((found[:, :, None] == true[:, None, :]).any(axis=1)[true >= 0].mean())


def judge(exact, near, labels, y):
    """What two searches, each (sims, slots), lead to: accuracies with and without the vote, recall, agreement."""
    elected, first = {}, {}
    for name, (sims, slots) in (("exact", exact), ("hnsw", near)):
        known = np.where(slots >= 0, labels[slots], -1)
        elected[name], first[name] = vote(sims, known), known[:, 0]
    return {
        "exact_acc": float(np.mean(elected["exact"] == y)),
        "hnsw_acc": float(np.mean(elected["hnsw"] == y)),
        "recall": recall(near[1], exact[1]),
        "agreement": float(np.mean(elected["exact"] == elected["hnsw"])),
        "exact_acc_k1": float(np.mean(first["exact"] == y)),
        "hnsw_acc_k1": float(np.mean(first["hnsw"] == y)),
    }


def on_ledger(X, labels, Q, y, k=5, efforts=EFFORTS):
    """The same for entries X (n, d) that are at hand, with their labels (n,): one dict per ``ef``.

    Rows are put on the grid of ``ocrrlib.synthetic``, so that all machines agree.
    """
    X, Q = to_grid(X), to_grid(Q)
    index, exact = HNSW(X.shape[1], capacity=len(X)).add(X), top_k(Q, X, np.arange(len(X)), k)
    return [{"ef": ef} | judge(exact, index.tune(ef).search(Q, k), labels, y) for ef in efforts]


def timed(call, rounds):
    """Seconds of each call with one of the argument tuples ``rounds``."""
    times = []
    for arguments in rounds:
        started = time.perf_counter()
        call(*arguments)
        times.append(time.perf_counter() - started)
    return times


def one_by_one(search, Q, k):
    """Median milliseconds of a search with a single query."""
    return 1e3 * float(np.median(timed(search, [(q[None], k) for q in Q])))


def compare(cell, k=5, folder=FOLDER, progress=False):
    """Build, search both ways, let both vote.

    Returns
    -------
    found : dict
        Accuracies with and without the vote, recall, agreement: the same on every machine.
    cost : dict
        Seconds, milliseconds per query (one at a time, and in a batch), bytes of the index and of the process.
    """
    check_memory(cell.n)
    data = cell.data
    Q, y = data.queries(cell.queries)
    with threadpool_limits(cell.threads):
        index, build_s = build(cell, folder, progress)
        sims, slots, exact_s = exact_neighbours(data, Q, k)
        started = time.perf_counter()
        near, places = index.search(Q, k)
        batch_s = time.perf_counter() - started
        hnsw_ms = one_by_one(index.search, Q[:200], k)
        nbytes, resident = index.nbytes, psutil.Process().memory_info().rss
        del index  # the rows themselves may need its room
        held = Exact(data.dim, capacity=1).add(data.rows(0, cell.n)) if cell.n <= HELD else None
        exact_ms = one_by_one(held.search, Q[:50], k) if held else np.nan

    labels = data.labels(0, cell.n)
    found = judge((sims, slots), (near, places), labels, y)
    cost = {
        "build_s": build_s,
        "hnsw_ms": hnsw_ms,
        "exact_ms": exact_ms,
        "hnsw_batch_ms": 1e3 * batch_s / len(Q),
        "exact_batch_ms": 1e3 * exact_s / len(Q),
        "bytes": nbytes,
        "resident": resident,
    }
    return found, cost


def run_cells(cells, cache=CACHE, folder=FOLDER, progress=True, jobs=1):
    """Compare every cell; finished ones are found in the cache.

    With more than one job at a time, what is found is the same and what it costs is not worth much.

    Returns
    -------
    found, cost : DataFrame
        One row per cell each, see ``compare``.
    """
    kept, keys = RunCache(cache), [digest([asdict(cell), *closure("ocrrlib.scale")]) for cell in cells]
    results = {key: kept.load(key) for key in keys}
    todo = {key: cell for key, cell in zip(keys, cells) if results[key] is None}
    work = (delayed(_kept)(kept, key, cell, folder, progress and jobs == 1) for key, cell in todo.items())
    done = Parallel(n_jobs=jobs, return_as="generator_unordered")(work)
    for key, result in tqdm(done, total=len(cells), initial=len(cells) - len(todo), unit="cell", disable=not progress):
        results[key] = result
    pairs = [[asdict(cell) | part for part in results[key]] for key, cell in zip(keys, cells)]
    return tuple(pd.DataFrame([pair[i] for pair in pairs]) for i in range(2))


def _kept(cache, key, cell, folder, progress):
    """Compare a cell and save the result at once, so that a stop loses no other."""
    result = compare(cell, folder=folder, progress=progress and cell.n > SEGMENT)
    cache.save(key, result)
    return key, result
