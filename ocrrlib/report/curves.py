"""Curves over corrections, means over seeds, and what all panels of accuracies share."""

import numpy as np
from matplotlib.lines import Line2D

from ocrrlib.report.style import style_of
from ocrrlib.statistics.student import quantile

AXES = {"novel": "novel accuracy", "original": "original accuracy"}


def mean_curve(runs, axis, along="corrections"):
    """One system's runs as a curve: means over seeds at the same steps of the stream.

    A seed whose stream is over stays where it ended, so that the last point is the mean of where seeds end.

    Parameters
    ----------
    runs : DataFrame
        Checkpoints of one system in one cell: ``seed``, ``step``, and the columns ``axis`` and ``along``.

    Returns
    -------
    (n,) float64
        ``along``, in the mean over seeds.
    (seeds, n) float64
        ``axis`` of every seed.
    """
    runs = [run for _, run in runs.groupby("seed", sort=False)]
    steps = np.unique(np.concatenate([run["step"].to_numpy() for run in runs]))
    x, y = (np.array([np.interp(steps, run["step"], run[name]) for run in runs]) for name in (along, axis))
    return x.mean(axis=0), y


def over_steps(curve, axis):
    """Mean and 95 % t interval over seeds at common steps, as in ``mean_curve``: steps, mean, low, high."""
    steps, values = mean_curve(curve, f"{axis}_acc", along="step")
    mean, n = values.mean(axis=0), len(values)
    half = quantile(0.975, n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros_like(mean)
    return steps, mean, mean - half, mean + half


def mark_end(axes, x, y, colour, marker="o", size=36):
    """A mark where a curve ends, larger than those on its way."""
    size = {"*": 85, "P": 52, "X": 52}.get(marker, size)
    axes.scatter(x[-1], y[-1], s=size, color=colour, marker=marker, edgecolor="white", linewidth=0.6, zorder=4)


def legend(figure, systems, columns):
    """Colours and markers of systems, below a figure."""
    handles = [
        Line2D([], [], color=style_of(s)[0], marker=style_of(s)[1], markersize=6, linewidth=1.4, label=s)
        for s in systems
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=columns)


def unit(axes, *names):
    """Show all accuracies, from 0 to 1, on these axes."""
    for name in names:
        getattr(axes, f"set_{name}lim")(-0.04, 1.04)
