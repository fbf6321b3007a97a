"""The proposed system, more and less ready to answer new classes: what that gains, and what it costs."""

from dataclasses import dataclass
from itertools import product

import pandas as pd

from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import OURS, THREE
from ocrrlib.policies import POLICIES
from ocrrlib.rivals.ledger_lda import LedgerLDA
from ocrrlib.runs import dataset_of, declared
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import SYSTEMS
from ocrrlib.tasks import Task, run_tasks
from studies.results import STUDIES

KEY = STUDIES["boldness"]
EMBEDDED = DEFAULT_ENCODER, "embeddings"
FACTORS = (1 / 256, 1 / 64, 1 / 16, 1 / 4, 1.0, 4.0, 16.0)


@dataclass(eq=False, kw_only=True)
class Bolder(LedgerLDA):
    """The proposed system with the probability of every new class multiplied by a factor."""

    factor: float = 1.0

    def _mix(self, *readers):
        p = super()._mix(*readers)
        p[:, ~self.known] *= self.factor
        return p / p.sum(axis=1, keepdims=True)


def run_one(dataset, seed, factor):
    """The last checkpoint of a run with a tenth of the mistakes corrected, a dict."""
    scenario = make_scenario(dataset_of(dataset, *EMBEDDED), seed, cap=None)
    system = Bolder(seed=seed, factor=factor, **SYSTEMS[OURS].params)
    *_, last = run_stream(system, scenario, POLICIES["random10"])
    return last.scalars


def run_boldness(seeds=range(20), **how):
    """All runs, a row each; ``how``: ``jobs``, ``cache``, ``progress`` and ``dask`` of ``run_tasks``."""
    rows = [dict(zip(KEY, run)) for run in product(THREE, seeds, FACTORS)]
    about = {
        name: declared(OURS) | {"data": dataset_of(name, *EMBEDDED).fingerprint} for name in THREE
    }
    tasks = [
        Task(row | about[row["dataset"]], tuple(row.values()), (row["dataset"], row["seed"]))
        for row in rows
    ]
    return pd.DataFrame([row | found for row, found in zip(rows, run_tasks(run_one, tasks, **how))])


def rerun(row):
    """Outcomes by column of a published row, a mapping by column, from its own settings."""
    return run_one(*(row[name] for name in KEY))
