"""Settings of our own system that are searched: by name, drawn at random, and one step apart."""

from dataclasses import replace

import numpy as np

from ocrrlib.errors import pick
from ocrrlib.experiments import OURS
from ocrrlib.provenance import digest
from ocrrlib.systems import SYSTEMS

# What is searched, narrowed by first looks on these seeds; a dot leads into a setting that is a dict.
# Settings that take long to change come first: neighbours in this order share work.
SPACE = {
    "kernel.bandwidth": (0.6, 0.7, 0.85, 1.0),
    "kernel.shrinkage": (0.01, 0.02, 0.04),
    "kernel.prior_rows": (2.0, 2.5, 3.0),
    "model.shrinkage": (0.05, 0.1, 0.2),
    "model.floor": (0.1, 0.2, 0.4),
    "model.prior_rows": (30, 100, 300),
    "model.power": (0.5, 0.75, 1.0),
    "k": (20, 30, 45),
    "neighbour_temperature": (0.05, 0.06, 0.08),
    "neighbour_weight": (0.3, 0.35, 0.4),
    "kernel_weight": (0.35, 0.4, 0.45),
    "new_odds": (1.4, 1.5, 1.6, 1.75),
    "head_weight": (0.15, 0.2, 0.25),
    "model_temperature": (18.0, 25.0, 35.0),
    "kernel_temperature": (12.5, 18.0, 25.0),
}
# What the search before this one chose, at the edges of a smaller space.
BEFORE = {
    "kernel.bandwidth": 0.85,
    "kernel.shrinkage": 0.02,
    "kernel.prior_rows": 2.5,
    "model.shrinkage": 0.05,
    "model.floor": 0.2,
    "model.prior_rows": 100,
    "model.power": 0.75,
    "k": 30,
    "neighbour_temperature": 0.06,
    "neighbour_weight": 0.35,
    "kernel_weight": 0.4,
    "new_odds": 1.5,
    "head_weight": 0.2,
    "model_temperature": 25.0,
    "kernel_temperature": 18.0,
}


def value_of(params, name):
    """A setting by its name."""
    group, _, key = name.rpartition(".")
    return pick("setting", key, params[group] if group else params)


def with_value(params, name, value):
    """The same settings but for one."""
    group, _, key = name.rpartition(".")
    value_of(params, name)
    return params | {group: params[group] | {key: value}} if group else params | {key: value}


def drawn(n, seed=0):
    """``n`` different settings at random: dicts by the names in ``SPACE``."""
    rng, found = np.random.default_rng(seed), {}
    while len(found) < n:
        one = {name: values[int(rng.integers(len(values)))] for name, values in SPACE.items()}
        found.setdefault(digest(one), one)
    return list(found.values())


def one_step(setting):
    """All settings that differ from this one in one place."""
    return [setting | {name: value} for name, values in SPACE.items() for value in values if value != setting[name]]


def entry_of(setting):
    """Our system with a setting of ``drawn``."""
    params = SYSTEMS[OURS].params
    for name, value in setting.items():
        params = with_value(params, name, value)
    return replace(SYSTEMS[OURS], params=params)
