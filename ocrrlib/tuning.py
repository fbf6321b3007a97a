"""How our own system was set: on training rows only, with seeds of their own."""

from dataclasses import replace

import numpy as np
import pandas as pd

from ocrrlib.embeddings import load
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.errors import pick
from ocrrlib.experiments import OURS
from ocrrlib.files import ROOT
from ocrrlib.policies import POLICIES
from ocrrlib.provenance import closure, digest
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.studies import each
from ocrrlib.systems import SYSTEMS

SEEDS = (1000, 1001, 1002, 1003)  # none of them is reported on
TESTED = 4  # every so-many-th training row of a class is a test row here
CACHE = ROOT / "build/cache/tuning"
SETTING = ["parameter", "value", "chosen", "dataset", "policy", "seed"]
# What else each setting could be; a dot leads into a setting that is a dict.
ALTERNATIVES = {
    "neighbour_weight": (0.0, 0.3, 0.7, 1.0),
    "k": (5, 20),
    "neighbour_temperature": (0.03, 0.1),
    "new_odds": (1.0, 2.0),
    "head_weight": (0.0, 0.15, 0.6),
    "model_temperature": (6.0, 24.0),
    "model.shrinkage": (0.1, 0.3),
    "model.floor": (0.02, 0.2),
    "model.prior_rows": (30, 300),
    "model.power": (0.0, 0.5, 1.0),
}


def from_training_rows(data):
    """A dataset made of another one's training rows: of each class, every fourth at random is a test row."""
    rng, tested = np.random.default_rng(0), np.zeros(len(data.y_train), bool)
    for label in range(len(data.classes)):
        rows = np.flatnonzero(data.y_train == label)
        tested[rng.permutation(rows)[: len(rows) // TESTED]] = True
    parts = {"X_train": data.X_train[~tested], "y_train": data.y_train[~tested]}
    parts |= {"X_test": data.X_train[tested], "y_test": data.y_train[tested]}
    return replace(data, **parts)


def settings():
    """All settings that are compared: (name of the one that differs, its value, all of them); first as chosen."""
    chosen = SYSTEMS[OURS].params
    found = [("", np.nan, chosen)]
    for name, values in ALTERNATIVES.items():
        group, _, key = name.rpartition(".")
        old = chosen[group] if group else chosen
        pick("setting", key, old)
        for value in values:
            new = old | {key: value}
            found.append((name, float(value), chosen | {group: new} if group else new))
    return found


def accuracy(data, policy, seed, params):
    """Final novel and original accuracy on the rows of ``from_training_rows``, whole."""
    scenario = make_scenario(data, seed, cap=None)
    *_, last = run_stream(replace(SYSTEMS[OURS], params=params).make(seed), scenario, POLICIES[policy])
    return {"novel": last.novel_acc, "original": last.original_acc}


def tune(
    datasets=("banking77", "clinc150"),
    policies=("oracle", "random10"),
    seeds=SEEDS,
    encoder=DEFAULT_ENCODER,
    jobs=1,
    cache=CACHE,
    progress=True,
):
    """Our system as it is set and with one setting changed at a time, on held-out classes of the training rows.

    Returns
    -------
    DataFrame
        One row per setting, dataset, policy and seed; ``parameter`` is empty for the system as it is set.
    """
    entry, found = SYSTEMS[OURS], settings()
    code = closure("ocrrlib.tuning", f"ocrrlib.systems.{entry.module}")
    data = {name: from_training_rows(load(name, encoder)) for name in datasets}
    fingerprints = {name: part.fingerprint for name, part in data.items()}
    plan = [
        ((name, value, not name, dataset, policy, seed), params)
        for dataset in datasets
        for policy in policies
        for seed in seeds
        for name, value, params in found
    ]
    keys = [digest([*one[3:], params, fingerprints[one[3]], *code]) for one, params in plan]
    tasks = [(data[one[3]], *one[4:], params) for one, params in plan]
    rows = each(accuracy, tasks, keys, jobs, cache, progress)
    return pd.DataFrame([dict(zip(SETTING, one)) | row for (one, _), row in zip(plan, rows)])
