"""The wider comparison's numbers for the paper's prose, by cell and name."""

import math

from ocrrlib.errors import pick
from ocrrlib.experiments import OURS
from ocrrlib.report.beyond.tables import ANYTIME
from paper.style import cell_title
from paper.values import Value
from ocrrlib.statistics.anytime import measure
from ocrrlib.statistics.bar import ALPHA, AXES, CELL, REFERENCE, best_rivals, cells_within, dominating, means

# Systems that are quoted, and as what.
SHORT = {OURS: "ours", REFERENCE: REFERENCE, "er_ace_tuned": "er_ace_tuned", "knn_lm": "knn_lm"}


def _points(value):
    return Value(100 * value, digits=1, unit="pp")


def cells(table, compared, corrections):
    """Every number of every cell that the paper may quote.

    Parameters
    ----------
    table, compared, corrections : DataFrame
        As ``report.beyond.tables.joined``, ``bar.bar`` and ``corrections_to_levels`` return them.

    Returns
    -------
    dict
        ``["<dataset>.<policy>"][name]`` to ``Value`` or a count. What is not known, such as a median that is never
        reached, is left out.
    """
    better, best, found = dominating(table), best_rivals(compared), {}
    for key, own in table.groupby(CELL, sort=False):
        by_system, ahead = own.set_index("system"), _at(better, key)
        cell = {
            f"{short}_{axis}": Value(by_system.loc[name, axis])
            for name, short in SHORT.items()
            if name in by_system.index
            for axis in AXES
        }
        cell["over_substrate_novel"] = _points(by_system.loc[OURS, "novel_difference"])
        cell |= {"dominating": len(ahead), "dominating_kept": int((~ahead["collapsed"]).sum())}
        sure = (own[f"{ANYTIME}_difference"] > 0) & (own[f"{ANYTIME}_p_holm"] < ALPHA)
        cell |= {"sooner": int(sure.sum()), "sooner_kept": int((sure & ~own["collapsed"]).sum())}
        for row in _at(best, key).to_dict("records"):
            axis = row["metric"]
            cell[f"rival_{axis}"] = Value(row["other"])
            for name, of in ((f"over_rival_{axis}", "difference"), (f"over_rival_{axis}_low", "low")):
                cell[name] = Value(100 * row[of], digits=2, unit="pp")
        medians = _at(corrections, key).set_index(["system", "to"])["median"]
        cell |= {f"{SHORT[name]}_to_{to}": Value(median, 0) for (name, to), median in medians.items() if name in SHORT}
        found[".".join(key)] = {name: number for name, number in cell.items() if _known(number)}
    return found


def _at(frame, key):
    """A cell's rows."""
    return frame[(frame["dataset"] == key[0]) & (frame["policy"] == key[1])]


def _known(number):
    return math.isfinite(number.value if isinstance(number, Value) else number)


def overall(table, reached):
    """Counts over all cells: systems, seeds, cells, and in how many of these each condition holds."""
    counts = {"systems": table["system"].nunique(), "seeds": table["seeds"].min(), "cells": len(reached)}
    for name in ("novel_equal", "original_equal", "anytime", "original_kept", "affordable", "all"):
        counts[f"cells_{name}"] = reached[name].sum()
    if "rows_short" in reached:
        counts["cells_rows"] = (reached["rows_short"].map(len) == 0).sum()
    return {f"beyond.{name}": int(count) for name, count in counts.items()}


def worst(compared):
    """The least of the mean differences to any rival, on either axis of any cell, and of their bounds, in points."""
    least = compared[["difference", "low"]].min()
    bound = Value(100 * least["low"], digits=2, unit="pp")
    return {"beyond.worst": Value(100 * least["difference"], digits=2, unit="pp"), "beyond.worst_low": bound}


