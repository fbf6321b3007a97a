"""The paper's figures, drawn from tidy results."""

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

from ocrrlib.datasets import DATASETS
from ocrrlib.metrics import final, summarise
from ocrrlib.report.curves import AXES, legend, mark_end, mean_curve, unit
from ocrrlib.report.style import PALETTE, WIDTH, cell_title, style_of


def _point(axes, x, y, x_std, y_std, system, **marker):
    """A mean with one standard deviation either way."""
    colour, shape = style_of(system)
    axes.errorbar(x, y, xerr=x_std, yerr=y_std, color=colour, elinewidth=1, capsize=2, linestyle="none", zorder=3)
    style = dict(s=90 if shape == "*" else 40, color=colour, edgecolor="white", linewidth=0.6, zorder=4) | marker
    axes.scatter(x, y, marker=shape, **style)


def storage_pareto(results):
    """Figure 1: final accuracies against what is stored, all bounded variants, two panels."""
    summary, last = summarise(results), final(results)
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 3.7), sharey=True)
    for axes, (axis, title) in zip(panels, AXES.items()):
        for family in ("bounded_reservoir", "bounded_fifo"):
            line = summary[summary["system"].str.startswith(family)]
            axes.plot(line["storage_bytes"] / 1e6, line[axis], color=style_of(family)[0], linewidth=1, zorder=2)
            below = axis == "novel" and family == "bounded_reservoir"  # where the line leaves room
            for row in line.to_dict("records"):
                axes.annotate(
                    row["system"].rsplit("_", 1)[1],
                    (row["storage_bytes"] / 1e6, row[axis]),
                    xytext=(7, -9) if below else (-5, 6),
                    textcoords="offset points",
                    ha="left" if below else "right",
                    fontsize=7,
                    color=style_of(family)[0],
                )
        for row in summary.to_dict("records"):
            seeds = last[last["system"] == row["system"]]
            colour, _ = style_of(row["system"])
            axes.scatter(seeds["storage_bytes"] / 1e6, seeds[f"{axis}_acc"], s=7, color=colour, alpha=0.5, linewidth=0)
            _point(axes, row["storage_bytes"] / 1e6, row[axis], None, row[f"{axis}_std"], row["system"])
        axes.set(xscale="log", xlabel="stored at the end (MB)", title=title, xlim=(0.06, 25))
        axes.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
        unit(axes, "y")
    panels[0].set_ylabel("final accuracy")
    legend(figure, ["substrate", "bounded_reservoir", "bounded_fifo", "online_linear", "a_gem", "river_logreg"], 3)
    return figure


def _curves(axes, cell, axis):
    """Mean over seeds, band from lowest to highest, for every system."""
    for place, (system, runs) in enumerate(cell.groupby("system", sort=False)):
        x, curves = mean_curve(runs, f"{axis}_acc")
        colour, marker = style_of(system)
        mean, apart = curves.mean(axis=0), (0.03 + 0.03 * place, 0.3)  # no marker hides another
        axes.fill_between(x, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.15, linewidth=0)
        axes.plot(x, mean, color=colour, marker=marker, markersize=4.5, markeredgewidth=0, markevery=apart)
        mark_end(axes, x, mean, colour, marker)


def recovery(results, dataset="banking77", policy="oracle"):
    """Figure 2: both accuracies against corrections; the inset enlarges what stays high. Ends are marked."""
    cell = results[(results["dataset"] == dataset) & (results["policy"] == policy)]
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 3.6), sharey=True)
    for axes, (axis, title) in zip(panels, AXES.items()):
        _curves(axes, cell, axis)
        axes.set(xlabel="corrections", title=title)
        unit(axes, "y")
    panels[0].set_ylabel("accuracy")
    last = final(cell)
    kept = cell[cell["system"].isin(last.loc[last["original_acc"] > 0.2, "system"])]
    inset = panels[1].inset_axes([0.33, 0.12, 0.64, 0.6])
    _curves(inset, kept, "original")
    inset.set_ylim(kept["original_acc"].min() - 0.01, kept["original_acc"].max() + 0.01)
    inset.tick_params(labelsize=7)
    legend(figure, list(dict.fromkeys(cell["system"])), 5)
    return figure


def _trade(axes, cell):
    """Novel against original accuracy: a mean with its spread and the seeds, per system."""
    summary, last = summarise(cell), final(cell)
    for row in summary.to_dict("records"):
        seeds = last[last["system"] == row["system"]]
        colour, _ = style_of(row["system"])
        axes.scatter(seeds["original_acc"], seeds["novel_acc"], s=8, color=colour, alpha=0.5, linewidth=0, zorder=2)
        _point(axes, row["original"], row["novel"], row["original_std"], row["novel_std"], row["system"])
    unit(axes, "x", "y")


