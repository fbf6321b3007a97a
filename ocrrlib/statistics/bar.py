"""The bar for a system: at least equal, within a margin, to all others that still know the original classes."""

import numpy as np
import pandas as pd

from ocrrlib.errors import pick
from ocrrlib.experiments import OURS
from ocrrlib.metrics import final
from ocrrlib.statistics.collapse import DROP, FLOOR, collapsed
from ocrrlib.statistics.noninferiority import MARGIN, low_both, noninferiority
from ocrrlib.statistics.pairs import by_seed
from ocrrlib.statistics.resampling import AXES
from ocrrlib.statistics.summary import REFERENCE

ALPHA = 0.01
LIMITS = {"memory": 2.0, "time": 5.0}  # as many times the reference's at most
CELL = ["dataset", "policy"]


def means(runs, drop=DROP):
    """Final accuracies of all systems, and which do not know the original classes any more.

    Parameters
    ----------
    runs : DataFrame
        One row per run: dataset, policy, seed, system, ``novel``, ``original``.
    drop : float
        Original accuracy that a system may be below ``FLOOR``.

    Returns
    -------
    DataFrame
        One row per dataset, policy, system: means ``novel`` and ``original``, ``collapsed``: whether the latter is more
        than ``drop`` below that of ``FLOOR``, a system of every cell.
    """
    found = []
    for ((dataset, policy), novel), (_, original) in zip(by_seed(runs, "novel"), by_seed(runs, "original")):
        own = pd.DataFrame({"novel": novel.mean(), "original": original.mean()})
        known = pick(f"system in {dataset}, {policy}", FLOOR, own["original"].to_dict())
        own["collapsed"] = collapsed(own["original"], known, drop)
        own = own.rename_axis("system").reset_index()
        found.append(pd.DataFrame({"dataset": dataset, "policy": policy} | dict(own)))
    return pd.concat(found, ignore_index=True)


def bar(runs, resampled=None):
    """Ours against every system of its cell that has not collapsed, on both axes.

    Returns
    -------
    DataFrame
        As ``noninferiority`` has it, and the mean accuracies ``own`` and ``other``; with ``resampled``, as
        ``resampling.resampled_cells`` yields it of runs and rows, also ``low_both``.

    Raises
    ------
    InputError
        As ``noninferiority`` does: for one seed only, or other seeds than the others'.
    """
    table = means(runs).melt([*CELL, "system", "collapsed"], var_name="metric", value_name="other")
    found = noninferiority(runs, OURS)
    if resampled is not None:
        found = found.merge(low_both(resampled, OURS), validate="one_to_one")
    own = table[table["system"] == OURS].rename(columns={"other": "own"}).drop(columns=["system", "collapsed"])
    found = found.merge(table, on=[*CELL, "metric", "system"], validate="one_to_one")
    found = found.merge(own, on=[*CELL, "metric"], validate="many_to_one")
    found = found[~found["collapsed"]].drop(columns="collapsed")
    cell = found.groupby(CELL, sort=False, observed=True).ngroup()
    return found.iloc[np.argsort(cell.to_numpy(), kind="stable")].reset_index(drop=True)


def cells_within(runs, drop):
    """In how many cells ours is at least equal to all others on both axes, where a rival may be ``drop`` below."""
    found = noninferiority(runs, OURS).merge(means(runs, drop)[[*CELL, "system", "collapsed"]], on=[*CELL, "system"])
    rivals = found[~found["collapsed"]]
    return int(rivals.groupby(CELL, sort=False)["at_least_equal"].all().sum())


def best_rivals(compared):
    """The rival with the highest mean, for every cell and axis: rows of ``bar``."""
    return compared.loc[compared.groupby([*CELL, "metric"], sort=False)["other"].idxmax()].reset_index(drop=True)


def dominating(table):
    """Systems whose means are at least as good as ``REFERENCE``'s on both axes and better on one: rows of ``means``."""
    own = table[table["system"] == REFERENCE][[*CELL, *AXES]]
    both = table.merge(own, on=CELL, suffixes=("", "_reference"), validate="many_to_one")
    gaps = np.round(np.column_stack([both[axis] - both[f"{axis}_reference"] for axis in AXES]), 12)
    return table[((gaps >= 0).all(axis=1) & (gaps > 0).any(axis=1))].reset_index(drop=True)


def costs(results, times):
    """What ours costs in every cell, as many times ``REFERENCE``'s.

    Parameters
    ----------
    results : DataFrame
        One row per checkpoint.
    times : dict of str to float
        Of a correction and the prediction after it on each dataset, as many times ``REFERENCE``'s in the same run.

    Returns
    -------
    DataFrame
        One row per dataset, policy: ``memory``, held when the stream ends, and ``time``.
    """
    held = final(results).groupby([*CELL, "system"], sort=False)["storage_bytes"].mean().unstack()
    found = pd.DataFrame({"memory": held[OURS] / held[REFERENCE]}).reset_index()
    return found.assign(time=[times[dataset] for dataset in found["dataset"]])


def conditions(compared, accuracies, costs):
    """Which parts of the target ours reaches in which cell.

    Parameters
    ----------
    compared : DataFrame
        As ``bar`` returns it.
    accuracies : DataFrame
        As ``statistics.summary.accuracies`` returns it.
    costs : DataFrame
        One row per dataset, policy: ``memory`` and ``time``, as many times ``REFERENCE``'s.

    Returns
    -------
    DataFrame
        One row per dataset, policy: ``novel_equal`` and ``original_equal`` (at least equal to all rivals within the
        margin), ``novel_short`` and ``original_short`` (rivals of which that cannot be said), ``anytime`` (mean novel
        accuracy over stream steps above ``REFERENCE``'s, ``p_holm`` < ``ALPHA``), ``original_kept`` (mean original
        accuracy not below ``REFERENCE``'s, without any margin), ``memory``, ``time`` and ``affordable`` (both within
        ``LIMITS``), ``all``; where ``compared`` has ``low_both``, ``rows_short``: rivals on either axis of which it
        cannot be said that ours is equal where test rows are drawn, too.
    """
    ours = accuracies[accuracies["system"] == OURS].set_index([*CELL, "metric"])
    costs, rows = costs.set_index(CELL), []
    for (dataset, policy), own in compared.groupby(CELL, sort=False, observed=True):
        row, short = {"dataset": dataset, "policy": policy}, own[~own["at_least_equal"]]
        row |= {f"{axis}_equal": not (short["metric"] == axis).any() for axis in AXES}
        row |= {f"{axis}_short": tuple(short.loc[short["metric"] == axis, "system"]) for axis in AXES}
        anytime = ours.loc[(dataset, policy, "novel_over_steps")]
        row["anytime"] = bool(anytime["difference"] > 0 and anytime["p_holm"] < ALPHA)
        row["original_kept"] = bool(round(ours.loc[(dataset, policy, "original"), "difference"], 12) >= 0)
        times = {name: float(costs.loc[(dataset, policy), name]) for name in LIMITS}
        row |= times | {"affordable": all(times[name] <= limit for name, limit in LIMITS.items())}
        reached = ("novel_equal", "original_equal", "anytime", "original_kept", "affordable")
        row["all"] = all(row[name] for name in reached)
        if "low_both" in own:
            row["rows_short"] = tuple(dict.fromkeys(own.loc[own["low_both"] <= -MARGIN, "system"]))
        rows.append(row)
    return pd.DataFrame(rows)
