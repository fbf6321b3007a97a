"""The wider comparison's numbers for the paper's prose, by cell and name."""

import math

from ocrrlib.bar import AXES, CELL, REFERENCE, best_rivals, dominating
from ocrrlib.errors import pick
from ocrrlib.experiments import OURS
from ocrrlib.report.beyond import place
from ocrrlib.report.beyond_tables import ANYTIME
from ocrrlib.report.values import Value

SYSTEMS = {"ours": OURS, REFERENCE: REFERENCE}
METRICS = {"novel": "novel", "original": "original", "anytime": ANYTIME}


def _points(value):
    return Value(100 * value, digits=1, unit="pp")


def _systems(own):
    """Means and intervals of ours and the reference, and the difference; ``own`` are a cell's rows by system."""
    found = {}
    for short, name in SYSTEMS.items():
        for title, metric in METRICS.items():
            found[f"{short}_{title}"] = Value(own[name][metric])
            found |= {f"{short}_{title}_{end}": Value(own[name][f"{metric}_{end}"]) for end in ("low", "high")}
        found[f"{short}_front"] = Value(100 * own[name]["front_seeds"], digits=0, unit="%")
    for title, metric in METRICS.items():
        over = f"over_{REFERENCE}_{title}"
        found[over] = _points(own[OURS][f"{metric}_difference"])
        found |= {f"{over}_{end}": _points(own[OURS][f"{metric}_difference_{end}"]) for end in ("low", "high")}
    return found


def cells(table, compared, reached, corrections):
    """Every number of every cell that can be quoted.

    Parameters
    ----------
    table, compared, reached, corrections : DataFrame
        As ``beyond_tables.joined``, ``bar.bar``, ``bar.conditions`` and ``corrections_to_levels`` return them.

    Returns
    -------
    dict
        ``["<dataset>.<policy>"][name]`` to ``Value`` or a count. What is not known, such as a median that is never
        reached, is left out.
    """
    better, best, found = dominating(table), best_rivals(compared), {}
    for key, own in table.groupby(CELL, sort=False):
        cell = _systems(own.set_index("system").to_dict("index"))
        for row in _at(best, key).to_dict("records"):
            axis = row["metric"]
            cell |= {f"rival_{axis}": Value(row["other"]), f"over_rival_{axis}": _points(row["difference"])}
            cell[f"over_rival_{axis}_low"] = _points(row["low"])
        cell["dominating"] = len(_at(better, key))
        cell["collapsed"] = int(own["collapsed"].sum())
        cell["rivals"] = _at(compared, key)["system"].nunique()
        (goal,) = _at(reached, key).to_dict("records")
        cell |= {f"{axis}_short": len(goal[f"{axis}_short"]) for axis in AXES}
        medians = _at(corrections, key).set_index(["system", "to"])["median"]
        for (system, level), median in medians.items():
            cell |= {f"{short}_to_{level}": Value(median, 0) for short, name in SYSTEMS.items() if name == system}
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
    for name in ("novel_equal", "original_equal", "anytime", "original_kept", "all"):
        counts[f"cells_{name}"] = reached[name].sum()
    return {f"beyond.{name}": int(count) for name, count in counts.items()}


def worst(compared):
    """The least of the mean differences to any rival, on either axis of any cell, and of their bounds, in points."""
    least = compared[["difference", "low"]].min()
    return {"beyond.worst": _points(least["difference"]), "beyond.worst_low": _points(least["low"])}


def of_shares(numbers, systems=(OURS, REFERENCE)):
    """Shares of variance in %, from the numbers of ``beyond_tables.variance``, by ``<dataset>.<system>``."""
    found = {}
    for row in numbers[numbers["system"].isin(systems)].to_dict("records"):
        short = {name: short for short, name in SYSTEMS.items()}.get(row["system"], row["system"])
        one = found.setdefault(f"{row['dataset']}.{short}", {})
        if math.isfinite(row["share"]):
            one[f"{row['metric']}_{row['source']}"] = Value(row["share"], digits=0, unit="%")
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
            f"{place(dataset, policy)}: {learns['system']} learns most (novel {learns['novel']:.3f}, original "
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
