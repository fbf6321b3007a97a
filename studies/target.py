"""Pareto fronts, non-inferiority, and the target for the proposed system against all that keep the original classes."""

import numpy as np
import pandas as pd
from scipy import stats

from ocrrlib.experiments import OURS
from ocrrlib.files import InputError, pick
from ocrrlib.metrics import final
from studies.statistics import AXES, CELL, LEVEL, REFERENCE, by_seed, differences

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
        means = {axis: table.mean() for axis, table in tables.items()}
        names = dict(zip(CELL, cell)) | {"system": means["novel"].index}
        table = pd.DataFrame(names | {axis: mean.to_numpy() for axis, mean in means.items()})
        table["front"] = on_front(table["novel"].to_numpy(), table["original"].to_numpy())
        found.append(table.assign(**{f"front_{what}": on_front(*both).mean(axis=0) for what, both in drawn.items()}))
    return pd.concat(found, ignore_index=True)


def collapsed(original, floor, drop=DROP):
    """Whether mean original accuracies (n,) are more than ``drop`` below the frozen head's; none where that is NaN."""
    return np.round(original - (floor - drop), 12) < 0  # a difference by rounding alone is none


def means(runs, drop=DROP):
    """Mean ``novel`` and ``original`` accuracy by dataset, policy and system, and whether it has ``collapsed``."""
    found = []
    for ((dataset, policy), novel), (_, original) in zip(*(by_seed(runs, axis) for axis in AXES)):
        own = pd.DataFrame({"novel": novel.mean(), "original": original.mean()})
        floor = pick(f"system in {dataset}, {policy}", FLOOR, own["original"].to_dict())
        own = own.assign(collapsed=collapsed(own["original"], floor, drop)).rename_axis("system").reset_index()
        found.append(pd.DataFrame({"dataset": dataset, "policy": policy} | dict(own)))
    return pd.concat(found, ignore_index=True)


def dominating(table):
    """Rows of ``means`` whose systems are at least as good as ``REFERENCE`` on both axes and better on one."""
    own = table[table["system"] == REFERENCE][[*CELL, *AXES]]
    both = table.merge(own, on=CELL, suffixes=("", "_reference"), validate="many_to_one")
    gaps = np.round(np.column_stack([both[axis] - both[f"{axis}_reference"] for axis in AXES]), 12)
    return table[((gaps >= 0).all(axis=1) & (gaps > 0).any(axis=1))].reset_index(drop=True)


def noninferiority(runs, candidate, margin=MARGIN):
    """A candidate against every other system of its cell, on the same seeds and both axes.

    ``difference`` is the candidate's mean minus the other's, ``low`` its one-sided 95 % bound (Student's t over pairs),
    ``at_least_equal`` whether that is above ``-margin``, ``plainly`` what the mean alone says. To say so of all others
    at once needs no correction for their number, since every single test must succeed (Berger 1982).
    """
    rows = []
    for metric in AXES:
        for (dataset, policy), table in by_seed(runs, metric):
            own, n = pick("system", candidate, dict(table.items())), len(table)
            if n < 2:
                raise InputError(f"{dataset}, {policy}: one seed bounds nothing: give at least two")
            for system, other in table.drop(columns=candidate).items():
                d = differences(own, other)
                low = d.mean() - stats.t.ppf(LEVEL, n - 1) * d.std(ddof=1) / np.sqrt(n)
                row = {"dataset": dataset, "policy": policy, "metric": metric, "system": system, "difference": d.mean()}
                plainly = ("behind", "level", "ahead")[int(np.sign(np.round(d.mean(), 12))) + 1]
                rows.append(row | {"low": low, "at_least_equal": bool(low > -margin), "plainly": plainly})
    return pd.DataFrame(rows)


def low_both(resampled, candidate):
    """The bound of ``noninferiority`` where test rows are drawn anew with the seeds: ``low_both``.

    The spread is that of the resamples, brought to the size of that over seeds (n - 1).
    """
    found = []
    for (dataset, policy), tables, drawn in resampled:
        for (metric, table), anew in zip(tables.items(), drawn["both"]):
            own, n = table.columns.get_loc(candidate), len(table)
            spread = (anew[:, [own]] - anew).std(axis=0) * np.sqrt(n / (n - 1))
            low = table[candidate].mean() - table.mean() - stats.t.ppf(LEVEL, n - 1) * spread
            names = {"dataset": dataset, "policy": policy, "metric": metric, "system": table.columns}
            found.append(pd.DataFrame(names | {"low_both": low.to_numpy()}).drop(index=own))
    return pd.concat(found, ignore_index=True)


def against_rivals(runs, resampled=None, drop=DROP):
    """``noninferiority`` of ours to every system that has not collapsed, with the means ``other`` and ``own``.

    With ``resampled``, as ``resampled_cells`` yields it of runs and rows, also ``low_both``.
    """
    table = means(runs, drop).melt([*CELL, "system", "collapsed"], var_name="metric", value_name="other")
    found = noninferiority(runs, OURS)
    if resampled is not None:
        found = found.merge(low_both(resampled, OURS), validate="one_to_one")
    own = table[table["system"] == OURS].rename(columns={"other": "own"}).drop(columns=["system", "collapsed"])
    found = found.merge(table, validate="one_to_one").merge(own, on=[*CELL, "metric"], validate="many_to_one")
    found = found[~found["collapsed"]].drop(columns="collapsed")
    cell = found.groupby(CELL, sort=False, observed=True).ngroup()
    return found.iloc[np.argsort(cell.to_numpy(), kind="stable")].reset_index(drop=True)


def best_rivals(compared):
    """The rival with the highest mean, for every cell and axis: rows of ``against_rivals``."""
    return compared.loc[compared.groupby([*CELL, "metric"], sort=False)["other"].idxmax()]


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
        row, short = dict(zip(CELL, cell)), own[~own["at_least_equal"]]
        row |= {f"{axis}_equal": not (short["metric"] == axis).any() for axis in AXES}
        row |= {f"{axis}_short": tuple(short.loc[short["metric"] == axis, "system"]) for axis in AXES}
        sooner = ours.loc[(*cell, "novel_over_steps")]
        row["anytime"] = bool(sooner["difference"] > 0 and sooner["p_holm"] < ALPHA)
        row["original_kept"] = bool(round(ours.loc[(*cell, "original"), "difference"], 12) >= 0)
        row |= {"memory": float(held[(*cell, OURS)] / held[(*cell, REFERENCE)]), "time": float(times[cell[0]])}
        row["affordable"] = all(row[name] <= limit for name, limit in LIMITS.items())
        met = ("novel_equal", "original_equal", "anytime", "original_kept", "affordable")
        row["all"] = all(row[name] for name in met)
        if "low_both" in own:
            row["rows_short"] = tuple(dict.fromkeys(own.loc[own["low_both"] <= -MARGIN, "system"]))
        rows.append(row)
    return pd.DataFrame(rows)
