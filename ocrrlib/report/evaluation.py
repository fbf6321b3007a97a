"""The figure of one evaluation or a few: curves with their spread, and where they are among all published systems."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from ocrrlib.errors import InputError
from paper import style
from paper.figures import mean_curve
from paper.fronts import edged, from_left, staircase, write_names
from ocrrlib.statistics.pareto import on_front
from ocrrlib.statistics.student import quantile

OWN = dict(facecolor="white", marker="o", s=60, linewidth=1.6, zorder=5)
LINES = {"novel": ("vermilion", "-"), "original": ("blue", "--")}
SEVERAL = ("black", "vermilion", "blue", "green", "pink", "sky")  # colours of evaluations; from then on, again
AXES = ("original", "novel")  # of the plane
OTHERS = ("cards of others", style.PALETTE["grey"], "v")


def draw(*evaluations):
    """The figure of an ``Evaluation``, or of several on the same streams; it belongs to no pyplot window.

    One has a colour for each axis, several have a colour each and dashes for original accuracy.

    Returns
    -------
    matplotlib Figure
    """
    with mpl.rc_context():
        style.apply()
        figure, (left, right) = plt.subplots(1, 2, figsize=(style.WIDTH, 3.6))
        plt.close(figure)
        _curves(left, evaluations)
        named = _plane(right, evaluations)
        first = evaluations[0].curve.iloc[0]
        names = ", ".join(one.name for one in evaluations) if len(evaluations) < 4 else f"{len(evaluations)} systems"
        figure.suptitle(f"{names} · {style.cell_title(first['dataset'], first['policy'])}", fontsize=9)
        handles = [one for axes in (left, right) for one in axes.get_legend_handles_labels()[0]]
        figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=6.5)
        figure.draw_without_rendering()  # while the look is set; names need to know where everything is
        if named is not None:
            write_names(*named)
    return figure


def over_steps(curve, axis):
    """Mean and 95 % t interval over seeds at common steps, as in ``mean_curve``: steps, mean, low, high."""
    steps, values = mean_curve(curve, f"{axis}_acc", along="step")
    mean, n = values.mean(axis=0), len(values)
    half = quantile(0.975, n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros_like(mean)
    return steps, mean, mean - half, mean + half


def _colours(evaluations):
    """Of each evaluation, its colour."""
    return [style.PALETTE[SEVERAL[place % len(SEVERAL)]] for place in range(len(evaluations))]


def _curves(axes, evaluations):
    for evaluation, own in zip(evaluations, _colours(evaluations)):
        for axis, (colour, dashes) in LINES.items():
            alone = len(evaluations) == 1
            look = dict(color=style.PALETTE[colour]) if alone else dict(color=own, linestyle=dashes)
            steps, mean, low, high = over_steps(evaluation.curve, axis)
            axes.plot(steps, mean, label=axis if alone else f"{evaluation.name}, {axis}", **look)
            axes.fill_between(steps, low, high, color=look["color"], alpha=0.2 if alone else 0.1, linewidth=0)
    axes.set(xlabel="stream items", ylabel="accuracy", ylim=(-0.02, 1.02), title=_seeds(len(evaluations[0].runs)))


def _seeds(n):
    return f"mean of {n} seeds, 95 % t interval" if n > 1 else "one seed"


def _compared(evaluation):
    try:
        return evaluation.compared()
    except InputError:  # nothing is published for this cell: it stands alone
        return None


def _plane(axes, evaluations):
    found = [_compared(one) for one in evaluations]
    rows = next((some for some in found if some is not None), None)  # all that are published are the same for each
    if rows is not None:
        others = [some[some["own"]] for some in found if some is not None and some is not rows]
        rows = pd.concat([rows, *others], ignore_index=True)
    for kind, cell in {} if rows is None else rows[~rows["own"]].groupby(rows["system"].map(_kind), sort=False):
        title, colour, marker = kind
        axes.scatter(cell["original"], cell["novel"], color=colour, marker=marker, s=24, label=title, zorder=3)
    for evaluation, some, colour in zip(evaluations, found, _colours(evaluations)):
        of_summary = evaluation.summary.set_index("metric")
        spreads = of_summary.loc[list(AXES)] if some is None else _spreads(some[some["own"]].iloc[0])
        (x, y), low, high = spreads["mean"], spreads["low"], spreads["high"]
        if low.notna().all():
            line = dict(color=colour, linewidth=1.0, zorder=4)
            axes.plot([low["original"], high["original"]], [y, y], **line)
            axes.plot([x, x], [low["novel"], high["novel"]], **line)
        axes.scatter(x, y, label=evaluation.name, edgecolor=colour, **OWN)
    title = "nothing published to compare with"
    if rows is not None:
        title = "among all published systems"
        shared, n = rows.loc[rows["own"], "seeds"].iloc[0], len(evaluations[0].runs)
        title += f" ({shared} of {n} seeds)" if shared < n else ""
    axes.set(xlabel="final original accuracy", ylabel="final novel accuracy", title=title)
    if rows is None:
        axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
        return None
    from_left(axes, rows[~rows["collapsed"] | rows["own"]], rows)
    return _front(axes, rows)


def _spreads(row):
    """Mean and interval on both axes of a row of ``compared``."""
    bounds = [[row[axis], row[f"{axis} low"], row[f"{axis} high"]] for axis in AXES]
    return pd.DataFrame(bounds, AXES, ["mean", "low", "high"], dtype=float)


def _front(axes, rows):
    """Draw the front of systems that have not collapsed; returns what ``write_names`` needs for those on it."""
    able = rows[~rows["collapsed"]]
    front = able[on_front(able["novel"].to_numpy(), able["original"].to_numpy())]
    lines = staircase(axes, front, label="front")
    published = front[~front["own"]].sort_values("novel", ascending=False)
    labels = [
        ((row["original"], row["novel"]), row["system"], dict(color=_kind(row["system"])[1]))
        for row in published.to_dict("records")
    ]
    return axes, edged(axes, rows), lines, labels


def _kind(system):
    try:
        return style.family_of(system)
    except InputError:
        return OTHERS
