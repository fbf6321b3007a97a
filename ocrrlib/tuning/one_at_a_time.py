"""How much each setting of our own system matters, one changed at a time, and each of its four readers."""

from dataclasses import replace

import numpy as np
import pandas as pd

from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.experiments import OURS
from ocrrlib.systems import SYSTEMS
from ocrrlib.tuning.rated import CACHE, DATASETS, SEEDS, accuracies
from ocrrlib.tuning.space import SPACE, value_of, with_value

SETTING = ["parameter", "value", "chosen", "dataset", "policy", "seed"]


def left_out(params):
    """The same settings without one of the four readers, by what is missing; the others share its weight."""
    near, kernel = params["neighbour_weight"], params["kernel_weight"]
    return {
        "no PLDA": params | {"neighbour_weight": near / (near + kernel), "kernel_weight": kernel / (near + kernel)},
        "no kernel": params | {"neighbour_weight": near / (1 - kernel), "kernel_weight": 0.0},
        "no neighbours": params | {"neighbour_weight": 0.0, "kernel_weight": kernel / (1 - near)},
        "no head": params | {"head_weight": 0.0},
    }


def settings():
    """All settings that are compared: (what differs, its value, all of them); a reader left out has no value."""
    chosen = SYSTEMS[OURS].params
    found = [("", np.nan, chosen)]
    found += [(name, np.nan, params) for name, params in left_out(chosen).items()]
    for name, values in SPACE.items():
        other = [value for value in values if value != value_of(chosen, name)]
        found += [(name, float(value), with_value(chosen, name, value)) for value in other]
    return found


def tune(
    datasets=DATASETS,
    policies=("oracle", "random10"),
    seeds=SEEDS[:4],
    encoder=DEFAULT_ENCODER,
    jobs=1,
    cache=CACHE,
    progress=True,
    dask=None,
):
    """Our system as it is set and with one setting changed at a time, on held-out classes of the training rows.

    Returns
    -------
    DataFrame
        One row per setting, dataset, policy and seed; ``parameter`` is empty for the system as it is set.
    """
    plan = [
        ((name, value, not name, dataset, policy, seed), replace(SYSTEMS[OURS], params=params))
        for dataset in datasets
        for policy in policies
        for seed in seeds
        for name, value, params in settings()
    ]
    rows = accuracies([(entry, *one[3:]) for one, entry in plan], encoder, jobs, cache, progress, dask)
    return pd.DataFrame([dict(zip(SETTING, one)) | row for (one, _), row in zip(plan, rows)])
