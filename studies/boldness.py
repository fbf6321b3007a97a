"""The proposed system, more and less ready to answer new classes: gains and costs."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import OURS, THREE
from ocrrlib.policies import POLICIES
from ocrrlib.rivals.ledger_lda import LedgerLDA
from ocrrlib.runs import dataset_of, declared
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import SYSTEMS
from studies.results import Study

FACTORS = (1 / 256, 1 / 64, 1 / 16, 1 / 4, 1.0, 4.0, 16.0)


@dataclass(eq=False, kw_only=True)
class Bolder(LedgerLDA):
    """The proposed system with the probability of every new class multiplied by a factor."""

    factor: float = 1.0

    def _log_prior(self) -> np.ndarray:
        new = ~np.isin(np.arange(self.n_classes), self.known)
        return super()._log_prior() + new * np.log(self.factor)


def _data(setting):
    return dataset_of(setting["dataset"], DEFAULT_ENCODER, "embeddings")


def run_factor(setting: dict) -> dict:
    """Outcomes at the last checkpoint of a run with a tenth of the mistakes corrected."""
    scenario = make_scenario(_data(setting), setting["seed"], cap=None)
    params = SYSTEMS[OURS].params
    system = Bolder(seed=setting["seed"], factor=setting["factor"], **params)
    *_, last = run_stream(system, scenario, POLICIES["random10"])
    return last.scalars


def _about(setting):
    return declared(OURS) | {"data": _data(setting).fingerprint}


BOLDNESS = Study(
    "boldness",
    ("dataset", "seed", "factor"),
    run_one=run_factor,
    about=_about,
    together=("dataset", "seed"),
)


def run_boldness(seeds: Iterable[int] = range(20), **how) -> pd.DataFrame:
    """All runs, a row each; ``how``: options of ``run_tasks``."""
    settings = [dict(zip(BOLDNESS.key, run)) for run in product(THREE, seeds, FACTORS)]
    return BOLDNESS.run(settings, **how)
