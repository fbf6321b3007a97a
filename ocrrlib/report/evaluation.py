"""One evaluation's figure: its curve with its spread, and where it is among all published systems."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from ocrrlib.errors import InputError
from ocrrlib.report import style
from ocrrlib.report.fronts import edged, from_left, staircase, write_names
from ocrrlib.statistics.pareto import on_front
from ocrrlib.statistics.student import quantile

OWN = dict(facecolor="white", edgecolor="black", marker="o", s=60, linewidth=1.6, zorder=5)
LINES = {"novel": "vermilion", "original": "blue"}
AXES = ("original", "novel")  # of the plane
OTHERS = ("cards of others", style.PALETTE["grey"], "v")


def draw(evaluation):
    """The figure of an ``Evaluation``; it belongs to no pyplot window.

    Returns
    -------
    matplotlib Figure
    """
    with mpl.rc_context():
        style.apply()
        figure, (left, right) = plt.subplots(1, 2, figsize=(style.WIDTH, 3.6))
        plt.close(figure)
        _curve(left, evaluation)
        named = _plane(right, evaluation)
        first = evaluation.curve.iloc[0]
        figure.suptitle(f"{evaluation.name} · {style.cell_title(first['dataset'], first['policy'])}", fontsize=9)
        handles = [one for axes in (left, right) for one in axes.get_legend_handles_labels()[0]]
        figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=6.5)
        figure.draw_without_rendering()  # while the look is set; names need to know where everything is
        if named is not None:
            write_names(*named)
    return figure


def over_steps(curve, axis):
    """Mean and 95 % t interval over seeds at common steps: steps, mean, low, high.

    Streams may differ in length; a seed whose stream is over stays where it ended.
    """
    runs = [run for _, run in curve.groupby("seed", sort=False)]
    steps = np.unique(np.concatenate([run["step"].to_numpy() for run in runs]))
    values = np.array([np.interp(steps, run["step"], run[f"{axis}_acc"]) for run in runs])
    mean, n = values.mean(axis=0), len(runs)
    half = quantile(0.975, n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros_like(mean)
    return steps, mean, mean - half, mean + half


def _curve(axes, evaluation):
    for axis, colour in LINES.items():
        steps, mean, low, high = over_steps(evaluation.curve, axis)
        axes.plot(steps, mean, color=style.PALETTE[colour], label=axis)
        axes.fill_between(steps, low, high, color=style.PALETTE[colour], alpha=0.2, linewidth=0)
    axes.set(xlabel="stream items", ylabel="accuracy", ylim=(-0.02, 1.02), title=_seeds(len(evaluation.runs)))


def _seeds(n):
    return f"mean of {n} seeds, 95 % t interval" if n > 1 else "one seed"


def _plane(axes, evaluation):
    try:
        rows = evaluation.compared()
    except InputError:  # nothing is published for this cell: it stands alone
        rows = None
    for kind, cell in {} if rows is None else rows[~rows["own"]].groupby(rows["system"].map(_kind), sort=False):
        title, colour, marker = kind
        axes.scatter(cell["original"], cell["novel"], color=colour, marker=marker, s=24, label=title, zorder=3)
    spreads = evaluation.summary.set_index("metric").loc[list(AXES)] if rows is None else _own(rows)
    (x, y), low, high = spreads["mean"], spreads["low"], spreads["high"]
    if low.notna().all():
        black = dict(color="black", linewidth=1.0, zorder=4)
        axes.plot([low["original"], high["original"]], [y, y], **black)
        axes.plot([x, x], [low["novel"], high["novel"]], **black)
    axes.scatter(x, y, label=evaluation.name, **OWN)
    title = "nothing published to compare with"
    if rows is not None:
        shared = rows.loc[rows["own"], "seeds"].item()
        title = "among all published systems" + (
            f" ({shared} of {len(evaluation.runs)} seeds)" if shared < len(evaluation.runs) else ""
        )
    axes.set(xlabel="final original accuracy", ylabel="final novel accuracy", title=title)
    if rows is None:
        axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
        return None
    from_left(axes, rows[~rows["collapsed"] | rows["own"]], rows)
    return _front(axes, rows)


def _own(rows):
    """Mean and interval on both axes of the evaluation's row of ``compared``."""
    own = rows[rows["own"]].iloc[0]
    bounds = [[own[axis], own[f"{axis} low"], own[f"{axis} high"]] for axis in AXES]
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
