"""The wider comparison's figures: every system of every cell, with honest spreads."""

from itertools import product

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ocrrlib.errors import InputError
from ocrrlib.experiments import OURS
from paper.figures import AXES, mark_end
from ocrrlib.report.evaluation import over_steps
from paper.fronts import DASHED, staircase, write_names
from paper.style import FAMILIES, PALETTE, WIDTH, cell_title, family_of, style_of
from ocrrlib.statistics.bar import ALPHA, REFERENCE
from ocrrlib.statistics.collapse import DROP, FLOOR

MAIN = (OURS, "substrate", "klda", "slda", "knn_lm", "online_linear_tuned")  # whose curves are drawn
WINDOW = 0.16  # original accuracy below the best's, down to which the front's panels reach
LEAST = -20  # points, down to which differences are shown
SIZES = {"*": 95, "D": 34, "s": 22, "P": 34, "<": 24, "v": 24}  # of marks, in points squared; others are 26


def _panels(table, height, xlabel, ylabel="", side="center", **shared):
    datasets, policies = table["dataset"].unique(), table["policy"].unique()
    size = (WIDTH, height * len(datasets))
    figure, panels = plt.subplots(len(datasets), len(policies), figsize=size, squeeze=False, **shared)
    found = []
    for axes, (dataset, policy) in zip(panels.flat, product(datasets, policies)):
        axes.set_title(cell_title(dataset, policy), loc=side, fontsize=9)
        cell = table[(table["dataset"] == dataset) & (table["policy"] == policy)]
        axes.set_visible(len(cell) > 0)
        found += [(axes, cell)] * (len(cell) > 0)
    for axes in panels[-1]:
        axes.set_xlabel(xlabel)
    for axes in panels[:, 0]:
        axes.set_ylabel(ylabel)
    return figure, found


def _reach(own):
    """Original accuracies that all panels of a dataset show: what is near the best, ours, and the reference."""
    best, lost = own["original"].max(), own.loc[own["system"] == FLOOR, "original"].min() - DROP
    near = own[(own["original"] >= best - WINDOW) | own["system"].isin((OURS, REFERENCE))]
    return max(min(lost, near["original"].min()), best - 2 * WINDOW) - 0.015, best + 0.015


def _better_half(cell):
    """Novel accuracies that a panel shows."""
    most = cell["novel"].max()
    return (0.5 * most - 0.02, min(most + 0.08, 1.04)) if most else (-0.02, 1.0)


def _mark(axes, row, x_lim, y_lim):
    """A system where it is, or as a triangle on the edge that it lies beyond, hollow if it has collapsed.

    Returns where it was drawn.
    """
    _, colour, marker = family_of(row["system"])
    x, y = np.clip(row["original"], *x_lim), np.clip(row["novel"], *y_lim)
    if (x, y) != (row["original"], row["novel"]):
        marker = "<" if x > row["original"] else "v"
    first = 6 if row["system"] in (OURS, REFERENCE) else 4 if row["front"] else 3
    face, edge, width = ("white", colour, 0.9) if row["collapsed"] else (colour, "white", 0.5)
    style = dict(facecolor=face, edgecolor=edge, linewidth=width, clip_on=False, zorder=first)
    axes.scatter(x, y, marker=marker, s=SIZES.get(marker, 26), **style)
    return x, y


def _front(axes, cell, x_lim):
    """One panel; returns its marks, its lines and the labels that are still to be placed."""
    lost = cell.loc[cell["system"] == FLOOR, "original"].item() - DROP
    y_lim = _better_half(cell)
    axes.set(xlim=x_lim, ylim=y_lim)
    axes.axvspan(x_lim[0] - 1, lost, color="#F0F0F0", linewidth=0, zorder=0)
    line, marks, labels = staircase(axes, cell[cell["front"]]), [], []
    shown = cell["front"].where(~cell["system"].isin((OURS, REFERENCE)), 2).astype(int)  # these come first
    for row in cell.assign(shown=shown).sort_values(["shown", "novel"], ascending=False).to_dict("records"):
        marks.append(_mark(axes, row, x_lim, y_lim))
        if row["shown"]:
            weight = "bold" if row["system"] == OURS else "normal"
            labels.append((marks[-1], row["system"], dict(color=family_of(row["system"])[1], fontweight=weight)))
    return axes, marks, line, labels


def front(table):
    """Final novel against final original accuracy, all systems of all cells.

    Parameters
    ----------
    table : DataFrame
        One row per dataset, policy, system, as ``report.beyond.tables.joined`` makes it.
    """
    figure, cells = _panels(table, 2.75, "final original accuracy", "final novel accuracy")
    reach = {dataset: _reach(own) for dataset, own in table.groupby("dataset")}
    drawn = [_front(axes, cell, reach[cell["dataset"].iloc[0]]) for axes, cell in cells]
    dot = dict(linestyle="none", markersize=5)
    looks = [kind for kind in FAMILIES if set(kind[-1]) & set(table["system"])]
    handles = [Line2D([], [], color=PALETTE[c], marker=m, label=title, **dot) for title, c, m, _ in looks]
    grey, hollow = dict(color="#606060", **dot), dict(markerfacecolor="white", markeredgewidth=0.9)
    handles.append(Line2D([], [], label="front", **DASHED))
    handles.append(Line2D([], [], marker="o", label="hollow: collapsed", **grey | hollow))
    handles.append(Patch(color="#F0F0F0", label=f"> {100 * DROP:g} pp below {FLOOR}"))
    handles.append(Line2D([], [], marker="<", label="further left", **grey))
    handles.append(Line2D([], [], marker="v", label="further down", **grey))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    figure.canvas.draw()  # labels need to know where everything is
    for one in drawn:
        write_names(*one)
    return figure


