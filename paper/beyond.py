"""The wider comparison (notebook 09): all that is known of a system in a cell, numbers as text, and three figures."""

from itertools import product
from operator import itemgetter

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ocrrlib.experiments import OURS
from paper.figures import AXES as TITLES
from paper.figures import legend, mark_end, mean_curve
from paper.style import FAMILIES, PALETTE, WIDTH, cell_title, family_of, style_of
from studies.statistics import AXES, CELL, REFERENCE, t_intervals
from studies.target import ALPHA, DROP, FLOOR, means

MAIN = (OURS, "substrate", "klda", "slda", "knn_lm", "online_linear_tuned")  # whose curves are drawn
ANYTIME = "novel_over_steps"
WINDOW = 0.16  # original accuracy below the best's, down to which the front's panels reach
LEAST = -20  # points, down to which differences are shown
SIZES = {"*": 95, "D": 34, "s": 22, "P": 34, "<": 24, "v": 24}  # of marks, in points squared; others are 26
DASHED = dict(color="#404040", linewidth=0.9, linestyle=(0, (4, 2)))
# Where a name may stand, in points from its mark, best first.
SPOTS = [(r * dx, r * dy) for r in (6, 11, 17, 24, 32) for dx, dy in product((-1, 1, 0), (0.45, -0.45, 1, -1, 0))]


def joined(runs, accuracies, fronts):
    """One row per dataset, policy and system: ``collapsed``, its place on the ``fronts``, ``seeds``, and accuracies.

    For ``novel``, ``original`` and ``novel_over_steps`` the mean under its own name, and with ``<metric>_`` before them
    ``low`` and ``high`` of t-intervals, and the difference to ``REFERENCE`` as ``statistics.accuracies`` has it.
    """
    index = [*CELL, "system"]
    kept = ["mean", "t_low", "t_high", "difference", "difference_t_low", "difference_t_high", "p_holm", "improvement"]
    table = means(runs)[[*index, "collapsed"]].merge(fronts.drop(columns=[*AXES]), on=index)
    table = table.join(runs.groupby(index).size().rename("seeds"), on=index)
    for metric in (*AXES, ANYTIME):
        own = accuracies[accuracies["metric"] == metric].set_index(index)[kept].add_prefix(f"{metric}_")
        table = table.join(own.rename(columns=lambda name: name.removesuffix("_mean").replace("_t_", "_")), on=index)
    return table


def interval(rows, name):
    """Means with the bounds of their intervals, as text."""
    return [f"{m:.3f} [{a:.3f}, {b:.3f}]" for m, a, b in zip(rows[name], rows[f"{name}_low"], rows[f"{name}_high"])]


def p_values(values):
    """p-values with as many digits as they bear."""
    return ["–" if pd.isna(p) else "< 0.0001" if p < 1e-4 else f"{p:.4f}" if p < 0.01 else f"{p:.2f}" for p in values]


