"""Exact and approximate search side by side on synthetic ledgers (paper, section 6.5)."""

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property

import numpy as np
import pandas as pd
import psutil
from threadpoolctl import threadpool_limits

from ocrrlib.experiments import parse_names
from ocrrlib.files import InputError, pick
from ocrrlib.search import top_k
from ocrrlib.tasks import CACHE
from ocrrlib.voting import vote
from studies.results import Study

DIM = 384  # numbers in a row
K = 5  # neighbours that vote
ROWS_PER_DRAW = 4096  # rows drawn by one generator, whatever the chunks that are read
ROWS_AT_ONCE = 65536  # rows generated, and searched exactly, at a time
HELD = 1_000_000  # entries up to which exact searches for single queries are timed
PART = 100_000  # rows after which a larger index is saved and loaded, at least
M = 16
EF_CONSTRUCTION = 200
EFFORTS = (8, 16, 32, 64, 128, 256, 512)  # values of ``ef``


def to_grid(X: np.ndarray) -> np.ndarray:
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

    def labels(self, start: int, stop: int) -> np.ndarray:
        """Class ids (stop - start,) of entries."""
        places = np.arange(start, stop)
        return places % self.classes if self.in_turn else places * self.classes // self.n

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Entries (stop - start, DIM) float32; the same whatever the chunks."""
        parts = []
        for first in range(start // ROWS_PER_DRAW * ROWS_PER_DRAW, stop, ROWS_PER_DRAW):
            labels = self.labels(first, first + ROWS_PER_DRAW).clip(max=self.classes - 1)
            block = self._draw(labels, [1, first // ROWS_PER_DRAW])
            parts.append(block[max(start - first, 0) : stop - first])
        return np.concatenate(parts)

    def chunks(self) -> Iterator[np.ndarray]:
        """All entries, ``ROWS_AT_ONCE`` at a time."""
        for first in range(0, self.n, ROWS_AT_ONCE):
            yield self.rows(first, min(first + ROWS_AT_ONCE, self.n))

    def query_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """New rows (queries, DIM) of evenly spread classes, and their class ids (queries,).

        They do not depend on ``n``.
        """
        m = self.queries
        if m >= self.classes:
            labels = np.arange(m) * self.classes // m
        else:
            labels = np.linspace(0, self.classes - 1, m).astype(int)
        return self._draw(labels, [2, 1]), labels

    @cached_property
    def centres(self) -> np.ndarray:
        """Unit centres (classes, DIM) float32."""
        drawn = np.random.default_rng([self.seed, 0]).standard_normal(
            (self.classes, DIM), np.float32
        )
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    @cached_property
    def axes(self) -> np.ndarray:
        """Orthogonal axes (rank, DIM) float32 that noise fills, scaled to keep its variance."""
        drawn = np.random.default_rng([self.seed, 3]).standard_normal((DIM, self.rank))
        return (np.linalg.qr(drawn)[0].T * np.sqrt(DIM / self.rank)).astype(np.float32)

    def _draw(self, labels, block):
        rng = np.random.default_rng([self.seed, *block])
        rows = rng.standard_normal((len(labels), self.rank), np.float32)
        if self.rank < DIM:
            rows = rows @ self.axes
        rows *= np.float32(self.noise)
        rows += self.centres[labels]
        return to_grid(rows)


@dataclass(frozen=True)
class Narrow(Cell):
    """A cell whose noise is as strong but fills ``rank`` dimensions only, as real sentences do."""

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


def cells(
    parts: str | Iterable[str],
    profile: str = "paper",
    of: dict[str, tuple[Cell, ...]] = COMPARISONS,
) -> list[Cell]:
    """The comparisons of parts, as ``"10k,1M"`` or a list; in the quick profile small ones.

    Raises ``InputError`` if a part is unknown.
    """
    found = []
    for name in parse_names(parts):
        pick("part of the scale experiment", name, PARTS)
        found += of.get(name, ())
    if profile == "quick":
        small = [cell for cell in found if cell.n <= PART and cell.seed == 0]
        found = [
            replace(cell, n=max(cell.n // 500, 2 * cell.classes), queries=100) for cell in small
        ]
    return list(dict.fromkeys(found))


def check_memory(n: int) -> None:
    """Refuse ``n`` entries (InputError) if less memory is free than hnswlib takes to index them."""
    # Each has its row, 2M links and a label at the bottom, some links above, a lock, a place in the
    # table of labels.
    need = n * (4 * DIM + 8 * M + 16 + 8 * M // (M - 1) + 110) + 4 * DIM * ROWS_AT_ONCE * 4
    free = psutil.virtual_memory().available
    if need > free:
        raise InputError(
            f"{n:,} entries need {need / 1e9:.1f} GB and {free / 1e9:.1f} GB are free: choose fewer"
        )


def timed(call: Callable, *arguments) -> tuple[object, float]:
    """What a call returns, and the seconds that it took."""
    started = time.perf_counter()
    returned = call(*arguments)
    return returned, time.perf_counter() - started


def empty_index(n: int, ef: int, seed: int = 0, dim: int = DIM):
    """An hnswlib index with room for ``n`` rows (Malkov and Yashunin 2020)."""
    import hnswlib  # optional

    index = hnswlib.Index("ip", dim)
    index.init_index(n, M, EF_CONSTRUCTION, seed)
    index.set_ef(ef)
    return index


@contextmanager
def saved(index) -> Iterator[str]:
    """While entered, the path of a file that holds an index."""
    with tempfile.TemporaryDirectory() as folder:
        index.save_index(f"{folder}/index.bin")
        yield f"{folder}/index.bin"


def nbytes(index) -> int:
    """Bytes of rows, links and labels, as hnswlib counts them."""
    with saved(index) as path:
        size = os.path.getsize(path)
    if not hasattr(index, "index_file_size"):  # Chroma's wheel writes four bytes more per entry
        size -= 4 * index.get_current_count()
    return size


def build(cell: Cell) -> tuple[object, float]:
    """The index over a cell's entries, and the seconds that adding took."""
    index = empty_index(cell.n, cell.ef, cell.seed)
    seconds = 0.0
    part = max(cell.n // 10, PART)
    for start in range(0, cell.n, part):
        end = min(start + part, cell.n)
        for first in range(start, end, ROWS_AT_ONCE):
            rows = cell.rows(first, min(first + ROWS_AT_ONCE, end))
            _, took = timed(index.add_items, rows, None, cell.threads)
            seconds += took
        # A loaded index draws other levels: the published ones were saved and loaded so, too.
        if cell.n > part:
            with saved(index) as path:
                index = type(index)("ip", DIM)  # the old one goes first: memory may not hold both
                index.load_index(path, cell.n)
            index.set_ef(cell.ef)
    return index, seconds


def search(index, Q: np.ndarray, k: int, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and slots (m, k) of neighbours, best first, newest first among equals.

    -inf and -1 where fewer are reached.
    """
    sims = np.full((len(Q), k), -np.inf)
    slots = np.full((len(Q), k), -1)
    near = min(k, index.get_current_count())
    try:
        slots[:, :near], distances = index.knn_query(Q, near, threads)
    except RuntimeError:  # some query reaches fewer entries, and hnswlib refuses the whole batch
        if len(Q) > 1:
            singles = [search(index, q[None], k) for q in Q]
            sims = np.concatenate([one for one, _ in singles])
            slots = np.concatenate([one for _, one in singles])
        elif near > 1:
            sims[:, : near - 1], slots[:, : near - 1] = search(index, Q, near - 1)
        return sims, slots
    sims[:, :near] = 1.0 - distances
    return _best(sims, slots, k)


def _best(sims, slots, k):
    order = np.lexsort((-slots, -sims), axis=-1)[:, :k]
    return np.take_along_axis(sims, order, axis=1), np.take_along_axis(slots, order, axis=1)


def exact_neighbours(
    cell: Cell, Q: np.ndarray, k: int
) -> tuple[tuple[np.ndarray, np.ndarray], float]:
    """As ``search``, among all of a cell's entries; and the seconds that searching took."""
    sims = np.full((len(Q), k), -np.inf)
    slots = np.full((len(Q), k), -1)
    seconds = 0.0
    for place, rows in enumerate(cell.chunks()):
        (near, found), took = timed(top_k, Q, rows, np.arange(len(rows)), k)
        found = np.where(found >= 0, found + place * ROWS_AT_ONCE, -1)
        sims, slots = _best(np.hstack([sims, near]), np.hstack([slots, found]), k)
        seconds += took
    return (sims, slots), seconds


def recall(found: np.ndarray, true: np.ndarray) -> float:
    """Share of the true neighbours that were found, both (m, k) slots."""
    return float((found[:, :, None] == true[:, None, :]).any(axis=1)[true >= 0].mean())


def judge(exact, near, labels: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Accuracies of two searches, with and without the vote, their recall and agreement.

    ``exact`` and ``near`` are pairs of cosines and slots (m, k), ``labels`` (n,) of the entries,
    ``y`` (m,) of the queries.
    """
    exact_labels = np.where(exact[1] >= 0, labels[exact[1]], -1)
    near_labels = np.where(near[1] >= 0, labels[near[1]], -1)
    elected_exact = vote(exact[0], exact_labels)
    elected_near = vote(near[0], near_labels)
    return {
        "exact_acc": float(np.mean(elected_exact == y)),
        "hnsw_acc": float(np.mean(elected_near == y)),
        "recall": recall(near[1], exact[1]),
        "agreement": float(np.mean(elected_exact == elected_near)),
        "exact_acc_k1": float(np.mean(exact_labels[:, 0] == y)),
        "hnsw_acc_k1": float(np.mean(near_labels[:, 0] == y)),
    }


def compare(cell: Cell) -> tuple[dict[str, float], dict[str, float]]:
    """Compare exact and approximate search: what each finds (see ``judge``) and what it costs.

    The first dict is the same on every machine. The second has the seconds of the build,
    milliseconds per query (one at a time, and in a batch), bytes of the index and of the process.
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
        held = np.nan
        if cell.n <= HELD:
            X = cell.rows(0, cell.n)
            born = np.arange(cell.n)
            held = [timed(top_k, q[None], X, born, K)[1] for q in Q[:50]]
    cost = {
        "build_s": build_s,
        "hnsw_ms": 1e3 * float(np.median(single)),
        "exact_ms": 1e3 * float(np.median(held)),
        "hnsw_batch_ms": 1e3 * batch_s / len(Q),
        "exact_batch_ms": 1e3 * exact_s / len(Q),
    }
    return judge(exact, near, cell.labels(0, cell.n), y), cost | sizes


COST_COLUMNS = "build_s hnsw_ms exact_ms hnsw_batch_ms exact_batch_ms bytes resident".split()
FIELDS = tuple(field.name for field in fields(Cell))


def _compare(setting):
    found, cost = compare(Cell(**setting))
    return found | cost


SCALE_CELL = ("classes", "noise", "n", "seed")
SCALE = Study("scale", SCALE_CELL, run_one=_compare, settings=FIELDS, cost="n")
SCALE_COSTS = Study("scale_costs", SCALE_CELL, timed=True)


def run_cells(
    cells: Iterable[Cell], jobs: int = 1, cache=CACHE, progress: bool = True
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run ``compare`` on every cell: tables of outcomes and of costs, a row per cell.

    With more than one job at a time costs are not worth much.
    """
    settings = [asdict(cell) for cell in cells]
    rows = SCALE.run(settings, jobs=jobs, cache=cache, progress=progress)
    return rows.drop(columns=COST_COLUMNS, errors="ignore"), rows.filter([*FIELDS, *COST_COLUMNS])