def anytime(accuracies, metric="novel_over_steps"):
    """How far every system is from the reference over the whole way, cell by cell.

    Parameters
    ----------
    accuracies : DataFrame
        As ``statistics.summary.accuracies`` returns it.
    """
    rows = accuracies[(accuracies["metric"] == metric) & accuracies["difference"].notna()]
    most = rows.groupby(["dataset", "policy"]).size().max()
    figure, cells = _panels(rows, 0.135 * most + 0.6, "difference (pp)", side="right", sharex=True)
    for axes, cell in cells:
        for at, row in enumerate(cell.sort_values("difference", ascending=False).to_dict("records")):
            colour, sure = family_of(row["system"])[1], row["p_holm"] < ALPHA
            span = [100 * row["difference_t_low"], 100 * row["difference_t_high"]]
            axes.plot(span, [at, at], color=colour, linewidth=1.1, zorder=2)
            face, shown = colour if sure else "white", max(100 * row["difference"], LEAST)
            marker = dict(marker="o" if shown == 100 * row["difference"] else "<", zorder=3)
            axes.scatter(shown, at, s=14, color=face, edgecolor=colour, linewidth=0.9, **marker)
        names = cell.sort_values("difference", ascending=False)["system"].tolist()
        axes.set_yticks(range(len(names)), names, fontsize=7)
        for label in axes.get_yticklabels():
            label.set_color(family_of(label.get_text())[1])
            label.set_fontweight("bold" if label.get_text() == OURS else "normal")
        axes.set_ylim(len(names) - 0.3, -0.7)
        axes.tick_params(axis="y", length=0, pad=3)
        axes.axvline(0, color=PALETTE["vermilion"], linewidth=0.9, zorder=1)
    low, high = 100 * rows["difference_t_low"].min(), 100 * rows["difference_t_high"].max()
    cells[0][0].set_xlim(max(low, LEAST) - 1.5, max(high, 0) + 1.5)  # all panels share it
    marks = dict(color="#404040", marker="o", linestyle="none", markersize=4)
    handles = [Line2D([], [], color=PALETTE["vermilion"], linewidth=0.9, label=f"the {REFERENCE}")]
    handles.append(Line2D([], [], label=f"p < {ALPHA:g} (Holm)", **marks))
    handles.append(Line2D([], [], label="not so sure", markerfacecolor="white", **marks))
    handles.append(Line2D([], [], label="further left", **marks | {"marker": "<"}))
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def recovery(results, systems=MAIN, policies=("oracle", "random10")):
    """Both accuracies while the stream goes by: means over seeds with 95 % t-intervals, their ends marked."""
    results = results[results["system"].isin(systems) & results["policy"].isin(policies)]
    if results.empty or results.groupby(["dataset", "policy", "system"])["seed"].nunique().min() < 2:
        raise InputError("bands need two seeds at least of every curve: give results of more seeds")
    cells = list(dict.fromkeys(zip(results["dataset"], results["policy"])))
    figure, panels = plt.subplots(2, len(cells), figsize=(WIDTH, 4.3), sharex="col", sharey="row", squeeze=False)
    for column, (dataset, policy) in enumerate(cells):
        cell = results[(results["dataset"] == dataset) & (results["policy"] == policy)]
        for axes, axis in zip(panels[:, column], AXES):
            for system in (name for name in systems if name in set(cell["system"])):
                steps, mean, low, high = over_steps(cell[cell["system"] == system], axis)
                colour, marker = style_of(system)
                axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
                axes.plot(steps, mean, color=colour, marker=marker, markersize=3.5, markevery=(0.1, 0.28))
                mark_end(axes, steps, mean, colour, marker)
        panels[0, column].set_title(cell_title(dataset, policy), fontsize="small")
    for axes, title in zip(panels[:, 0], AXES.values()):
        axes.set_ylabel(title)
    for axes in panels[1]:
        axes.set_xlabel("stream step")
    panels[0, 0].set_ylim(-0.03, 1.03)
    panels[1, 0].set_ylim(max(panels[1, 0].get_ylim()[0], -0.03), min(panels[1, 0].get_ylim()[1], 1.03))
    looks = {name: style_of(name) for name in systems if name in set(results["system"])}
    handles = [Line2D([], [], color=c, marker=m, markersize=5, label=name) for name, (c, m) in looks.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles) if len(handles) < 5 else 3)
    return figure
