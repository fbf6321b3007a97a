"""Pareto fronts, non-inferiority, and the target for the proposed system against all that keep the original classes."""

import numpy as np
import pandas as pd
from scipy import stats

from ocrrlib.experiments import OURS
from ocrrlib.files import pick
from ocrrlib.metrics import final
from studies.statistics import AXES, CELL, LEVEL, REFERENCE, by_seed, differences, t_intervals

FLOOR, DROP = "static_linear", 0.05  # collapsed: original accuracy more than DROP below that of the frozen head
MARGIN = 0.01  # what "at least equal" may lose: one percentage point
ALPHA = 0.01  # significance of a better accuracy over the stream
LIMITS = {"memory": 2.0, "time": 5.0}  # as many times the reference's at most


def on_front(novel, original):
    """Which systems no other dominates, (..., s) to bool; what differs in the twelfth decimal only is equal."""
    novel, original = np.round(novel, 12), np.round(original, 12)
    gaps = [axis[..., None] - axis[..., None, :] for axis in (novel, original)]  # of the one that may dominate
    return ~((gaps[0] >= 0) & (gaps[1] >= 0) & ((gaps[0] > 0) | (gaps[1] > 0))).any(axis=-2)


def front_frequency(resampled):
    """Mean accuracies by cell and system, ``front``, and ``front_<drawn>``: the share of ``resampled`` on the front."""
    found = []
    for cell, tables, drawn in resampled:
        means = pd.DataFrame({axis: table.mean() for axis, table in tables.items()}).rename_axis("system").reset_index()
        fronts = {f"front_{what}": on_front(*both).mean(axis=0) for what, both in drawn.items()}
        fronts = {"front": on_front(*means[[*AXES]].to_numpy().T)} | fronts
        found.append(pd.DataFrame(dict(zip(CELL, cell)) | dict(means) | fronts))
    return pd.concat(found, ignore_index=True)


def means(runs, drop=DROP):
    """Mean ``novel`` and ``original`` accuracy by dataset, policy and system, and whether it has ``collapsed``."""
    found = []
    for cell, *tables in by_seed(runs, *AXES):
        own = pd.DataFrame({axis: table.mean() for axis, table in zip(AXES, tables)}).rename_axis("system")
        floor = pick(f"system in {', '.join(cell)}", FLOOR, own["original"].to_dict())
        own["collapsed"] = (own["original"] - (floor - drop)).round(12) < 0  # a difference by rounding alone is none
        found.append(pd.DataFrame(dict(zip(CELL, cell)) | dict(own.reset_index())))
    return pd.concat(found, ignore_index=True)


def noninferiority(runs, candidate, margin=MARGIN):
    """A candidate against every other system of its cell, on the same seeds and both axes.

    ``difference`` is the candidate's mean minus the other's, ``low`` its one-sided 95 % bound (Student's t over pairs),
    ``at_least_equal`` whether that is above ``-margin``, ``plainly`` what the mean alone says. To say so of all others
    at once needs no correction for their number, since every single test must succeed (Berger 1982).
    """
    found = []
    for cell, *tables in by_seed(runs, *AXES):
        for metric, table in zip(AXES, tables):
            others = table.drop(columns=candidate)
            pairs = [differences(table[candidate], other) for _, other in others.items()]
            d = t_intervals(pairs, level=2 * LEVEL - 1)
            names = dict(zip(CELL, cell)) | {"metric": metric, "system": others.columns}
            found.append(pd.DataFrame(names | {"difference": d["mean"], "low": d["low"]}))
    found = pd.concat(found, ignore_index=True)
    plainly = np.sign(found["difference"].round(12)).map({-1: "behind", 0: "level", 1: "ahead"})
    return found.assign(at_least_equal=found["low"] > -margin, plainly=plainly)


def low_both(resampled, candidate):
    """The bound of ``noninferiority`` where test rows are resampled with the seeds: ``low_both``.

    The spread is that of the resamples, brought to the size of that over seeds (n - 1).
    """
    found = []
    for cell, tables, drawn in resampled:
        for (metric, table), anew in zip(tables.items(), drawn["both"]):
            own, n = table.columns.get_loc(candidate), len(table)
            spread = (anew[:, [own]] - anew).std(axis=0) * np.sqrt(n / (n - 1))
            low = table[candidate].mean() - table.mean() - stats.t.ppf(LEVEL, n - 1) * spread
            names = dict(zip(CELL, cell)) | {"metric": metric, "system": table.columns}
            found.append(pd.DataFrame(names | {"low_both": low.to_numpy()}).drop(index=own))
    return pd.concat(found, ignore_index=True)


def against_rivals(runs, resampled=None, drop=DROP):
    """``noninferiority`` of ours to every system that has not collapsed, with the means ``other`` and ``own``.

    With ``resampled``, as ``resampled_cells`` yields it of runs and rows, also ``low_both``.
    """
    found, table = noninferiority(runs, OURS), means(runs, drop)
    if resampled is not None:
        found = found.merge(low_both(resampled, OURS), validate="one_to_one")
    rivals = table[~table["collapsed"]].melt([*CELL, "system"], AXES, "metric", "other")
    ours = table[table["system"] == OURS].melt(CELL, AXES, "metric", "own")
    return found.merge(rivals, validate="one_to_one").merge(ours, validate="many_to_one")


def target(compared, accuracies, results, times):
    """Which parts of the target for ours are met, one row per dataset and policy.

    Parameters
    ----------
    compared, accuracies, results : DataFrame
        As ``against_rivals`` and ``accuracies`` return them; one row per checkpoint.
    times : dict of str to float
        Of a correction and the prediction after it on each dataset, as many times ``REFERENCE``'s.

    Returns
    -------
    DataFrame
        ``<axis>_equal``: at least equal to all rivals within the margin; ``<axis>_short``: rivals of which that is not
        shown; ``anytime``: novel accuracy over steps above ``REFERENCE``'s, ``p_holm`` < ``ALPHA``; ``original_kept``:
        mean original accuracy not below it; ``memory`` and ``time``, as many times its; ``affordable``: both within
        ``LIMITS``; ``all``; where ``compared`` has ``low_both``, ``rows_short``: as ``short``, with test rows drawn.
    """
    ours = accuracies[accuracies["system"] == OURS].set_index([*CELL, "metric"])
    held, rows = final(results).groupby([*CELL, "system"], sort=False)["storage_bytes"].mean(), []
    for cell, own in compared.groupby(CELL, sort=False, observed=True):
        short = own[~own["at_least_equal"]]
        short = {axis: tuple(short.loc[short["metric"] == axis, "system"]) for axis in AXES}
        met = {f"{axis}_equal": not names for axis, names in short.items()}
        row = dict(zip(CELL, cell)) | met | {f"{axis}_short": names for axis, names in short.items()}
        sooner = ours.loc[(*cell, "novel_over_steps")]
        met["anytime"] = bool(sooner["difference"] > 0 and sooner["p_holm"] < ALPHA)
        met["original_kept"] = bool(round(ours.loc[(*cell, "original"), "difference"], 12) >= 0)
        row |= met | {"memory": float(held[(*cell, OURS)] / held[(*cell, REFERENCE)]), "time": float(times[cell[0]])}
        met["affordable"] = all(row[name] <= limit for name, limit in LIMITS.items())
        row |= {"affordable": met["affordable"], "all": all(met.values())}
        if "low_both" in own:
            row["rows_short"] = tuple(dict.fromkeys(own.loc[own["low_both"] <= -MARGIN, "system"]))
        rows.append(row)
    return pd.DataFrame(rows)