def novel_against_original(results, dataset, policy="oracle"):
    """Figures 4 and 5: one dataset; large marks are means ± SD, small dots are seeds."""
    cell = results[(results["dataset"] == dataset) & (results["policy"] == policy)]
    figure, (axes, close) = plt.subplots(1, 2, figsize=(WIDTH, 3.7))
    _trade(axes, cell)
    _trade(close, cell)
    kept = final(cell)[final(cell)["original_acc"] > 0.2]["original_acc"]
    close.set_xlim(kept.min() - 0.02, kept.max() + 0.02)
    axes.set(xlabel="final original accuracy", ylabel="final novel accuracy", title=DATASETS[dataset].title)
    close.set(xlabel="final original accuracy", title="enlarged: systems that keep the original")
    legend(figure, list(dict.fromkeys(cell["system"])), 5)
    return figure


def _dots(axes, cell, systems, colour_of):
    """One line per system: filled marks are novel, hollow ones original; the small ones below are seeds."""
    summary, last = summarise(cell).set_index("system"), final(cell)
    for place, system in enumerate(systems):
        seeds, row = last[last["system"] == system], summary.loc[system]
        colour, _ = colour_of(system)
        axes.plot([row["novel"], row["original"]], [place, place], color=colour, alpha=0.3, linewidth=1.5, zorder=1)
        for below, axis, fill in ((0.29, "novel", colour), (0.43, "original", "white")):
            axes.errorbar(row[axis], place, xerr=row[f"{axis}_std"], color=colour, elinewidth=1, capsize=2, zorder=2)
            axes.scatter(row[axis], place, s=26, facecolor=fill, edgecolor=colour, linewidth=1.1, zorder=3)
            small = dict(s=7, facecolor=fill, edgecolor=colour, linewidth=0.6)
            axes.scatter(seeds[f"{axis}_acc"], [place + below] * len(seeds), **small)
    axes.set_yticks(range(len(systems)), systems)
    axes.set_ylim(len(systems) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def six_cells(results):
    """All datasets and policies as small multiples: both final accuracies of every system."""
    datasets, policies = list(dict.fromkeys(results["dataset"])), list(dict.fromkeys(results["policy"]))
    systems = list(dict.fromkeys(results["system"]))
    size = (WIDTH, 2.5 * len(datasets))
    figure, panels = plt.subplots(len(datasets), len(policies), figsize=size, sharex=True, sharey=True, squeeze=False)
    for row, dataset in zip(panels, datasets):
        for axes, policy in zip(row, policies):
            cell = results[(results["dataset"] == dataset) & (results["policy"] == policy)]
            _dots(axes, cell, systems, style_of)
            axes.set_title(cell_title(dataset, policy))
            unit(axes, "x")
    for axes in panels[-1]:
        axes.set_xlabel("final accuracy")
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])  # else neighbours' labels touch
    _fill_legend(figure)
    return figure


def _fill_legend(figure):
    looks = {"mean": dict(markersize=5, markeredgewidth=1.1), "seeds": dict(markersize=2.6, markeredgewidth=0.6)}
    marks = dict(linestyle="none", marker="o", markeredgecolor="#404040")
    handles = [
        Line2D([], [], markerfacecolor=fill, label=f"{axis}, {what}", **marks, **look)
        for what, look in looks.items()
        for axis, fill in (("novel", "#404040"), ("original", "white"))
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)


VARIANTS = {  # colour and line width; wide lines lie under narrow ones, so that equal curves all show
    "substrate": (style_of("substrate")[0], 6),
    "substrate_count_only": (PALETTE["blue"], 3.5),
    "substrate_no_recency": (PALETTE["green"], 1.2),
    "substrate_k1": (PALETTE["black"], 1.4),
    "substrate_sumsim": (PALETTE["pink"], 1.4),
}


def ablation(results):
    """The vote rules: mean recovery of novel accuracy, with its end marked, and where the seeds end."""
    figure, (curve, ends) = plt.subplots(1, 2, figsize=(WIDTH, 3.2))
    systems = list(dict.fromkeys(results["system"]))
    for system in systems:
        x, curves = mean_curve(results[results["system"] == system], "novel_acc")
        (colour, width), mean = VARIANTS[system], curves.mean(axis=0)
        curve.plot(x, mean, color=colour, linewidth=width, label=system, solid_capstyle="butt")
        mark_end(curve, x, mean, colour, size=12 + 15 * width)
    curve.set(xlabel="corrections", ylabel="novel accuracy")
    curve.legend(loc="lower right", fontsize=7)
    _dots(ends, results, systems, VARIANTS.get)
    ends.set_xlabel("final accuracy")
    _fill_legend(figure)
    return figure
