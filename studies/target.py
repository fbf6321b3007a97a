"""Pareto fronts, and the target for the proposed system."""

import numpy as np
import pandas as pd

from ocrrlib.experiments import BEFORE, OURS
from ocrrlib.metrics import original_at
from studies.statistics import (
    BOTH_ACCURACIES,
    DATASET_POLICY,
    LEVEL,
    REFERENCE,
    by_seed,
    differences,
    t_intervals,
)

# What may be lost: to a rival's area, to its point, to the system's own best point.
MARGINS = {"area": 0.005, "curve": 0.01, "gap": 0.01}
ALPHA = 0.01  # significance of an area above the reference's
LIMITS = {"memory": 2.0, "time": 2.0}  # as many times the reference's at most


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


def against(runs: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The proposed system against every other one of its cell, seed by seed; a row each.

    ``runs`` are as of ``statistics.measure``, ``rows`` as of ``ocrrlib.runs.run_grid``. ``area`` is
    its mean area under the novel-original curve minus the other's, ``low`` the one-sided 95 % bound
    of that (Student's t over pairs). ``curve`` is original accuracy on its curve at the novel
    accuracy of the other's own point, minus that of this point, mean over seeds; where the curve
    ends before, its original accuracy is 0.
    """
    found = {}
    ours = rows[rows["system"] == OURS].set_index([*DATASET_POLICY, "seed"]).sort_index()
    for cell, area, novel, original in by_seed(runs, "ausuc", *BOTH_ACCURACIES):
        others = area.columns.drop(OURS)
        gained = [differences(area[OURS], area[name]) for name in others]
        gained = t_intervals(gained, level=2 * LEVEL - 1).set_index(others)
        reached = []
        for seed, point in novel[others].iterrows():
            own = ours.loc[(*cell, seed)]
            heights = np.frombuffer(own["heights"], "<i4")
            reached.append(original_at(point.to_numpy(), heights, own["n_original"]))
        curve = (np.nan_to_num(reached) - original[others]).mean()
        found[cell] = pd.DataFrame({"area": gained["mean"], "low": gained["low"], "curve": curve})
    return pd.concat(found, names=DATASET_POLICY).reset_index()


def target(
    compared: pd.DataFrame, accuracies: pd.DataFrame, runs: pd.DataFrame, times: dict[str, float]
) -> pd.DataFrame:
    """Which parts of the target for the proposed system are met, one row per dataset and policy.

    Parameters
    ----------
    compared, accuracies, runs : DataFrame
        As ``against``, ``statistics.accuracies`` and ``statistics.measure`` return them.
    times : dict of str to float
        Of a correction and the prediction after it on each dataset, as many times ``REFERENCE``'s;
        NaN if not known.

    Returns
    -------
    DataFrame
        ``area``: not below any other system's by more than the margin, at the bound; ``curve``: nor
        below the point of any. ``<part>_short`` names those of which that is not so,
        ``<part>_rivals`` is whether they are none but the system that this one replaces. ``over``:
        area above ``REFERENCE``'s, with ``p`` (Holm) below ``ALPHA``: ``above_substrate``. ``gap``:
        best harmonic mean on its curve minus its point's, ``near`` if in the margin. ``memory`` and
        ``time``, as many times ``REFERENCE``'s; ``affordable``: both within ``LIMITS``. ``all``:
        all these, among rivals.
    """
    held = runs.groupby([*DATASET_POLICY, "system"], sort=False)["storage_bytes"].mean()
    ours = runs[runs["system"] == OURS].groupby(DATASET_POLICY, sort=False)
    ours = ours[["best_hm", "hm"]].mean()
    areas = accuracies[accuracies["metric"] == "ausuc"].set_index([*DATASET_POLICY, "system"])
    rows = []
    for cell, own in compared.groupby(DATASET_POLICY, sort=False, observed=True):
        row = dict(zip(DATASET_POLICY, cell))
        met = {}
        for part, lost in {"area": own["low"], "curve": own["curve"]}.items():
            short = tuple(own.loc[lost.round(12) < -MARGINS[part], "system"])
            row |= {part: not short, f"{part}_short": short}
            met[f"{part}_rivals"] = set(short) <= {BEFORE}
        over, p = areas.loc[(*cell, OURS), ["difference", "p_holm"]]
        row["over"] = over
        row["p"] = p
        row["gap"] = ours.loc[cell, "best_hm"] - ours.loc[cell, "hm"]
        row["memory"] = held[(*cell, OURS)] / held[(*cell, REFERENCE)]
        row["time"] = times[cell[0]]
        met["above_substrate"] = bool(over > 0 and p < ALPHA)
        met["near"] = bool(round(row["gap"], 12) <= MARGINS["gap"])
        met["affordable"] = all(row[name] <= limit for name, limit in LIMITS.items())
        rows.append(row | met | {"all": all(met.values())})
    return pd.DataFrame(rows)
