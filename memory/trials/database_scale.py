"""A memory in PostgreSQL whose vectors stay there: time, memory and agreement at a million entries.

``python -m trials.database_scale ADDRESS [ENTRIES]`` makes a memory ``scale`` in the base, which
needs pgvector, and writes ``data/results/database_scale.parquet``; so does ``make database``.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable

import numpy as np
import pandas as pd

from corrigible import CorrectionMemory
from studies.results import Study
from studies.scale import ROWS_AT_ONCE, K, Narrow
from trials.database_client import timed

ENTRIES = 1_000_000
CLASSES = 1000
NAME = "scale"
EFFORTS = (40, 100, 200, 400)  # values of ``ef_search``
ASKED = 200  # queries
DATABASE_SCALE = Study("database_scale", ("entries", "ef_search"), timed=True)


def cell_of(n: int) -> Narrow:
    """Entries in narrow clusters, as real sentences are, with their classes in turn."""
    return Narrow(n, CLASSES, 0.05, queries=ASKED, in_turn=True)


def build(address: str, cell: Narrow) -> dict[str, float]:
    """Learn all entries, and make the index; seconds of each."""
    learnt = 0.0
    with CorrectionMemory.open(address, name=NAME, search="database") as memory:
        for place, rows in enumerate(cell.chunks()):
            labels = cell.labels(place * ROWS_AT_ONCE, place * ROWS_AT_ONCE + len(rows)).astype(str)
            seconds, _ = timed(memory.learn, rows, labels)
            learnt += seconds
        indexed, _ = timed(memory.make_index)
    return {"learn_s": learnt, "index_s": indexed}


def client(what: str, address: str, queries: str, *effort: int) -> dict:
    """What a process of its own finds, see ``trials.database_client``."""
    command = [sys.executable, "-m", "trials.database_client", what, address, NAME, queries]
    command += [str(one) for one in effort]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def measure(address: str, n: int = ENTRIES, efforts: Iterable[int] = EFFORTS) -> pd.DataFrame:
    """A row per effort, 0 for exact search: how an index agrees with that, and what it costs."""
    costs = build(address, cell_of(n))
    return asked(address, n, efforts).assign(**costs)


def asked(address: str, n: int, efforts: Iterable[int] = EFFORTS) -> pd.DataFrame:
    """As ``measure``, of a memory that is built."""
    with tempfile.NamedTemporaryFile(suffix=".npy") as queries:
        np.save(queries.name, cell_of(n).query_rows()[0])
        exact = client("ask", address, queries.name)
        rows = [_compared(exact, exact, 0)]
        for effort in efforts:
            rows.append(_compared(client("ask", address, queries.name, effort), exact, effort))
        changed = client("change", address, queries.name)
        costs = changed | client("check", address, queries.name)
    costs["change_mb"] = changed["client_mb"]
    del costs["client_mb"]
    return pd.DataFrame(rows).assign(entries=n, **costs)


def _compared(found, exact, effort):
    """Shares of neighbours and of answers that agree with exact search, and costs."""
    shares = [len({*ours} & {*true}) / K for ours, true in zip(found["near"], exact["near"])]
    agreement = np.mean([ours == true for ours, true in zip(found["labels"], exact["labels"])])
    known = {"ef_search": effort, "recall": np.mean(shares), "agreement": agreement}
    return known | found["costs"] | {"client_mb": found["client_mb"]}


def main() -> None:
    """Measure, show, and publish."""
    if len(sys.argv) < 2:
        sys.exit("give the address of a base with pgvector: postgresql://user@host/base")
    address, *entries = sys.argv[1:]
    found = measure(address, *map(int, entries))
    print(found.T.to_string())
    if not entries:
        DATABASE_SCALE.publish(found, keep=False)


if __name__ == "__main__":
    main()
