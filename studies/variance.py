"""Spread over seeds: every draw of held-out classes with every stream order and every seed of the policy's draws."""

from dataclasses import replace
from functools import lru_cache
from itertools import product

import numpy as np
import pandas as pd

from ocrrlib.embeddings import load
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import SYSTEMS
from ocrrlib.tasks import Task, run_tasks

POLICY = "random50"
dataset_of = lru_cache(maxsize=2)(load)


def compose(data, draw, order, coins):
    """A scenario over all test rows with seeds of its own for held-out classes, stream order and Bernoulli draws."""
    drawn = make_scenario(data, draw, cap=None)
    stream = np.flatnonzero(np.isin(data.y_train, drawn.held_out))  # in file order, whatever the draw's own shuffling
    stream = stream[np.random.default_rng([order, 2]).permutation(len(stream))]
    return replace(drawn, seed=coins, X_stream=data.X_train[stream], y_stream=data.y_train[stream])


def run_one(dataset, encoder, system, draw, order, coins):
    """Final accuracies and corrections of one stream; the system itself is made with the same seed throughout."""
    scenario = compose(dataset_of(dataset, encoder), draw, order, coins)
    *_, last = run_stream(SYSTEMS[system].make(0), scenario, POLICIES[POLICY], every=len(scenario.y_stream))
    return {"novel": last.novel_acc, "original": last.original_acc, "corrections": last.corrections}


def cross(systems, dataset, encoder=DEFAULT_ENCODER, draws=6, orders=4, coins=4, **how):
    """Every system over so many draws, orders and seeds of Bernoulli draws.

    ``how``: ``jobs``, ``cache``, ``progress`` and ``dask`` of ``run_tasks``.

    Returns
    -------
    DataFrame
        One row per stream: final ``novel`` and ``original`` accuracy, ``corrections``.
    """
    tasks, names, data = [], [], dataset_of(dataset, encoder).fingerprint
    for draw, order, coin, system in product(range(draws), range(orders), range(coins), systems):
        names.append({"dataset": dataset, "system": system, "draw": draw, "order": order, "coins": coin})
        key = names[-1] | {"policy": POLICY, "data": data, "made": [SYSTEMS[system].cls, SYSTEMS[system].params]}
        tasks.append(Task(key, (dataset, encoder, system, draw, order, coin)))
    return pd.DataFrame([name | row for name, row in zip(names, run_tasks(run_one, tasks, **how))])


def rerun(row):
    """Outcomes by column of a published row, a mapping by column, from its own settings."""
    return run_one(row["dataset"], DEFAULT_ENCODER, row["system"], row["draw"], row["order"], row["coins"])
