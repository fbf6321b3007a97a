"""The wider comparison's tables: what every system comes to, the bar for ours, where spread comes from."""

import numpy as np
import pandas as pd

from ocrrlib.experiments import OURS
from ocrrlib.report.beyond.figures import MAIN
from paper.tables import Table, titles
from ocrrlib.statistics.bar import ALPHA, AXES, CELL, LIMITS, REFERENCE, best_rivals, means
from ocrrlib.statistics.collapse import DROP, FLOOR
from ocrrlib.statistics.noninferiority import MARGIN
from ocrrlib.statistics.variance import FACTORS, shares

POINTS = f"{100 * MARGIN:g} pp"
ANYTIME = "novel_over_steps"
OVER = f"Over steps, less {REFERENCE}'s (pp)"
AREA = "novel_over_corrections"
KEPT = ("mean", "t_low", "t_high", "difference", "difference_t_low", "difference_t_high", "p_holm", "improvement")


def joined(summary, runs):
    """Everything known of a system in a cell, in one row.

    Parameters
    ----------
    summary : Summary
        As ``statistics.summary`` returns it.
    runs : DataFrame
        As ``statistics.anytime.measure`` returns it, of the same sweep.

    Returns
    -------
    DataFrame
        dataset, policy, system, ``collapsed``, the front's columns, ``seeds``; for ``novel``, ``original`` and
        ``novel_over_steps`` the mean under its own name, and what ``statistics.summary.accuracies`` has with
        ``<metric>_`` before it (``low`` and ``high`` for the bounds of t-intervals).
    """
    table = means(runs)[[*CELL, "system", "collapsed"]]
    fronts = summary.fronts.drop(columns=list(AXES))
    table = table.merge(fronts, on=[*CELL, "system"], validate="one_to_one")
    for metric in (*AXES, ANYTIME):
        own = summary.accuracies[summary.accuracies["metric"] == metric].set_index([*CELL, "system"])
        if metric == AXES[0]:
            table = table.join(own["seeds"], on=[*CELL, "system"])
        own = own[list(KEPT)].rename(columns=_of(metric))
        table = table.join(own, on=[*CELL, "system"])
    return table


def _of(metric):
    """New names of what is kept of a metric."""
    return {name: metric if name == "mean" else f"{metric}_{name.replace('t_', '')}" for name in KEPT}


def _interval(rows, name, digits=3):
    return [f"{m:.{digits}f} [{a:.{digits}f}, {b:.{digits}f}]" for m, a, b in _triple(rows, name)]


def _triple(rows, name):
    return zip(rows[name], rows[f"{name}_low"], rows[f"{name}_high"])


def _points(values, digits=1):
    """Differences in percentage points, with their sign; no minus zero."""
    return ["–" if pd.isna(value) else f"{round(100 * value, digits) + 0.0:+.{digits}f}" for value in values]


def _p(values):
    return ["–" if pd.isna(p) else "< 0.0001" if p < 1e-4 else f"{p:.4f}" if p < 0.01 else f"{p:.2f}" for p in values]


def _percent(values):
    return ["–" if pd.isna(value) else f"{100 * value:.0f}" for value in values]


def comparison(table):
    """All systems in all cells, from the rows of ``joined``."""
    text = titles(table)
    for metric, title in zip((*AXES, ANYTIME), ("Novel", "Original", "Novel over steps")):
        text[title] = _interval(table, metric)
    text |= {
        OVER: _points(table[f"{ANYTIME}_difference"]),
        "p": _p(table[f"{ANYTIME}_p_holm"]),
        "Better (%)": _percent(table[f"{ANYTIME}_improvement"]),
        "Front by seeds (%)": _percent(table["front_seeds"]),
    }
    if "front_rows" in table:
        text["Front by rows (%)"] = _percent(table["front_rows"])
    text["Collapsed"] = np.where(table["collapsed"], "yes", "")
    caption = (
        "The wider comparison: final accuracies, means with 95 % t-intervals over seeds. Over steps: novel accuracy "
        f"averaged over the whole stream, less that of the {REFERENCE}, seed by seed, and p of flipped signs (Holm, "
        "over the systems of a cell and metric). t-intervals are not cut off at 0 and 1; bootstrap ones, in the CSV of "
        "table_statistics, stay inside. Front: share of resamples, of seeds or of test rows, in which no system is "
        "better on both final accuracies; a test row that several seeds have in common is drawn for all of them. "
        f"Collapsed: original accuracy more than {100 * DROP:g} pp below that of {FLOOR}, lost or never there."
    )
    return Table("table_beyond", caption, table, pd.DataFrame(text))