def not_shown(names, most=3):
    """The first few rivals of which it is not shown that the proposed system equals them."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"not shown of {', '.join(names[:most])}{more}" if names else "yes"


def _panels(table, height, xlabel, ylabel="", side="center", **shared):
    """A figure with a panel per cell, datasets by policies; the panels with the rows of their cells."""
    datasets, policies = table["dataset"].unique(), table["policy"].unique()
    size = (WIDTH, height * len(datasets))
    figure, panels = plt.subplots(len(datasets), len(policies), figsize=size, squeeze=False, **shared)
    found = []
    for axes, (dataset, policy) in zip(panels.flat, product(datasets, policies)):
        axes.set_title(cell_title(dataset, policy), loc=side, fontsize=9)
        found.append((axes, table[(table["dataset"] == dataset) & (table["policy"] == policy)]))
    for axes in panels[-1]:
        axes.set_xlabel(xlabel)
    for axes in panels[:, 0]:
        axes.set_ylabel(ylabel)
    return figure, found


def _cell_front(axes, cell, own):
    """Draw the front of a cell, ``own`` being all cells of its dataset; returns what ``_write_names`` needs."""
    best, floor = own["original"].max(), own.loc[own["system"] == FLOOR, "original"].min() - DROP
    near = own[(own["original"] >= best - WINDOW) | own["system"].isin((OURS, REFERENCE))]
    x_lim = max(min(floor, near["original"].min()), best - 2 * WINDOW) - 0.015, best + 0.015
    most = cell["novel"].max()
    y_lim = (0.5 * most - 0.02, min(most + 0.08, 1.04)) if most else (-0.02, 1.0)
    axes.set(xlim=x_lim, ylim=y_lim)
    lost = cell.loc[cell["system"] == FLOOR, "original"].item() - DROP
    axes.axvspan(x_lim[0] - 1, lost, color="#F0F0F0", linewidth=0, zorder=0)
    steps = cell[cell["front"]].sort_values("original")  # the border of what some system dominates
    x = np.concatenate([[x_lim[0] - 1], np.repeat(steps["original"], 2)])
    y = np.concatenate([np.repeat(steps["novel"], 2), [y_lim[0] - 1]])
    axes.plot(x, y, zorder=1, **DASHED)
    along = np.linspace(0, len(x) - 1, 100 * len(x))
    line, marks, labels = np.column_stack([np.interp(along, range(len(x)), part) for part in (x, y)]), [], []
    first = cell["front"].where(~cell["system"].isin((OURS, REFERENCE)), 2).astype(int)  # these are named first
    for row in cell.assign(first=first).sort_values(["first", "novel"], ascending=False).to_dict("records"):
        _, colour, marker = family_of(row["system"])
        x, y = np.clip(row["original"], *x_lim), np.clip(row["novel"], *y_lim)
        if (x, y) != (row["original"], row["novel"]):
            marker = "<" if x > row["original"] else "v"  # it lies beyond this edge
        face, edge, width = ("white", colour, 0.9) if row["collapsed"] else (colour, "white", 0.5)
        style = dict(facecolor=face, edgecolor=edge, linewidth=width, clip_on=False, zorder=(3, 4, 6)[row["first"]])
        axes.scatter(x, y, marker=marker, s=SIZES.get(marker, 26), **style)
        marks.append((x, y))
        if row["first"]:
            weight = "bold" if row["system"] == OURS else "normal"
            labels.append(((x, y), row["system"], dict(color=colour, fontweight=weight)))
    return axes, marks, line, labels


def front(table):
    """Final novel against final original accuracy, all systems of all cells: rows of ``joined``."""
    figure, cells = _panels(table, 2.75, "final original accuracy", "final novel accuracy")
    of_dataset = dict(list(table.groupby("dataset")))
    drawn = [_cell_front(axes, cell, of_dataset[cell["dataset"].iloc[0]]) for axes, cell in cells]
    dot = dict(linestyle="none", markersize=5)
    looks = [kind for kind in FAMILIES if set(kind[-1]) & set(table["system"])]
    handles = [Line2D([], [], color=PALETTE[c], marker=m, label=title, **dot) for title, c, m, _ in looks]
    grey, hollow = dict(color="#606060", **dot), dict(markerfacecolor="white", markeredgewidth=0.9)
    handles.append(Line2D([], [], label="front", **DASHED))
    handles.append(Line2D([], [], marker="o", label="hollow: collapsed", **grey | hollow))
    handles.append(Patch(color="#F0F0F0", label=f"> {100 * DROP:g} pp below {FLOOR}"))
    handles += [Line2D([], [], marker=m, label=f"further {way}", **grey) for m, way in (("<", "left"), ("v", "down"))]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    figure.canvas.draw()  # labels need to know where everything is
    for one in drawn:
        _write_names(*one)
    return figure


def _write_names(axes, marks, lines, labels):
    """Write names beside their marks, each where it hides least of marks, lines and other names.

    The figure has been drawn. ``marks`` (m, 2) and ``lines`` (n, 2) are points in the coordinates of the data,
    ``labels`` a list of where each name belongs, the name, and how its text looks.
    """
    to_points = 72 / axes.figure.dpi
    dots, strokes = (axes.transData.transform(np.array(part)) * to_points for part in (marks, lines))
    inside, taken = axes.get_window_extent().extents * to_points, []
    for (x, y), text, style in labels:
        note = axes.annotate(text, (x, y), textcoords="offset points", xytext=(0, 0), va="center", fontsize=7, **style)
        note.set_in_layout(False)
        width, height = note.get_window_extent().size * to_points
        at, costs = axes.transData.transform((x, y)) * to_points, []
        for rank, (dx, dy) in enumerate(SPOTS):
            left, low = at + (dx - (dx < 0) * width - (dx == 0) * width / 2, dy - height / 2)
            box = np.array([[left, low], [left + width, low + height]])
            outside = np.maximum(0, [inside[:2] - box[0], box[1] - inside[2:]]).sum()
            hidden, crossed = (((p > box[0] - 2) & (p < box[1] + 2)).all(axis=1).sum() for p in (dots, strokes))
            over = sum(((box[0] < other[1]) & (box[1] > other[0])).all() for other in taken)
            gaps = np.hypot(*np.maximum(0, [box[0] - dots, dots - box[1]]).max(axis=0).T)
            another = (gaps < np.hypot(*np.maximum(0, [box[0] - at, at - box[1]]).max(axis=0)) - 0.5).any()
            costs.append(
                (1000 * over + 100 * outside + 60 * hidden + 45 * (crossed > 0) + 20 * another + rank, rank, box)
            )
        _, rank, box = min(costs, key=itemgetter(0))
        taken.append(box)
        dx, dy = SPOTS[rank]
        strokes = np.concatenate([strokes, at + np.linspace(0, 1, 12)[:, None] * (dx, dy)])  # its own line
        note.set(position=(dx, dy), horizontalalignment="right" if dx < 0 else "left" if dx > 0 else "center")
        line = dict(arrowstyle="-", color=style["color"], linewidth=0.5, shrinkA=0, shrinkB=2)
        axes.annotate("", (x, y), xytext=(dx, dy), textcoords="offset points", arrowprops=line).set_in_layout(False)


def anytime(accuracies):
    """Differences to the reference in novel accuracy over stream steps, cell by cell: rows of ``accuracies``."""
    rows = accuracies[(accuracies["metric"] == ANYTIME) & accuracies["difference"].notna()]
    most = rows.groupby(["dataset", "policy"]).size().max()
    figure, cells = _panels(rows, 0.135 * most + 0.6, "difference (pp)", side="right", sharex=True)
    for axes, cell in cells:
        cell = cell.sort_values("difference", ascending=False)
        for at, row in enumerate(cell.to_dict("records")):
            colour, sure = family_of(row["system"])[1], row["p_holm"] < ALPHA
            span = [100 * row["difference_t_low"], 100 * row["difference_t_high"]]
            axes.plot(span, [at, at], color=colour, linewidth=1.1, zorder=2)
            face, shown = colour if sure else "white", max(100 * row["difference"], LEAST)
            marker = dict(marker="o" if shown == 100 * row["difference"] else "<", zorder=3)
            axes.scatter(shown, at, s=14, color=face, edgecolor=colour, linewidth=0.9, **marker)
        axes.set_yticks(range(len(cell)), cell["system"].tolist(), fontsize=7)
        for label in axes.get_yticklabels():
            weight = "bold" if label.get_text() == OURS else "normal"
            label.set(color=family_of(label.get_text())[1], fontweight=weight)
        axes.set_ylim(len(cell) - 0.3, -0.7)
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
    """Both accuracies over the stream: means over seeds with 95 % t-intervals, ends marked; rows of checkpoints."""
    cells = results[results["system"].isin(systems) & results["policy"].isin(policies)].groupby(CELL, sort=False)
    size = (WIDTH, 4.3)
    figure, panels = plt.subplots(2, cells.ngroups, figsize=size, sharex="col", sharey="row", squeeze=False)
    for column, (place, cell) in zip(panels.T, cells):
        for axes, axis in zip(column, AXES):
            for system in (name for name in systems if name in set(cell["system"])):
                steps, values = mean_curve(cell[cell["system"] == system], f"{axis}_acc", along="step")
                band, (colour, marker) = t_intervals(values.T), style_of(system)
                axes.fill_between(steps, band["low"], band["high"], color=colour, alpha=0.15, linewidth=0)
                axes.plot(steps, band["mean"], color=colour, marker=marker, markersize=3.5, markevery=(0.1, 0.28))
                mark_end(axes, steps, band["mean"].to_numpy(), colour, marker)
        column[0].set_title(cell_title(*place), fontsize="small")
        column[1].set_xlabel("stream step")
    for axes, axis in zip(panels[:, 0], AXES):
        axes.set_ylabel(TITLES[axis])
    panels[0, 0].set_ylim(-0.03, 1.03)
    panels[1, 0].set_ylim(max(panels[1, 0].get_ylim()[0], -0.03), min(panels[1, 0].get_ylim()[1], 1.03))
    shown = [name for name in systems if name in set(results["system"])]
    legend(figure, shown, len(shown) if len(shown) < 5 else 3, size=5)
    return figure
