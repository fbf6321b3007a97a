"""Harder streams (notebooks 10 and 17): differences by name, and four kinds of figures."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ocrrlib.experiments import OURS
from paper.figures import mean_curve
from paper.style import PALETTE, WIDTH, Value, style_of
from studies.differences import compared, last

ALPHA = 0.05  # of Holm's correction over all differences of a study
NAMES = {"substrate": "substrate", "slda": "slda", "ours": OURS}
ALL = NAMES | {"reservoir": "bounded_reservoir_1000", "knn_lm": "knn_lm", "linear": "online_linear"}
# Factor, digits and unit by metric.
UNITS = dict.fromkeys(("novel_acc", "original_acc", "mean_novel", "fpr95"), (100, 1, "pp"))
UNITS |= {"corrections": (1, 0, ""), "auroc": (1, 3, "")}
# The setting of each study that its notebook tells of, and the usual one.
TOLD = {
    "wrong": ("40 % wrong, nearest", "0 % wrong, none"),
    "late": ("200 late", "0 late"),
    # The share was set before the runs at equal budgets.
    "asked": ("10 % asked, margin", "10 % asked, random"),
    "drift": ("gradual drift", "none drift"),
}


def difference(row: dict) -> Value:
    """A row of ``compared``, in the unit of its metric."""
    size, digits, unit = UNITS[row["metric"]]
    mean, low, high = (size * row[name] for name in ("difference", "low", "high"))
    return Value(mean, digits, unit, low, high, bool(row["p_holm"] < ALPHA))


class Studies:
    """The last checkpoint of each run, and paired differences, looked up by name."""

    def __init__(self, rows: pd.DataFrame):
        self.final = last(rows)
        self.table = compared(rows)
        names = ["study", "setting", "than", "system", "metric"]
        self._rows = self.table.set_index(names).sort_index()

    def added(self, study: str, system: str, metric: str = "novel_acc") -> Value:
        """The difference of a study's setting in ``TOLD`` to the usual one."""
        row = self._rows.loc[(study, *TOLD[study], system, metric)]
        return difference(row.to_dict() | {"metric": metric})


def _curve(cell, metric, x, ticks):
    """Places along ``x``, stream steps or evenly spaced ``ticks``; mean and SD over seeds there."""
    if ticks is None:
        steps, curves = mean_curve(cell, metric, along=x)
        return steps, curves.mean(axis=0), pd.DataFrame(curves).std().to_numpy()
    spread = cell.groupby(x)[metric].agg(["mean", "std"])
    return np.searchsorted(ticks, spread.index), *spread.to_numpy().T


def lines(rows: pd.DataFrame, x: str, label: str, panels: dict[str, tuple]) -> Figure:
    """A panel per metric: means over seeds against ``x`` ± one standard deviation, by system.

    ``panels``: title and limits by metric; limits are a pair, "near" (the range of the panel) or
    None (matplotlib's). The last panel names the lines at their ends. Along the stream steps, or at
    evenly spaced values of a setting.
    """
    ticks = None if x == "step" else sorted(rows[x].unique())
    figure, drawn = plt.subplots(1, len(panels), figsize=(WIDTH, 2.9))
    for axes, (metric, (title, limits)) in zip(drawn, panels.items()):
        if limits == "near":
            limits = _near(rows, x, metric)
        axes.set(xlabel=label, title=title, **({"ylim": limits} if limits else {}))
        ends = {}
        right = 0
        for system, cell in rows.groupby("system", sort=False):
            colour, marker = style_of(system)
            places, mean, std = _curve(cell, metric, x, ticks)
            axes.fill_between(places, mean - std, mean + std, color=colour, alpha=0.12, linewidth=0)
            axes.plot(places, mean, color=colour, marker=marker if ticks else None, markersize=5)
            ends[system] = mean[-1]
            right = max(right, places[-1])
        if ticks:
            axes.set_xticks(range(len(ticks)), [f"{value:g}" for value in ticks])
    _name_ends(drawn[-1], ends, right)
    return figure


