"""A memory in PostgreSQL whose vectors stay there: time, memory and agreement at a million entries.

``python -m studies.database_scale ADDRESS [ENTRIES]`` makes a memory ``scale`` in the base, which
needs pgvector, and writes ``data/results/database_scale.parquet``.
"""

import resource
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context

import numpy as np
import pandas as pd

from ocrrlib.memory import CorrectionMemory
from studies.results import Study
from studies.scale import CHUNK, K, Narrow

ENTRIES = 1_000_000
CLASSES = 1000
NAME = "scale"
EFFORTS = (40, 100, 200, 400)  # values of ``ef_search``
ASKED = 200  # queries
CHANGED = 20  # corrections
DATABASE_SCALE = Study("database_scale", ("entries", "ef_search"), timed=True)


def timed(call: Callable, *arguments, **named) -> tuple[float, object]:
    """Seconds that a call takes, and what it returns."""
    started = time.perf_counter()
    returned = call(*arguments, **named)
    return time.perf_counter() - started, returned


def cell_of(n: int) -> Narrow:
    """Entries in narrow clusters, as real sentences are, with their classes in turn."""
    return Narrow(n, CLASSES, 0.05, queries=ASKED, in_turn=True)


def build(address: str, n: int) -> dict[str, float]:
    """Learn ``n`` entries, and make the index; seconds of each."""
    cell = cell_of(n)
    learnt = 0.0
    with CorrectionMemory.open(address, name=NAME, search="database") as memory:
        for place, rows in enumerate(cell.chunks()):
            labels = cell.labels(place * CHUNK, place * CHUNK + len(rows)).astype(str)
            seconds, _ = timed(memory.learn, rows, labels)
            learnt += seconds
        indexed, _ = timed(memory.make_index)
    return {"learn_s": learnt, "index_s": indexed}


def ask(address: str, n: int, ef_search: int | None, out) -> None:
    """Open a memory and ask it; put neighbours, labels, and costs in ``out``.

    The costs are seconds to open it, milliseconds of an answer, and megabytes of this process.
    """
    Q, _ = cell_of(n).query_rows()
    how = {"name": NAME, "search": "database", "ef_search": ef_search}
    opened, memory = timed(CorrectionMemory.open, address, **how)
    with memory:
        memory.predict(Q[0])  # confidence is learnt now
        found = [timed(memory.predict, q) for q in Q]
    milliseconds = 1e3 * np.array([seconds for seconds, _ in found])
    out.put(
        (
            [[near.entry for near in answer.neighbours] for _, answer in found],
            [answer.label for _, answer in found],
            {
                "open_s": opened,
                "answer_ms": np.median(milliseconds),
                "answer_p95_ms": np.quantile(milliseconds, 0.95),
                "client_mb": peak_mb(),
            },
        )
    )


def change(address: str, n: int, out) -> None:
    """Correct a memory and forget one entry; put milliseconds, seconds, and megabytes."""
    Q, _ = cell_of(n).query_rows()
    with CorrectionMemory.open(address, name=NAME, search="database") as memory:
        found = [timed(memory.correct, q, "new") for q in Q[:CHANGED]]
        places = [place for _, place in found]
        answer = memory.predict(Q[0])
        forgot, _ = timed(memory.forget, places[0])
        after = memory.predict(Q[0])
        for place in places[1:]:
            memory.undo(place)
        assert answer.neighbours[0].entry == places[0], "a correction is not found"
        assert places[0] not in [near.entry for near in after.neighbours], "it was not forgotten"
        assert memory.verify() is None
    milliseconds = 1e3 * np.median([seconds for seconds, _ in found])
    out.put({"correct_ms": milliseconds, "forget_s": forgot, "change_mb": peak_mb()})


def peak_mb() -> float:
    """Most memory that this process had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def alone(call: Callable, *arguments):
    """What a call puts in its last argument, a queue, in a process of its own."""
    context = get_context("spawn")
    out = context.Queue()
    process = context.Process(target=call, args=(*arguments, out))
    process.start()
    found = out.get()
    process.join()
    return found


def measure(address: str, n: int = ENTRIES) -> pd.DataFrame:
    """A row per effort, 0 for exact search: how an index agrees with that, and what it costs."""
    costs = build(address, n)
    near, labels, exact = alone(ask, address, n, None)
    rows = [{"ef_search": 0, "recall": 1.0, "agreement": 1.0} | exact]
    for effort in EFFORTS:
        found, answered, cost = alone(ask, address, n, effort)
        shares = [len({*ours} & {*true}) / K for ours, true in zip(found, near)]
        agreement = np.mean(np.array(answered) == np.array(labels))
        found_of_all = {"recall": np.mean(shares), "agreement": agreement}
        rows.append({"ef_search": effort} | found_of_all | cost)
    costs |= alone(change, address, n)
    return pd.DataFrame(rows).assign(entries=n, **costs)


def main() -> None:
    """Measure, show, and publish."""
    address, *rest = sys.argv[1:]
    found = measure(address, *map(int, rest))
    print(found.T.to_string())
    DATABASE_SCALE.publish(found)


if __name__ == "__main__":
    main()
