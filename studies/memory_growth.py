"""How time and memory of a correction memory grow with its entries and with its classes."""

import hashlib
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from corrigible import CorrectionMemory
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import Scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import make
from studies.results import Study
from studies.scale import Cell, timed

READS = 20
ITEMS = 100  # corrections and predictions that are timed one by one
STREAM = 300  # items of a run
NOISE = 0.05
CONTENT = 2_000  # bytes that an entry adds to the file, about
# Of each kind the other is fixed.
ENTRIES = {"paper": (1_000, 10_000, 100_000, 1_000_000), "quick": (100, 1_000)}
CLASSES = {"paper": (10, 100, 1_000, 10_000), "quick": (5, 50)}
FIXED_ENTRIES = {"paper": 100_000, "quick": 500}
FIXED_CLASSES = 10
# Bytes that a fresh process needs for an open memory that has answered once.
HELD = """
import sys
import numpy as np
import psutil
from corrigible import CorrectionMemory

process = psutil.Process()
before = process.memory_info().rss
with CorrectionMemory.open(sys.argv[1]) as memory:
    memory.predict(np.eye(384)[0])
    print(process.memory_info().rss - before)
"""

MEMORY_GROWTH = Study("memory_growth", ("grows", "size", "what"), timed=True)


def of_memories(profile: str = "paper") -> pd.DataFrame:
    """Costs by number of entries and by number of classes, as a table.

    ``measured`` and ``limit`` are seconds, or bytes for ``what`` is "memory". The limit is what
    cannot be had for less, measured in the same run: a bare commit of as many bytes for a
    correction, one read of all vectors for a prediction, SHA-256 of the file for opening it and for
    verifying it, the vectors for memory. A run has none: it predicts and corrects.
    """
    plan = [("entries", n, n, FIXED_CLASSES) for n in ENTRIES[profile]]
    plan += [("classes", c, FIXED_ENTRIES[profile], c) for c in CLASSES[profile]]
    rows = []
    found: dict[tuple, list] = {}  # what is in both is measured once
    for grows, size, *cell in tqdm(plan, "memories", unit="memory"):
        if tuple(cell) not in found:
            with threadpool_limits(1):
                found[tuple(cell)] = [*of_memory(Cell(*cell, NOISE, queries=STREAM))]
        rows += [(grows, size, *costs) for costs in found[tuple(cell)]]
    return pd.DataFrame(rows, columns=["grows", "size", "what", "measured", "limit"])


def of_memory(cell: Cell) -> Iterator[tuple[str, float, float]]:
    """What is measured, its cost, and its limit, of a memory of the entries of a cell."""
    X = cell.rows(0, cell.n)
    Q, labels = cell.query_rows()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memory.sqlite")
        with CorrectionMemory.open(path) as memory:
            memory.learn(X, cell.labels(0, cell.n))
        opens = [sys.executable, "-c", HELD, path]
        held = int(subprocess.run(opens, check=True, capture_output=True, text=True).stdout)
        hashed = timed(hashlib.sha256, path.read_bytes())[1]
        memory, opened = timed(CorrectionMemory.open, path)
        with memory:
            memory.predict(Q[0])  # what is fitted once is not one prediction
            read = _median(np.max, [X.view(np.int32)] * READS)  # as integers: as fast as memory
            predict = _median(memory.predict, Q[:ITEMS])
            verified = timed(memory.verify)[1]
            correct, commit = _commits(memory, Q, labels, Path(folder, "bare.sqlite"))
    yield "correction", correct, commit
    yield "prediction", predict, read
    yield "opening", opened, hashed
    yield "verification", verified, hashed
    yield "memory", held, X.nbytes
    yield "run", timed(_run, X, cell, Q, labels)[1], np.nan


def _median(function: Callable, arguments: Iterable) -> float:
    """Median seconds of a function over arguments."""
    return float(np.median([timed(function, given)[1] for given in arguments]))


def _commits(memory, Q, labels, path: Path) -> tuple[float, float]:
    """Median seconds of a durable correction, and of a bare commit of as many bytes, in turns."""
    ours = []
    bare = []
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA synchronous = FULL")
        file.execute("CREATE TABLE bare (content)")
        for q, label in zip(Q[:ITEMS], labels.tolist()):
            ours.append(timed(memory.correct, q, label)[1])
            insert = "INSERT INTO bare VALUES (?)"
            bare.append(timed(file.execute, insert, [bytes(CONTENT)])[1])
    return float(np.median(ours)), float(np.median(bare))


def _run(X: np.ndarray, cell: Cell, Q: np.ndarray, labels: np.ndarray) -> None:
    """One run of the substrate on the entries of a cell, of which a tenth of classes is new."""
    new = np.arange(cell.classes - max(1, cell.classes // 10), cell.classes)
    known = cell.labels(0, cell.n) < new[0]
    novel = np.isin(labels, new)
    scenario = Scenario(
        dataset="synthetic",
        encoder="none",
        seed=0,
        classes=tuple(map(str, range(cell.classes))),
        held_out=new,
        X_initial=X[known],
        y_initial=cell.labels(0, cell.n)[known],
        X_stream=Q,
        y_stream=labels,
        X_novel=Q[novel],
        y_novel=labels[novel],
        X_original=Q[~novel],
        y_original=labels[~novel],
    )
    list(run_stream(make("substrate"), scenario, POLICIES["oracle"]))


def exponents(rows: pd.DataFrame) -> pd.DataFrame:
    """Exponent of growth of each cost, by what grows: the slope of a line through both logarithms.

    It is fitted to the larger sizes, three of four: small ones cost what every call does.
    """
    found = []
    for (grows, what), own in rows.groupby(["grows", "what"], sort=False):
        upper = own.nlargest(max(2, len(own) // 2 + 1), "size")
        slope = np.polyfit(np.log(upper["size"]), np.log(upper["measured"]), 1)[0]
        found.append({"grows": grows, "what": what, "exponent": slope})
    return pd.DataFrame(found)