def ahead_at_a_price(table):
    """How far systems that have collapsed end above ours on new classes: in the most favourable cell, in points."""
    ours = table[table["system"] == OURS].set_index(CELL)["novel"]
    ahead = table[table["collapsed"]].set_index(CELL)["novel"] - ours
    return {"beyond.collapsed_ahead": _points(ahead.max())}


def of_collapse(results, drops=(0.1, 0.2)):
    """How many collapses there are over all cells, how many of them before the stream, and what the limit decides.

    Parameters
    ----------
    results : DataFrame
        One row per checkpoint.
    drops : sequence of float
        Other limits; ``beyond.cells_within_<points>`` are the cells in which ours is within the margin of all rivals.
    """
    runs = measure(results)
    before = results[results["step"] == 0].rename(columns={"novel_acc": "novel", "original_acc": "original"})
    after, early = means(runs)["collapsed"], means(before)["collapsed"]
    counts = {"beyond.collapses": int(after.sum()), "beyond.collapses_early": int((after & early).sum())}
    cell = before[before["policy"] == before["policy"].iloc[0]]  # before the stream no policy matters
    starts = cell.groupby(["dataset", "system"])["original"].mean()
    for (dataset, system), value in starts.items():
        if system in (OURS, REFERENCE):
            counts[f"beyond.start.{dataset}.{SHORT[system]}"] = Value(value)
    return counts | {f"beyond.cells_within_{100 * drop:.0f}": cells_within(runs, drop) for drop in drops}


def of_shares(numbers):
    """The draw's share of the variance of novel accuracy in %, by ``<dataset>.<system>``; ours and the reference's."""
    rows = numbers[(numbers["metric"] == "novel") & (numbers["source"] == "draw") & numbers["system"].isin(SHORT)]
    found = {}
    for row in rows.dropna(subset="share").to_dict("records"):
        share, low, high = (Value(row[name], digits=0, unit="%") for name in ("share", "low", "high"))
        found[f"{row['dataset']}.{SHORT[row['system']]}"] = dict(novel_draw=share, novel_low=low, novel_high=high)
    return found


def quoted(found, names, prefix="beyond"):
    """Those of ``cells`` or ``of_shares`` that the paper quotes.

    Parameters
    ----------
    found : dict
        As ``cells`` or ``of_shares`` returns it.
    names : dict from a key of ``found`` to names there, set apart by spaces.
    prefix : first part of every key.

    Returns
    -------
    dict from ``<prefix>.<key>.<name>`` to ``Value`` or count
    """
    return {
        f"{prefix}.{key}.{name}": pick(f"number of {key}", name, pick("cell", key, found))
        for key, listed in names.items()
        for name in listed.split()
    }


def lines(table, often=0.95):
    """What to choose, in sentences: what learns most and keeps most, and what is on the front nearly always."""
    shares = [name for name in ("front_seeds", "front_rows", "front_both") if name in table]
    table = table.assign(share=table[shares].min(axis=1))
    kept = table[~table["collapsed"]]
    for (dataset, policy), own in kept.groupby(CELL, sort=False):
        learns, keeps = (own.loc[own[axis].idxmax()] for axis in AXES)
        surely = ", ".join(own.loc[own["share"] >= often, "system"]) or "none"
        yield (
            f"{cell_title(dataset, policy)}: {learns['system']} learns most (novel {learns['novel']:.3f}, original "
            f"{learns['original']:.3f}), {keeps['system']} keeps most (novel {keeps['novel']:.3f}, original "
            f"{keeps['original']:.3f}); on the front in at least {100 * often:g} % of resamples, of any kind: {surely}"
        )
    cells = len(table[CELL].drop_duplicates())
    sure = kept[kept["share"] >= often].groupby("system", sort=False).size()
    yield "so in every cell: " + (", ".join(sure.index[sure == cells]) or "none")
    fallen = table.groupby("system", sort=False)["collapsed"].sum()
    yield "collapsed in some cell: " + (
        ", ".join(f"{n} ({k} of {cells})" for n, k in fallen[fallen > 0].items()) or "none"
    )
