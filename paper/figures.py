"""Figures of the paper that take more than a notebook cell, and the parts that figures share."""

from collections.abc import Iterable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ocrrlib.metrics import final, summarise
from paper import claims
from paper.style import RELEASED, WIDTH, style_of, title_of

AXIS_TITLES = {"novel": "novel accuracy", "original": "original accuracy"}


def mean_curve(
    runs: pd.DataFrame, axis: str, along: str = "corrections"
) -> tuple[np.ndarray, np.ndarray]:
    """Mean of ``along`` over seeds (n,), and ``axis`` of every seed (seeds, n), at equal steps.

    ``runs`` are checkpoints of one system in one cell. A seed whose stream is over stays where it
    ended: the last point is the mean of the final values.
    """
    runs = [run for _, run in runs.groupby("seed", sort=False)]
    steps = np.unique(np.concatenate([run["step"].to_numpy() for run in runs]))
    x = np.array([np.interp(steps, run["step"], run[along]) for run in runs])
    y = np.array([np.interp(steps, run["step"], run[axis]) for run in runs])
    return x.mean(axis=0), y


def curve(
    axes: Axes,
    runs: pd.DataFrame,
    axis: str,
    colour: str,
    marker: str = "",
    band: float = 0.0,
    end: float = 36,
    **line,
) -> None:
    """Draw one system against corrections: the mean over seeds, its end marked.

    A band reaches from the lowest to the highest seed. ``axis`` is ``novel`` or ``original``,
    ``band`` the opacity of the band, ``end`` the size of the mark at the end, in points squared;
    ``line`` are further properties of the line.
    """
    x, y = mean_curve(runs, f"{axis}_acc")
    mean = y.mean(axis=0)
    if band:
        axes.fill_between(x, y.min(axis=0), y.max(axis=0), color=colour, alpha=band, linewidth=0)
    axes.plot(x, mean, color=colour, marker=marker, **line)
    look = dict(s={"*": 85, "P": 52, "X": 52}.get(marker, end), color=colour, marker=marker or "o")
    axes.scatter(x[-1], mean[-1], edgecolor="white", linewidth=0.6, zorder=4, **look)


def curves(axes: Axes, cell: pd.DataFrame, axis: str) -> None:
    """Draw every system of a cell; marks are shifted, so that none hides another."""
    for place, (system, runs) in enumerate(cell.groupby("system", sort=False)):
        marks = dict(markersize=4.5, markeredgewidth=0, markevery=(0.03 + 0.03 * place, 0.3))
        curve(axes, runs, axis, *style_of(system), band=0.15, **marks)


def unit(axes: Axes, *names: str) -> None:
    """Show the whole range of accuracies, 0 to 1, on the axes of these names."""
    for name in names:
        getattr(axes, f"set_{name}lim")(-0.04, 1.04)


def both_axes(height: float) -> tuple[Figure, dict[str, Axes]]:
    """Two empty panels of accuracy against corrections.

    The figure, and its axes by ``novel`` and ``original``.
    """
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, height), sharey=True)
    for axes, title in zip(panels, AXIS_TITLES.values()):
        axes.set(xlabel="corrections", title=title)
        unit(axes, "y")
    panels[0].set_ylabel("accuracy")
    return figure, dict(zip(AXIS_TITLES, panels))


def legend(
    figure: Figure, systems: Iterable[str], columns: int, size: float = 6, released: str = ""
) -> None:
    """Add colours and markers of systems below a figure, markers in points.

    ``released`` adds the mark of ``hollow``; it names the encoder of the released points.
    """
    looks = [dict(zip(("color", "marker"), style_of(name)), label=name) for name in systems]
    handles = [Line2D([], [], markersize=size, linewidth=1.4, **look) for look in looks]
    if released:
        look = dict(marker="o", markerfacecolor="none", color=RELEASED, linestyle="none")
        label = f"released ({released}, 3 seeds)"
        handles.append(Line2D([], [], markersize=4.5, label=label, **look))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns)


def released_points(systems: Iterable[str], *place: str) -> dict[str, dict]:
    """Numbers that the original's authors released, of those of the systems that they ran.

    ``place`` is where ``claims.yml`` has them, as ``full_sweep``, ``banking77``, ``oracle``.
    """
    facts, _ = claims.read()
    found = facts["released"]
    for name in place:
        found = found[name]
    return {system: found[system] for system in systems if system in found}


def hollow(axes: Axes, x: float, y: float, system: str) -> None:
    """Draw a released point: small, hollow, in one colour, with the marker of its system."""
    _, marker = style_of(system)
    look = dict(facecolor="none", edgecolor=RELEASED, linewidth=1)
    axes.scatter(x, y, marker=marker, s=45 if marker == "*" else 20, zorder=5, **look)


