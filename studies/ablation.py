"""What each part of the proposed system is worth: the system without it, in the nine main cells."""

from collections.abc import Iterable
from copy import deepcopy
from itertools import product

import numpy as np
import pandas as pd

from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import OURS, THREE
from ocrrlib.policies import POLICIES
from ocrrlib.rivals.even import even_prior
from ocrrlib.rivals.ledger_lda import LedgerLDA, likeliest_weights
from ocrrlib.runs import dataset_of, declared
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import SYSTEMS
from studies.results import Study

ABLATION_POLICIES = ("oracle", "random50", "random10")


class FreeMeans(LedgerLDA):
    """Class means are plain means."""

    least_spread = np.inf


class NoMeans(LedgerLDA):
    """Class means have no weight."""

    def _weigh(self, F, own):
        self.apart = (0.0, *likeliest_weights(F[1:2], own))
        self.among = (0.0, *likeliest_weights(F[1:], own))


class NoEntries(LedgerLDA):
    """Nearest entries have no weight."""

    def _weigh(self, F, own):
        self.apart = (*likeliest_weights(F[:1], own), 0.0)
        rho, eta = likeliest_weights(F[[0, 2]], own)
        self.among = (rho, 0.0, eta)


class NoHead(LedgerLDA):
    """The head has no weight, so that both sets of weights are one."""

    def _weigh(self, F, own):
        self.apart = likeliest_weights(F[:2], own)
        self.among = (*self.apart, 0.0)


class NoPrior(LedgerLDA):
    """All classes weigh the same."""

    def _log_prior(self):
        return np.zeros(self.n_classes)


class LatePrior(LedgerLDA):
    """A new class weighs as a known one until it has two rows."""

    def _log_prior(self):
        known = np.isin(np.arange(self.n_classes), self.known)
        return np.log(even_prior(self.counts, known))


class NoLookup(LedgerLDA):
    """A stored vector is answered as any other."""

    def _possible(self, cosines):
        return np.broadcast_to(self.seen, cosines.shape)


VARIANTS = {
    "all parts": LedgerLDA,
    "plain means": FreeMeans,
    "no means": NoMeans,
    "no nearest entries": NoEntries,
    "no head": NoHead,
    "no even prior": NoPrior,
    "even prior from two rows": LatePrior,
    "no lookup": NoLookup,
}


def _data(setting):
    return dataset_of(setting["dataset"], DEFAULT_ENCODER, "embeddings")


def run_variant(setting: dict) -> list[dict]:
    """Outcomes of a variant and seed at the last checkpoint under every policy; fitted once."""
    scenario = make_scenario(_data(setting), setting["seed"], cap=None)
    fitted = VARIANTS[setting["variant"]](seed=setting["seed"], **SYSTEMS[OURS].params)
    fitted.fit(scenario.X_initial, scenario.y_initial, scenario.classes)
    rows = []
    for policy in ABLATION_POLICIES:
        n = len(scenario.y_stream)
        stream = run_stream(deepcopy(fitted), scenario, POLICIES[policy], every=n, fitted=True)
        start, end = stream
        rows.append({"policy": policy} | end.scalars | {"start": start.original_acc})
    return rows


def _about(setting):
    return declared(OURS) | {"data": _data(setting).fingerprint}


ABLATION = Study(
    "ablation",
    ("dataset", "seed", "variant", "policy"),
    run_one=run_variant,
    settings=("dataset", "seed", "variant"),
    about=_about,
    together=("dataset", "seed"),
)


def run_ablation(seeds: Iterable[int] = range(5), **how) -> pd.DataFrame:
    """All runs, a row each; ``how``: options of ``run_tasks``."""
    runs = product(THREE, seeds, VARIANTS)
    return ABLATION.run([dict(zip(ABLATION.settings, run)) for run in runs], **how)