def _near(rows, x, metric):
    """Limits from below all means less their standard deviations to 1."""
    spread = rows.groupby(["system", x])[metric].agg(["mean", "std"]).fillna(0)  # of one seed: 0
    low = max(0, np.floor(20 * (spread["mean"] - spread["std"]).min()) / 20)
    return low, 1 + 0.04 * (1 - low)


def _name_ends(axes, ends, right):
    """Write the names of lines beside their ends, by name, apart where they would overlap."""
    names = sorted(ends, key=ends.get)
    low, high = axes.get_ylim()
    gaps = (high - low) / 14 * np.arange(len(names))
    heights = np.maximum.accumulate(np.array([ends[name] for name in names]) - gaps) + gaps
    for name, y in zip(names, np.minimum(heights, high - gaps[::-1])):
        axes.annotate(
            name,
            (right, y),
            color=style_of(name)[0],
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
            annotation_clip=False,
        )


def dots(
    rows: pd.DataFrame,
    by: str,
    looks: dict[object, tuple[str, str]],
    panels: dict[str, str],
    titles: dict | tuple = (),
) -> Figure:
    """A panel per metric, a row per system, a mark per value of ``by``: means over seeds.

    ``looks``: colour and marker by value; ``panels``: title by metric; ``titles``: of values in the
    legend.
    """
    figure, drawn = plt.subplots(1, len(panels), figsize=(WIDTH, 2.6), sharey=True)
    systems = list(dict.fromkeys(rows["system"]))
    for axes, (metric, title) in zip(drawn, panels.items()):
        for place, system in enumerate(systems):
            means = rows[rows["system"] == system].groupby(by)[metric].mean()
            axes.plot(
                [means.min(), means.max()], [place, place], color="#C0C0C0", linewidth=2, zorder=1
            )
            for value, (colour, marker) in looks.items():
                label = dict(titles).get(value, value) if place == 0 else None
                axes.scatter(
                    means[value],
                    place,
                    color=PALETTE[colour],
                    marker=marker,
                    s=30,
                    zorder=2,
                    label=label,
                )
        axes.set_yticks(range(len(systems)), systems)
        axes.set(ylim=(len(systems) - 0.5, -0.5), title=title)
        axes.tick_params(axis="y", length=0)
    figure.legend(
        *drawn[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(looks)
    )
    return figure


def columns(
    rows: pd.DataFrame,
    x: str,
    label: str,
    by: str,
    looks: dict[object, dict],
    panels: dict[str, tuple],
    height: float,
    title: str | None = None,
) -> Figure:
    """A column per system, a row per metric, a line per value of ``by``: means over seeds.

    ``looks``: keywords of a line by value; ``panels``: label, limits and factor by metric. Along
    the stream steps, or at evenly spaced shares.
    """
    systems = list(dict.fromkeys(rows["system"]))
    ticks = None if x == "step" else sorted(rows[x].unique())
    shape = (len(panels), len(systems))
    shared = dict(sharex=True, sharey="row", squeeze=False)
    figure, drawn = plt.subplots(*shape, figsize=(WIDTH, height), **shared)
    for column, system in zip(drawn.T, systems):
        column[0].set_title(system, color=style_of(system)[0], fontsize=7)
        for axes, (metric, (_, _, factor)) in zip(column, panels.items()):
            own = rows[rows["system"] == system].dropna(subset=metric)
            for value, look in looks.items():
                cell = own[own[by] == value]
                if len(cell):
                    places, mean, _ = _curve(cell, metric, x, ticks)
                    axes.plot(places, factor * mean, **look)
            if own.empty:
                axes.text(
                    0.5,
                    0.5,
                    "stores\nno entries",
                    transform=axes.transAxes,
                    ha="center",
                    fontsize=7,
                )
            if ticks:
                axes.set_xticks(range(len(ticks)), [f"{100 * value:.0f}" for value in ticks])
    for axes, (name, limits, _) in zip(drawn[:, 0], panels.values()):
        axes.set(ylabel=name, **({"ylim": limits} if limits else {}))
    figure.supxlabel(label, fontsize=8)
    handles, names = drawn[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, names, loc="outside upper center", ncols=len(names), title=title, title_fontsize=7
    )
    return figure
