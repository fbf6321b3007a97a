"""The wider comparison (notebook 09): frames that tables show, numbers as text, and a figure."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from scipy.stats import kendalltau

from ocrrlib.experiments import BEFORE, OURS
from ocrrlib.metrics import AXES as COLUMNS
from ocrrlib.metrics import final
from paper.style import PALETTE, POLICY_TITLES, STYLES, WIDTH, family_colour, title_of
from studies.statistics import CELL, REFERENCE
from studies.target import ALPHA, means

# Those that are named in figures and in the paper's table.
MAIN = (OURS, BEFORE, REFERENCE, "ranpac", "klda_held", "slda", "knn_lm")
OVER_STEPS = "novel_over_steps"
LEAST = -30  # points, down to which differences are shown


def joined(runs, accuracies):
    """One row per dataset, policy and system: ``target.means``, ``seeds``, and each metric of ``accuracies``.

    A metric's mean has its own name; with ``<metric>_`` before them there are the other columns of
    ``accuracies``.
    """
    index = [*CELL, "system"]
    table = means(runs).drop(columns=["novel", "original"])
    table = table.join(runs.groupby(index)[["best_hm", "start"]].mean(), on=index)
    for metric, own in accuracies.groupby("metric", sort=False):
        own = own.set_index(index).drop(columns=["metric", "seeds"]).add_prefix(f"{metric}_")
        table = table.join(
            own.rename(columns=lambda name: name.removesuffix("_mean").replace("_t_", "_")),
            on=index,
        )
    return table.assign(seeds=accuracies["seeds"].max())


def verdicts(accuracies):
    """Which systems are surely above or below ``REFERENCE`` by their points (``hm``) and by area, a row per cell.

    Counts ``above_hm``, ``above_ausuc``, ``below_hm``, ``below_ausuc``; tuples of names: above by
    one alone (``only_hm``, ``only_ausuc``); how many have ``moved``, from one verdict to another,
    or are ``reversed``; Kendall's ``tau`` between both orders of all systems.
    """
    rows = []
    for cell, own in accuracies[accuracies["metric"].isin(("hm", "ausuc"))].groupby(
        CELL, sort=False
    ):
        wide = own.pivot(index="system", columns="metric", values=["mean", "difference", "p_holm"])
        sure = np.sign(wide["difference"]).where(wide["p_holm"] < ALPHA, 0)
        row = dict(zip(CELL, cell)) | {
            "tau": kendalltau(wide["mean"]["hm"], wide["mean"]["ausuc"]).statistic
        }
        for one, other in (("hm", "ausuc"), ("ausuc", "hm")):
            row |= {
                f"above_{one}": int((sure[one] > 0).sum()),
                f"below_{one}": int((sure[one] < 0).sum()),
            }
            row[f"only_{one}"] = tuple(sure.index[(sure[one] > 0) & (sure[other] <= 0)])
        row["moved"], row["reversed"] = (
            int(s.sum()) for s in (sure["hm"] != sure["ausuc"], sure.prod(axis=1) < 0)
        )
        rows.append(row)
    return pd.DataFrame(rows)


def measures(classes, runs, joint):
    """Macro accuracies, CLINC150's ``in_scope`` and ``out_of_scope``, ``prequential`` and regrets, by cell and system.

    ``classes`` are as of ``studies.rows.by_class``, ``joint`` the checkpoints of the fit of all
    classes at once.
    """
    index, axes = [*CELL, "system"], ("novel", "original", "ausuc")
    macro = classes.groupby([*index, "seed", "axis"], sort=False)["accuracy"].mean()
    table = macro.groupby([*index, "axis"], sort=False).mean().unstack("axis").add_prefix("macro_")
    known = classes[(classes["axis"] == "original") & (classes["dataset"] == "clinc150")]
    known = known.assign(scope=np.where(known["class"] == "oos", "out_of_scope", "in_scope"))
    known["right"] = known["accuracy"] * known["share"]
    sums = known.groupby([*index, "seed", "scope"], sort=False)[["right", "share"]].sum()
    table = table.join(
        (sums["right"] / sums["share"]).groupby([*index, "scope"]).mean().unstack("scope")
    )
    ends = final(joint).rename(columns={name: axis for axis, name in COLUMNS.items()})
    pairs = runs.merge(ends, on=["dataset", "seed", "system"], suffixes=("", "_joint"), how="left")
    pairs = pairs.assign(
        **{f"regret_{axis}": pairs[f"{axis}_joint"] - pairs[axis] for axis in axes}
    )
    kept = ["prequential", *(f"regret_{axis}" for axis in axes)]
    return table.join(pairs.groupby(index)[kept].mean()).reset_index()


def interval(rows, name):
    """Means with the bounds of their intervals, as text."""
    return [
        f"{m:.3f} [{a:.3f}, {b:.3f}]"
        for m, a, b in zip(rows[name], rows[f"{name}_low"], rows[f"{name}_high"])
    ]


def p_values(values):
    """p-values with as many digits as they bear."""
    return [
        "–" if pd.isna(p) else "< 0.0001" if p < 1e-4 else f"{p:.4f}" if p < 0.01 else f"{p:.2f}"
        for p in values
    ]


def areas(accuracies):
    """Area under the curve less the reference's, all systems, a panel per dataset: rows of ``accuracies``."""
    rows = accuracies[(accuracies["metric"] == "ausuc") & accuracies["difference"].notna()]
    order = rows.groupby("system")["difference"].mean().sort_values(ascending=False).index
    datasets, marks = rows["dataset"].unique(), dict(zip(rows["policy"].unique(), "osv^D"))
    size = (WIDTH, 0.17 * len(order) + 0.9)
    figure, panels = plt.subplots(
        1, len(datasets), figsize=size, sharex=True, sharey=True, squeeze=False
    )
    for axes, dataset in zip(panels[0], datasets):
        for place, (policy, mark) in enumerate(marks.items()):
            own = (
                rows[(rows["dataset"] == dataset) & (rows["policy"] == policy)]
                .set_index("system")
                .loc[order]
            )
            at, shown = (
                np.arange(len(order)) + 0.25 * (place - 1),
                np.maximum(100 * own["difference"], LEAST),
            )
            axes.hlines(
                at,
                100 * own["difference_t_low"],
                100 * own["difference_t_high"],
                colors="grey",
                linewidth=0.8,
            )
            for y, x, name, p in zip(at, shown, order, own["p_holm"]):
                colour = family_colour(name)
                face = colour if p < ALPHA else "white"
                axes.scatter(x, y, s=11, marker=mark, edgecolor=colour, color=face, zorder=3)
        axes.axvline(0, color=PALETTE[STYLES[REFERENCE][0]], linewidth=0.9, zorder=1)
        axes.set(
            title=title_of(dataset), xlabel="difference in area (pp)", ylim=(len(order) - 0.4, -0.6)
        )
        axes.tick_params(axis="y", length=0)
    panels[0, 0].set_yticks(range(len(order)), order)
    for label in panels[0, 0].get_yticklabels():
        label.set(
            color=family_colour(label.get_text()),
            fontweight="bold" if label.get_text() == OURS else "normal",
        )
    panels[0, 0].set_xlim(left=LEAST - 1.5)
    dot = dict(color="#404040", linestyle="none", markersize=4)
    handles = [
        Line2D([], [], marker=mark, label=POLICY_TITLES.get(name, name), **dot)
        for name, mark in marks.items()
    ]
    handles.append(
        Line2D([], [], marker="o", markerfacecolor="white", label=f"p ≥ {ALPHA:g} (Holm)", **dot)
    )
    handles.append(
        Line2D([], [], color=PALETTE[STYLES[REFERENCE][0]], linewidth=0.9, label=f"the {REFERENCE}")
    )
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure
