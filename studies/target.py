"""Pareto fronts, and the target for the proposed system."""

import numpy as np
import pandas as pd

from ocrrlib.experiments import OURS
from studies.statistics import BOTH_ACCURACIES, DATASET_POLICY, REFERENCE, by_seed

# What may be lost: to the best rival's area, and to the frozen head before the first correction.
MARGINS = {"area": 0.01, "start": 0.01}
LEAST_HOLDS = 0.99  # share of corrections that hold, at once and at the end
LIMITS = {"memory": 2.0, "time": 2.0}  # as many times the reference's at most
FROZEN_HEAD = "static_linear"  # the frozen head of the known classes
ALPHA = 0.01  # significance of a difference from the reference


def on_front(novel: np.ndarray, original: np.ndarray) -> np.ndarray:
    """Which systems no other dominates, (..., s) to bool.

    What differs in the twelfth decimal only is equal.
    """
    novel = np.round(novel, 12)
    original = np.round(original, 12)
    # (..., i, j): by how much i, which may dominate, is above j.
    novel_gap = novel[..., None] - novel[..., None, :]
    original_gap = original[..., None] - original[..., None, :]
    not_below = (novel_gap >= 0) & (original_gap >= 0)
    above = (novel_gap > 0) | (original_gap > 0)
    return ~(not_below & above).any(axis=-2)


def means(runs: pd.DataFrame, resamples: int = 2_000) -> pd.DataFrame:
    """Mean accuracies by cell and system, ``front`` and ``front_seeds``.

    ``front``: whether no other system of the cell dominates this one; ``front_seeds``: how often so
    among drawn seeds.
    """
    found = {}
    for cell, novel, original in by_seed(runs, *BOTH_ACCURACIES):
        own = pd.DataFrame({"novel": novel.mean(), "original": original.mean()})
        own["front"] = on_front(own["novel"].to_numpy(), own["original"].to_numpy())
        n = len(novel)
        weights = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), resamples) / n
        drawn = on_front(weights @ novel.to_numpy(), weights @ original.to_numpy())
        own["front_seeds"] = drawn.mean(axis=0)
        found[cell] = own
    return pd.concat(found, names=DATASET_POLICY).reset_index()


def target(runs: pd.DataFrame, times: dict[str, float]) -> pd.DataFrame:
    """Which parts of the target for the proposed system are met, one row per dataset and policy.

    Parameters
    ----------
    runs : DataFrame
        As ``statistics.measure`` returns them, of all systems that ran with one encoder.
    times : dict of str to float
        Of a correction and the prediction after it on each dataset, as many times ``REFERENCE``'s;
        NaN if not known.

    Returns
    -------
    DataFrame
        ``area``: its mean area less that of ``rival``, the other system whose mean is highest.
        ``start``: its original accuracy before the first correction less that of ``FROZEN_HEAD``.
        ``holds_at_once`` and ``holds``: shares of corrections. ``memory`` and ``time``, as many
        times ``REFERENCE``'s. What is met: ``near`` (area), ``keeps`` (start), ``held`` and
        ``affordable``; ``all`` of these.
    """
    columns = ["ausuc", "start", "holds_at_once", "holds", "storage_bytes"]
    rows = []
    for cell, own in runs.groupby(DATASET_POLICY, sort=False, observed=True):
        means = own.groupby("system", sort=False)[columns].mean()
        ours = means.loc[OURS]
        areas = means["ausuc"].drop(OURS)
        row = dict(zip(DATASET_POLICY, cell))
        row["rival"] = areas.idxmax()
        row["area"] = ours["ausuc"] - areas.max()
        row["start"] = ours["start"] - means.loc[FROZEN_HEAD, "start"]
        row["holds_at_once"] = ours["holds_at_once"]
        row["holds"] = ours["holds"]
        row["memory"] = ours["storage_bytes"] / means.loc[REFERENCE, "storage_bytes"]
        row["time"] = times[cell[0]]
        met = {
            "near": round(row["area"], 12) >= -MARGINS["area"],
            "keeps": round(row["start"], 12) >= -MARGINS["start"],
            "held": min(row["holds_at_once"], row["holds"]) >= LEAST_HOLDS,
            "affordable": all(row[name] <= limit for name, limit in LIMITS.items()),
        }
        rows.append(row | met | {"all": all(met.values())})
    return pd.DataFrame(rows)