def dots(axes: Axes, cell: pd.DataFrame, colours: dict[str, str]) -> None:
    """Draw final accuracies, a line per system: means, and small marks for seeds.

    Novel accuracies are filled, original ones hollow. ``colours`` maps systems, from top to bottom,
    to their colours.
    """
    summary = summarise(cell).set_index("system")
    last = final(cell)
    for place, (system, colour) in enumerate(colours.items()):
        seeds = last[last["system"] == system]
        row = summary.loc[system]
        axes.plot(
            [row["novel"], row["original"]],
            [place, place],
            color=colour,
            alpha=0.3,
            linewidth=1.5,
            zorder=1,
        )
        for below, axis, fill in ((0.29, "novel", colour), (0.43, "original", "white")):
            axes.errorbar(
                row[axis],
                place,
                xerr=row[f"{axis}_std"],
                color=colour,
                elinewidth=1,
                capsize=2,
                zorder=2,
            )
            axes.scatter(
                row[axis], place, s=26, facecolor=fill, edgecolor=colour, linewidth=1.1, zorder=3
            )
            small = dict(s=7, facecolor=fill, edgecolor=colour, linewidth=0.6)
            axes.scatter(seeds[f"{axis}_acc"], [place + below] * len(seeds), **small)
    axes.set_yticks(range(len(colours)), list(colours))
    axes.set_ylim(len(colours) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def dots_legend(figure: Figure) -> None:
    """Add the legend of ``dots`` below a figure."""
    sizes = {
        "mean": dict(markersize=5, markeredgewidth=1.1),
        "seeds": dict(markersize=2.6, markeredgewidth=0.6),
    }
    marks = dict(linestyle="none", marker="o", markeredgecolor="#404040")
    handles = [
        Line2D([], [], markerfacecolor=fill, label=f"{axis}, {what}", **marks, **size)
        for what, size in sizes.items()
        for axis, fill in (("novel", "#404040"), ("original", "white"))
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)


def _point(axes, x, y, system, x_std=None, y_std=None):
    """A mean with one standard deviation either way."""
    colour, marker = style_of(system)
    axes.errorbar(
        x,
        y,
        xerr=x_std,
        yerr=y_std,
        color=colour,
        elinewidth=1,
        capsize=2,
        linestyle="none",
        zorder=3,
    )
    size = 90 if marker == "*" else 40
    axes.scatter(
        x, y, marker=marker, s=size, color=colour, edgecolor="white", linewidth=0.6, zorder=4
    )


def novel_against_original(results: pd.DataFrame, dataset: str, policy: str = "oracle") -> Figure:
    """Figures 4 and 5: one dataset, whole and enlarged.

    Large marks are means ± SD, small dots are seeds, hollow marks the released means.
    """
    cell = results[(results["dataset"] == dataset) & (results["policy"] == policy)]
    summary = summarise(cell)
    last = final(cell)
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 3.7))
    for axes in panels:
        for row in summary.to_dict("records"):
            seeds = last[last["system"] == row["system"]]
            colour, _ = style_of(row["system"])
            axes.scatter(
                seeds["original_acc"],
                seeds["novel_acc"],
                s=8,
                color=colour,
                alpha=0.5,
                linewidth=0,
                zorder=2,
            )
            _point(
                axes,
                row["original"],
                row["novel"],
                row["system"],
                row["original_std"],
                row["novel_std"],
            )
        unit(axes, "x", "y")
    released = released_points(summary["system"], "full_sweep", dataset, policy)
    for axes in panels:
        for system, point in released.items():
            hollow(axes, point["original"], point["novel"], system)
    kept = [*last["original_acc"], *(point["original"] for point in released.values())]
    kept = [accuracy for accuracy in kept if accuracy > 0.2]
    panels[1].set_xlim(min(kept) - 0.02, max(kept) + 0.02)
    panels[0].set(
        xlabel="final original accuracy", ylabel="final novel accuracy", title=title_of(dataset)
    )
    panels[1].set(
        xlabel="final original accuracy", title="enlarged: systems that keep the original"
    )
    legend(figure, cell["system"].unique(), 5, released="bge-large")
    return figure


def storage_pareto(results: pd.DataFrame) -> Figure:
    """Figure 1: final accuracies against what is stored, all bounded variants, two panels.

    The release counts entries, not bytes: its hollow marks stand at our megabytes.
    """
    summary = summarise(results)
    released = released_points(summary["system"], "storage_pareto")
    last = final(results)
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 3.7), sharey=True)
    for axes, (axis, title) in zip(panels, AXIS_TITLES.items()):
        for family in ("bounded_reservoir", "bounded_fifo"):
            line = summary[summary["system"].str.startswith(family)]
            colour, _ = style_of(family)
            axes.plot(line["storage_bytes"] / 1e6, line[axis], color=colour, linewidth=1, zorder=2)
            below = axis == "novel" and family == "bounded_reservoir"  # where the line leaves room
            place = dict(xytext=(7, -9) if below else (-5, 6), ha="left" if below else "right")
            for row in line.to_dict("records"):
                budget = row["system"].rsplit("_", 1)[1]
                point = (row["storage_bytes"] / 1e6, row[axis])
                axes.annotate(
                    budget, point, textcoords="offset points", fontsize=7, color=colour, **place
                )
        for row in summary.to_dict("records"):
            seeds = last[last["system"] == row["system"]]
            colour, _ = style_of(row["system"])
            axes.scatter(
                seeds["storage_bytes"] / 1e6,
                seeds[f"{axis}_acc"],
                s=7,
                color=colour,
                alpha=0.5,
                linewidth=0,
            )
            _point(
                axes, row["storage_bytes"] / 1e6, row[axis], row["system"], y_std=row[f"{axis}_std"]
            )
            if row["system"] in released:
                point = released[row["system"]]
                hollow(axes, row["storage_bytes"] / 1e6, point[axis], row["system"])
        axes.set(xscale="log", xlabel="stored at the end (MB)", title=title, xlim=(0.06, 25))
        axes.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
        unit(axes, "y")
    panels[0].set_ylabel("final accuracy")
    legend(
        figure,
        [
            "substrate",
            "bounded_reservoir",
            "bounded_fifo",
            "online_linear",
            "a_gem",
            "river_logreg",
        ],
        4,
        released="bge-large",
    )
    return figure
