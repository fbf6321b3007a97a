"""An application with a memory in PostgreSQL: ``python -m trials.database_client`` prints costs.

It loads nothing that an application would not load, so that its memory is that of one.
"""

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from corrigible import CorrectionMemory, verify

CHANGED = 20  # corrections


def timed(call: Callable, *arguments, **named) -> tuple[float, object]:
    """Seconds that a call takes, and what it returns."""
    started = time.perf_counter()
    returned = call(*arguments, **named)
    return time.perf_counter() - started, returned


def ask(address: str, name: str, Q: np.ndarray, ef_search: int | None = None) -> dict:
    """Open a memory and ask it about rows Q (m, d): neighbours, labels, seconds, milliseconds."""
    how = {"name": name, "search": "database", "ef_search": ef_search}
    opened, memory = timed(CorrectionMemory.open, address, **how)
    with memory:
        first, _ = timed(memory.predict, Q[0])  # confidence is learnt
        found = [timed(memory.predict, q) for q in Q]
    milliseconds = [1e3 * seconds for seconds, _ in found]
    return {
        "near": [[near.entry for near in answer.neighbours] for _, answer in found],
        "labels": [answer.label for _, answer in found],
        "costs": {
            "open_s": opened,
            "first_s": first,
            "answer_ms": np.median(milliseconds),
            "answer_p95_ms": np.quantile(milliseconds, 0.95),
        },
    }


def change(address: str, name: str, Q: np.ndarray, ef_search: int | None = None) -> dict:
    """Correct a memory, and forget one of the corrections: what it costs."""
    how = {"name": name, "search": "database", "ef_search": ef_search}
    with CorrectionMemory.open(address, **how) as memory:
        found = [timed(memory.correct, q, "new") for q in Q[:CHANGED]]
        places = [place for _, place in found]
        answer = memory.predict(Q[0])
        assert answer.neighbours[0].entry == places[0], "a correction is not found"
        forgot, _ = timed(memory.forget, places[0])
        again, answer = timed(memory.predict, Q[0])  # all entries are read again
        assert places[0] not in [near.entry for near in answer.neighbours], "it is still found"
        undone = [timed(memory.undo, place)[0] for place in places[1:]]
    milliseconds = [1e3 * seconds for seconds, _ in found]
    return {
        "correct_ms": np.median(milliseconds),
        "undo_ms": 1e3 * np.median(undone),
        "forget_s": forgot,
        "after_forget_s": again,
    }


def check(address: str, name: str, Q: np.ndarray, ef_search: int | None = None) -> dict:
    """Verify a memory: what it costs."""
    seconds, fault = timed(verify, address, name=name)
    assert fault is None, fault
    return {"verify_s": seconds}


def peak_mb() -> float:
    """Most memory that this program had, in megabytes; not what its parent had, as by getrusage."""
    status = Path("/proc/self/status").read_text()
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    return int(peak) * 1024 / 1e6


def main() -> None:
    """Do what the first argument says, and print JSON with the most memory that it took."""
    what, address, name, queries, *effort = sys.argv[1:]
    does = {"ask": ask, "change": change, "check": check}[what]
    found = does(address, name, np.load(queries), *map(int, effort))
    found["client_mb"] = peak_mb()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