def statistics(accuracies):
    """Every mean of every system with its spread and intervals; to be read, those over corrections."""
    shown = accuracies[accuracies["metric"] == AREA]
    text = titles(shown)
    text["Mean ± SD"] = [f"{m:.3f} ± {s:.3f}" for m, s in zip(shown["mean"], shown["sd"])]
    for name, title in (("t", "95 %, t"), ("bca", "95 %, BCa")):
        text[title] = [f"[{a:.3f}, {b:.3f}]" for a, b in zip(shown[f"{name}_low"], shown[f"{name}_high"])]
    text["Difference (pp)"] = _points(shown["difference"])
    for name, title in (("t", "its 95 %, t"), ("bca", "its 95 %, BCa")):
        ends = (_points(shown[f"difference_{name}_{end}"]) for end in ("low", "high"))
        text[title] = ["–" if low == "–" else f"[{low}, {high}]" for low, high in zip(*ends)]
    text |= {"p": _p(shown["p"]), "p (Holm)": _p(shown["p_holm"]), "Better (%)": _percent(shown["improvement"])}
    caption = (
        "Novel accuracy averaged over the corrections that a policy allows: means over seeds with their SD, t- and "
        f"bootstrap intervals; the paired difference to the {REFERENCE} with the same; p of flipped signs, plain and "
        "after Holm's correction over the systems of a cell and metric; in how many seeds of a hundred a system is "
        "better. The CSV has all of this for final accuracies and for averages over steps and over corrections, on "
        "both axes."
    )
    return Table("table_statistics", caption, accuracies, pd.DataFrame(text))


def _said(rows):
    """Whether a candidate is at least equal, as readers know it."""
    return np.where(rows["at_least_equal"], "yes", "not shown")


def _against(rows):
    return {
        "Axis": rows["metric"].str.capitalize(),
        "Rival": rows["system"],
        "Rival's": [f"{value:.3f}" for value in rows["other"]],
        "Ours": [f"{value:.3f}" for value in rows["own"]],
        "Difference (pp)": _points(rows["difference"], digits=2),
        "At least (pp)": _points(rows["low"], digits=2),
        "Mean alone": rows["plainly"],
        f"Within {POINTS}": _said(rows),
    } | ({"Rows drawn, too (pp)": _points(rows["low_both"], digits=2)} if "low_both" in rows else {})


VERDICT = (
    f"Rivals are all systems that have not collapsed (original accuracy at most {100 * DROP:g} pp below that of "
    f"{FLOOR}). At least: one-sided 95 % bound of the paired difference (Student's t over seeds); within {POINTS}, "
    "a margin set beforehand, if it loses less than that. This bound takes the test rows as they are; the last column "
    "draws these anew, too."
)


def against_all(compared):
    """The candidate against every rival that counts, from the rows of ``bar``."""
    text = titles(compared[CELL]) | _against(compared)
    caption = f"{OURS} against each rival on both axes. {VERDICT}"
    return Table("table_bar", caption, compared, pd.DataFrame(text))


def against_best(compared):
    """The same, against the best rival of every cell and axis only."""
    rows = best_rivals(compared)
    text = titles(rows[CELL]) | _against(rows)
    caption = f"{OURS} against the best rival of each cell and axis, by mean accuracy. {VERDICT}"
    return Table("table_bar_best", caption, rows, pd.DataFrame(text))


def _first(names, n=3):
    """The first few rivals of which it is not shown."""
    more = f" and {len(names) - n} more" if len(names) > n else ""
    return f"not shown of {', '.join(names[:n])}{more}"


