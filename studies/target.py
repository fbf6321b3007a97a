"""Pareto fronts, systems that have collapsed, and the target for the proposed system."""

import numpy as np
import pandas as pd

from ocrrlib.experiments import BEFORE, OURS
from ocrrlib.metrics import original_at
from studies.statistics import AXES, CELL, LEVEL, REFERENCE, by_seed, differences, t_intervals

FLOOR, DROP = (
    "static_linear",
    0.05,
)  # collapsed: original accuracy more than DROP below that of the frozen head
MARGINS = {
    "area": 0.005,
    "curve": 0.01,
    "gap": 0.01,
}  # what may be lost: to a rival's area, point, own best point
ALPHA = 0.01  # significance of an area above the reference's
LIMITS = {"memory": 2.0, "time": 2.0}  # as many times the reference's at most


def on_front(novel, original):
    """Which systems no other dominates, (..., s) to bool; what differs in the twelfth decimal only is equal."""
    novel, original = np.round(novel, 12), np.round(original, 12)
    gaps = [
        axis[..., None] - axis[..., None, :] for axis in (novel, original)
    ]  # of the one that may dominate
    return ~((gaps[0] >= 0) & (gaps[1] >= 0) & ((gaps[0] > 0) | (gaps[1] > 0))).any(axis=-2)


def means(runs, resamples=2_000):
    """Mean accuracies by cell and system, ``collapsed``, ``front``, ``front_seeds``: its share among drawn seeds."""
    found = {}
    for cell, *tables in by_seed(runs, *AXES):
        found[cell] = own = pd.DataFrame({axis: table.mean() for axis, table in zip(AXES, tables)})
        limit = own["original"][FLOOR] - DROP
        own["collapsed"] = (own["original"] - limit).round(
            12
        ) < 0  # a difference by rounding alone is none
        n = len(tables[0])
        weights = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), resamples) / n
        own["front"] = on_front(*own[[*AXES]].to_numpy().T)
        own["front_seeds"] = on_front(*(weights @ table.to_numpy() for table in tables)).mean(
            axis=0
        )
    return pd.concat(found, names=CELL).reset_index()


def against(runs, rows):
    """The proposed system against every other one of its cell, seed by seed; a row each.

    ``runs`` are as of ``statistics.measure``, ``rows`` as of ``ocrrlib.runs.run_grid``. ``area`` is
    its mean area under the novel-original curve minus the other's, ``low`` the one-sided 95 % bound
    of that (Student's t over pairs). ``curve`` is original accuracy on its curve at the novel
    accuracy of the other's own point, minus that of this point, mean over seeds; where the curve
    ends before, its original accuracy is 0.
    """
    found, rows = {}, rows[rows["system"] == OURS].set_index([*CELL, "seed"]).sort_index()
    for cell, area, novel, original in by_seed(runs, "ausuc", *AXES):
        others, own = area.columns.drop(OURS), rows.loc[cell].loc[area.index]
        d = [differences(area[OURS], area[name]) for name in others]
        d = t_intervals(d, level=2 * LEVEL - 1).set_index(others)
        points = zip(novel[others].to_numpy(), own["heights"], own["n_original"])
        reached = [original_at(at, np.frombuffer(heights, "<i4"), n) for at, heights, n in points]
        curve = (np.nan_to_num(reached) - original[others]).mean()
        found[cell] = pd.DataFrame({"area": d["mean"], "low": d["low"], "curve": curve})
    return pd.concat(found, names=CELL).reset_index()


def target(compared, accuracies, runs, times):
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
    held = runs.groupby([*CELL, "system"], sort=False)["storage_bytes"].mean()
    ours = runs[runs["system"] == OURS].groupby(CELL, sort=False)[["best_hm", "hm"]].mean()
    areas, rows = accuracies[accuracies["metric"] == "ausuc"].set_index([*CELL, "system"]), []
    for cell, own in compared.groupby(CELL, sort=False, observed=True):
        row, met = dict(zip(CELL, cell)), {}
        for part, lost in {"area": own["low"], "curve": own["curve"]}.items():
            short = tuple(own.loc[lost.round(12) < -MARGINS[part], "system"])
            row |= {part: not short, f"{part}_short": short}
            met[f"{part}_rivals"] = set(short) <= {BEFORE}
        over, p = areas.loc[(*cell, OURS), ["difference", "p_holm"]]
        row |= {"over": over, "p": p, "gap": ours.loc[cell, "best_hm"] - ours.loc[cell, "hm"]}
        row |= {"memory": held[(*cell, OURS)] / held[(*cell, REFERENCE)], "time": times[cell[0]]}
        met |= {
            "above_substrate": bool(over > 0 and p < ALPHA),
            "near": bool(round(row["gap"], 12) <= MARGINS["gap"]),
        }
        met["affordable"] = all(row[name] <= limit for name, limit in LIMITS.items())
        rows.append(row | met | {"all": all(met.values())})
    return pd.DataFrame(rows)
