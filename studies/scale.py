"""Exact and approximate search side by side, on synthetic ledgers of any size (paper, section 6.5)."""

import os
import tempfile
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property

import numpy as np
import pandas as pd
import psutil
from threadpoolctl import threadpool_limits

from ocrrlib.embeddings import load
from ocrrlib.experiments import SEEDS, WHOLE, parse_seeds
from ocrrlib.files import InputError, pick
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.search import top_k
from ocrrlib.stream import run_stream
from ocrrlib.systems import make
from ocrrlib.tasks import CACHE, Task, run_tasks
from ocrrlib.voting import vote

DIM, K = 384, 5  # numbers in a row, and neighbours that vote
BLOCK = 4096  # rows drawn by one generator, whatever the chunks that are read
CHUNK = 65536  # rows generated, and searched exactly, at a time
HELD = 1_000_000  # entries up to which all rows are held at once, to time an exact search for one query
PART = 100_000  # rows after which a larger index is saved and loaded, at least
M, EF_CONSTRUCTION = 16, 200
EFFORTS = (8, 16, 32, 64, 128, 256, 512)  # values of ``ef``


def to_grid(X):
    """Unit rows (n, d) as float32 multiples of 2**-11, of length one within 0.002.

    Products of two such rows are multiples of 2**-22 below 2, which float32 holds exactly: cosines,
    and with them every index, are the same on all processors.
    """
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    return (np.round(X * 2.0**11) / 2.0**11).astype(np.float32)