def target(reached):
    """Which of the target's conditions hold in which cell, from the rows of ``conditions``."""
    text = titles(reached)
    for axis in AXES:
        short = reached[f"{axis}_short"]
        text[f"{axis.capitalize()} within {POINTS} of all"] = ["yes" if not n else _first(n) for n in short]
    text["Novel over steps"] = np.where(reached["anytime"], "better", "not shown")
    text["Original kept"] = np.where(reached["original_kept"], "yes", "no")
    text |= {name.capitalize(): [f"{value:.2f} ×" for value in reached[name]] for name in LIMITS}
    text["All"] = np.where(reached["all"], "yes", "no")
    lists = [name for name in reached if name.endswith("_short")]
    if "rows_short" in lists:
        text["Rows drawn, too"] = ["yes" if not n else _first(n) for n in reached["rows_short"]]
    numbers = reached.assign(**{name: reached[name].map(" ".join) for name in lists})
    caption = (
        f"What was asked of {OURS}, cell by cell: on both axes at least equal, within {POINTS}, to every rival that "
        f"has not collapsed, or to which ones that is not shown; novel accuracy over stream steps above the "
        f"{REFERENCE}'s with p < {ALPHA:g} (Holm); mean original accuracy not below the {REFERENCE}'s; at most "
        f"{LIMITS['memory']:g} times its memory when the stream ends and {LIMITS['time']:g} times its time for a "
        "correction and the prediction after it (measured once on each dataset). Rows drawn, too: whether it would be "
        "at least equal to all rivals on both axes if the test rows, which all seeds share, were drawn anew with the "
        "seeds."
    )
    return Table("table_target", caption, numbers, pd.DataFrame(text))


def _median(row):
    """Kaplan and Meier's median with its interval, and how many got there if not all."""
    if pd.isna(row["median"]):
        middle = "not reached"
    else:
        low, high = ("?" if pd.isna(row[end]) else f"{row[end]:.0f}" for end in ("low", "high"))
        middle = f"{row['median']:.0f} [{low}, {high}]"
    return middle + ("" if row["reached"] == row["seeds"] else f" ({row['reached']}/{row['seeds']})")


def corrections(found, systems=MAIN, levels=(50, 90)):
    """Corrections until N % novel accuracy is first seen, from the rows of ``corrections_to_levels``."""
    numbers = found[found["system"].isin(systems) & found["to"].isin(levels)]
    wide = numbers.assign(said=[_median(row) for row in numbers.to_dict("records")])
    wide = wide.pivot(index=[*CELL, "system"], columns="to", values="said")
    rows = numbers[[*CELL, "system"]].drop_duplicates()
    order = rows["system"].map(list(systems).index) + len(systems) * rows.groupby(CELL, sort=False).ngroup()
    rows = rows.iloc[np.argsort(order.to_numpy())]
    text = titles(rows) | {f"→{level} %": wide.loc[pd.MultiIndex.from_frame(rows), level].to_list() for level in levels}
    caption = (
        "Corrections until N % novel accuracy is first seen at a checkpoint: Kaplan-Meier medians over seeds with 95 % "
        "intervals (? where open, or where too few runs are left to say); how many seeds got there, if not all. A seed "
        "that never gets there is censored at the corrections it made, which are the fewer the more it knows."
    )
    return Table("table_corrections", caption, numbers, pd.DataFrame(text))


def variance(study):
    """Where the spread over seeds comes from, from rows of ``studies.variance.cross``."""
    numbers, place = shares(study, AXES), ["dataset", "system", "metric"]
    wide = numbers.pivot_table(index=place, columns="source", values="share", sort=False, dropna=False)
    total = numbers.groupby(place, sort=False)["variance"].sum()
    rows = wide.reset_index()
    text = titles(rows) | {"Axis": rows["metric"].str.capitalize()}
    text["SD (pp)"] = [f"{100 * np.sqrt(value):.1f}" for value in total.loc[wide.index]]
    for source in dict.fromkeys(numbers["source"]):
        text[f"{source.capitalize()} (%)"] = ["–" if pd.isna(value) else f"{value:.0f}" for value in wide[source]]
    ends = numbers[numbers["source"] == "draw"][["low", "high"]].to_numpy()
    text["Draw, 95 %"] = ["–" if np.isnan(low) else f"[{low:.0f}, {high:.0f}]" for low, high in ends]
    counts = ", ".join(
        f"{study[factor].nunique()} {name}" for factor, name in zip(FACTORS, ("draws", "orders", "coins"))
    )
    caption = (
        "Shares of the variance of final accuracy that the draw of held-out classes makes up, the order of the stream "
        "within a draw, and the policy's coins within an order, where half of the mistakes are corrected, in a crossed "
        f"study ({counts}); estimates below zero count as zero. The interval of the draw's share is that of a one-way "
        "analysis, and rough."
    )
    return Table("table_variance", caption, numbers, pd.DataFrame(text))