@dataclass(frozen=True)
class Cell:
    """One comparison: a ledger of ``n`` entries in classes of equal size, its index, its queries.

    Entries are a random unit centre per class and Gaussian noise of this standard deviation around
    it. Classes come one after the other, or in turn. With more than one thread no two indexes are
    the same.
    """

    n: int
    classes: int
    noise: float
    seed: int = 0
    queries: int = 1000
    ef: int = 64
    threads: int = 1
    in_turn: bool = False
    rank = DIM  # dimensions that noise fills

    def labels(self, start, stop):
        """Class ids (stop - start,) of entries."""
        places = np.arange(start, stop)
        return places % self.classes if self.in_turn else places * self.classes // self.n

    def rows(self, start, stop):
        """Entries ``start`` to ``stop``, (stop - start, DIM) float32; the same whatever the chunks."""
        parts = []
        for first in range(start // BLOCK * BLOCK, stop, BLOCK):
            labels = self.labels(first, first + BLOCK).clip(max=self.classes - 1)
            parts.append(
                self._draw(labels, [1, first // BLOCK])[max(start - first, 0) : stop - first]
            )
        return np.concatenate(parts)

    def chunks(self):
        """All entries, ``CHUNK`` at a time."""
        return (self.rows(first, min(first + CHUNK, self.n)) for first in range(0, self.n, CHUNK))

    def query_rows(self):
        """New rows of evenly spread classes, (queries, DIM), and their class ids; they do not depend on ``n``."""
        m, few = self.queries, np.linspace(0, self.classes - 1, self.queries).astype(int)
        labels = np.arange(m) * self.classes // m if m >= self.classes else few
        return self._draw(labels, [2, 1]), labels

    @cached_property
    def centres(self):
        """Unit centres (classes, DIM) float32."""
        drawn = np.random.default_rng([self.seed, 0]).standard_normal(
            (self.classes, DIM), np.float32
        )
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    @cached_property
    def axes(self):
        """Orthogonal axes (rank, DIM) float32 that noise fills, so long that it keeps its variance."""
        drawn = np.random.default_rng([self.seed, 3]).standard_normal((DIM, self.rank))
        return (np.linalg.qr(drawn)[0].T * np.sqrt(DIM / self.rank)).astype(np.float32)

    def _draw(self, labels, block):
        rows = np.random.default_rng([self.seed, *block]).standard_normal(
            (len(labels), self.rank), np.float32
        )
        rows = rows if self.rank == DIM else rows @ self.axes
        rows *= np.float32(self.noise)
        rows += self.centres[labels]
        return to_grid(rows)


@dataclass(frozen=True)
class Narrow(Cell):
    """A cell whose noise is as strong, but fills ``rank`` dimensions alone: about what real sentences look like."""

    rank: int = 12


SETTINGS = ((100, 0.1), (10, 0.15), (2, 0.125))  # classes and noise
LIVE = "10k"  # parts that `make paper` repeats


def _scale(n, seeds, settings=SETTINGS, threads=1):
    return tuple(
        Cell(n, classes, noise, seed, threads=threads)
        for classes, noise in settings
        for seed in seeds
    )


COMPARISONS = {
    "10k": _scale(10_000, range(1)),
    "100k": _scale(100_000, range(1)),
    "seeds": _scale(10_000, range(1, 5)) + _scale(100_000, range(1, 5)),
    "1M": _scale(1_000_000, range(1)),
    "10M": _scale(10_000_000, range(1), SETTINGS[:1], threads=2),
    "map": tuple(
        Cell(classes * each, classes, noise)
        for classes in (2, 10, 100, 1000)
        for each in (10, 100, 1000, 10_000)
        for noise in (0.05, 0.1, 0.125, 0.15, 0.2, 0.3)
        if 1000 <= classes * each <= 100_000
    ),
}
RACES = {
    f"race_{part}": (COMPARISONS[part][0], Narrow(COMPARISONS[part][0].n, 100, 0.05))
    for part in ("10k", "100k", "1M")
}
PARTS = COMPARISONS | RACES


def cells(parts, profile="paper", of=COMPARISONS):
    """The comparisons of parts, given as ``"10k,1M"`` (InputError if unknown); in the quick profile small ones."""
    names = [name for name in parts.split(",") if pick("part of the scale experiment", name, PARTS)]
    plan = dict.fromkeys(cell for name in names for cell in of.get(name, ()))
    if profile == "quick":
        small = [cell for cell in plan if cell.n <= PART and cell.seed == 0]
        plan = dict.fromkeys(
            replace(cell, n=max(cell.n // 500, 2 * cell.classes), queries=100) for cell in small
        )
    return list(plan)


def check_memory(n):
    """Refuse ``n`` entries (InputError) if less memory is free than hnswlib takes to index them."""
    # Each has its row, 2M links and a label at the bottom, some links above, a lock, a place in the
    # table of labels.
    need = n * (4 * DIM + 8 * M + 16 + 8 * M // (M - 1) + 110) + 4 * DIM * CHUNK * 4
    free = psutil.virtual_memory().available
    if need > free:
        raise InputError(
            f"{n:,} entries need {need / 1e9:.1f} GB and {free / 1e9:.1f} GB are free: choose fewer"
        )


def timed(call, *arguments):
    """What a call returns, and the seconds that it took."""
    started = time.perf_counter()
    return call(*arguments), time.perf_counter() - started


def empty_index(n, ef, seed=0, dim=DIM):
    """An hnswlib index with room for ``n`` rows (Malkov and Yashunin 2020)."""
    import hnswlib  # optional

    index = hnswlib.Index("ip", dim)
    index.init_index(n, M, EF_CONSTRUCTION, seed)
    index.set_ef(ef)
    return index


@contextmanager
def saved(index):
    """While entered, the path of a file that holds an index."""
    with tempfile.TemporaryDirectory() as folder:
        index.save_index(f"{folder}/index.bin")
        yield f"{folder}/index.bin"


def nbytes(index):
    """Bytes of rows, links and labels, as hnswlib counts them; Chroma's wheel writes four more per entry."""
    with saved(index) as path:
        return os.path.getsize(path) - (
            0 if hasattr(index, "index_file_size") else 4 * index.get_current_count()
        )


def build(cell):
    """The index over a cell's entries, and the seconds that adding took."""
    index, seconds, part = empty_index(cell.n, cell.ef, cell.seed), 0.0, max(cell.n // 10, PART)
    for start in range(0, cell.n, part):
        end = min(start + part, cell.n)
        for first in range(start, end, CHUNK):
            seconds += timed(
                index.add_items, cell.rows(first, min(first + CHUNK, end)), None, cell.threads
            )[1]
        if (
            cell.n > part
        ):  # a loaded index draws other levels: the published ones were saved and loaded so, too
            with saved(index) as path:
                index = type(index)("ip", DIM)  # the old one goes first: memory may not hold both
                index.load_index(path, cell.n)
            index.set_ef(cell.ef)
    return index, seconds


def search(index, Q, k, threads=1):
    """Cosines (m, k), best first, newest first among equals, and slots (m, k); -inf and -1 where fewer are reached."""
    sims, slots, near = (
        np.full((len(Q), k), -np.inf),
        np.full((len(Q), k), -1),
        min(k, index.get_current_count()),
    )
    try:
        slots[:, :near], distances = index.knn_query(Q, near, threads)
    except RuntimeError:  # some query reaches fewer entries, and hnswlib refuses the whole batch
        if len(Q) > 1:
            return tuple(map(np.concatenate, zip(*(search(index, q[None], k) for q in Q))))
        if near > 1:
            sims[:, : near - 1], slots[:, : near - 1] = search(index, Q, near - 1)
        return sims, slots
    sims[:, :near] = 1.0 - distances
    return _best(sims, slots, k)


def _best(sims, slots, k):
    order = np.lexsort((-slots, -sims), axis=-1)[:, :k]
    return np.take_along_axis(sims, order, axis=1), np.take_along_axis(slots, order, axis=1)


def exact_neighbours(cell, Q, k):
    """The same among all of a cell's entries, and the seconds that searching took."""
    sims, slots, seconds = np.full((len(Q), k), -np.inf), np.full((len(Q), k), -1), 0.0
    for place, rows in enumerate(cell.chunks()):
        (near, found), took = timed(top_k, Q, rows, np.arange(len(rows)), k)
        found = np.where(found >= 0, found + place * CHUNK, -1)
        sims, slots = _best(np.hstack([sims, near]), np.hstack([slots, found]), k)
        seconds += took
    return (sims, slots), seconds


def recall(found, true):
    """Share of the true neighbours that were found, both (m, k) slots."""
    return float((found[:, :, None] == true[:, None, :]).any(axis=1)[true >= 0].mean())


def judge(exact, near, labels, y):
    """What two searches, each (sims, slots), lead to: accuracies with and without the vote, recall, agreement."""
    known = [np.where(slots >= 0, labels[slots], -1) for _, slots in (exact, near)]
    elected = vote(exact[0], known[0]), vote(near[0], known[1])
    return {
        "exact_acc": float(np.mean(elected[0] == y)),
        "hnsw_acc": float(np.mean(elected[1] == y)),
        "recall": recall(near[1], exact[1]),
        "agreement": float(np.mean(elected[0] == elected[1])),
        "exact_acc_k1": float(np.mean(known[0][:, 0] == y)),
        "hnsw_acc_k1": float(np.mean(known[1][:, 0] == y)),
    }


def compare(cell):
    """Build, search both ways, let both vote: two dicts, what is found (see ``judge``) and what it costs.

    The first is the same on every machine. The second has the seconds of the build, milliseconds
    per query (one at a time, and in a batch), bytes of the index and of the process.
    """
    check_memory(cell.n)
    Q, y = cell.query_rows()
    with threadpool_limits(cell.threads):
        index, build_s = build(cell)
        exact, exact_s = exact_neighbours(cell, Q, K)
        near, batch_s = timed(search, index, Q, K, cell.threads)
        single = [timed(search, index, q[None], K)[1] for q in Q[:200]]
        sizes = {"bytes": nbytes(index), "resident": psutil.Process().memory_info().rss}
        del index  # the rows themselves may need its room
        X, born = cell.rows(0, cell.n if cell.n <= HELD else 1), np.arange(cell.n)
        held = [timed(top_k, q[None], X, born, K)[1] for q in Q[:50]] if cell.n <= HELD else np.nan
    cost = {
        "build_s": build_s,
        "hnsw_ms": 1e3 * float(np.median(single)),
        "exact_ms": 1e3 * float(np.median(held)),
    }
    cost |= {"hnsw_batch_ms": 1e3 * batch_s / len(Q), "exact_batch_ms": 1e3 * exact_s / len(Q)}
    return judge(exact, near, cell.labels(0, cell.n), y), cost | sizes


def run_cells(cells, jobs=1, cache=CACHE, progress=True):
    """What is found in every cell and what it costs, see ``compare``: two DataFrames with a row per cell.

    With more than one job at a time costs are not worth much.
    """
    pairs = run_tasks(
        compare, [Task(asdict(cell), (cell,), cost=cell.n) for cell in cells], jobs, cache, progress
    )
    return tuple(
        pd.DataFrame([asdict(cell) | pair[i] for cell, pair in zip(cells, pairs)]) for i in range(2)
    )


def rerun(row):
    """Outcomes by column of a published row, a mapping by column, from its own settings."""
    return compare(Cell(**{field.name: row[field.name] for field in fields(Cell)}))[0]


CLUSTERS = {f"{classes} clusters": Cell(10_000, classes, noise) for classes, noise in SETTINGS}
ORDERS = "as written", "by class", "shuffled"
NEAREST = 20  # neighbours from which a local dimension is estimated


def ledger_of(name, encoder, seed, profile="paper"):
    """Rows (n, d) of a ledger, class ids (n,), queries (m, d), class ids (m,).

    Of a dataset the ledger is the substrate's after a whole stream, and queries are all test rows.
    """
    if name in CLUSTERS:
        cell = replace(CLUSTERS[name], seed=seed, n=10_000 if profile == "paper" else 500)
        return cell.rows(0, cell.n), cell.labels(0, cell.n), *cell.query_rows()
    s, system = make_scenario(load(name, encoder), seed, **WHOLE[profile]), make("substrate")
    for _ in run_stream(system, s, POLICIES["oracle"]):
        pass
    Q, y = s.queries[len(s.y_stream) :], np.concatenate([s.y_novel, s.y_original])
    return to_grid(system.entries.X), system.entries.y, to_grid(Q), y


def dimension(cosines):
    """Median local intrinsic dimension around queries, from the cosines (m, k) of their neighbours, best first.

    The maximum-likelihood estimate (Levina and Bickel 2004) is the inverse mean of log(r_k / r_i)
    over distances r.
    """
    r = np.sqrt(np.maximum(2 - 2 * cosines, 1e-6))
    return float(np.median(1 / np.log(r[:, -1:] / r[:, :-1]).mean(axis=1)))


def search_ledger(name, encoder, seed, order="as written", profile="paper", efforts=EFFORTS):
    """Approximate search on a ledger whose rows were added in this order, at every effort: a list of dict."""
    X, labels, Q, y = ledger_of(name, encoder, seed, profile)
    sorts = {
        "by class": np.argsort(labels, kind="stable"),
        "shuffled": np.random.default_rng(seed).permutation(len(X)),
    }
    X, labels = (part[sorts.get(order, slice(None))] for part in (X, labels))
    index = empty_index(len(X), EFFORTS[0], dim=X.shape[1])
    index.add_items(X, None, 1)
    sims, slots = top_k(Q, X, np.arange(len(X)), NEAREST)
    exact, known, rows = (
        (sims[:, :K], slots[:, :K]),
        {"entries": len(X), "dimension": dimension(sims)},
        [],
    )
    for ef in efforts:
        index.set_ef(ef)
        found = known | judge(exact, search(index, Q, K), labels, y)
        rows.append(
            {"dataset": name, "encoder": encoder, "order": order, "seed": seed, "ef": ef} | found
        )
    return rows


def search_ledgers(names, encoder, seeds=SEEDS, profile="paper", jobs=1):
    """The same for several ledgers, in all orders, as a table."""
    plan = [
        (name, encoder, seed, order, profile)
        for name in names
        for order in ORDERS
        for seed in parse_seeds(seeds)
    ]
    tasks = [Task({"ledger": one}, one) for one in plan]
    return pd.DataFrame(sum(run_tasks(search_ledger, tasks, jobs, None, False), []))


def rerun_ledger(row):
    """As ``rerun``, for a row of ``search_ledgers``."""
    return search_ledger(
        *(row[name] for name in ("dataset", "encoder", "seed", "order")), efforts=[row["ef"]]
    )[0]
