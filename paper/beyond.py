"""The wider comparison (notebooks 09 and 19): frames of tables, numbers as text, and figures."""

from collections.abc import Iterable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.stats import kendalltau

from ocrrlib.experiments import OURS
from ocrrlib.metrics import AXES, final
from paper.style import (
    PALETTE,
    POLICY_TITLES,
    STYLES,
    WIDTH,
    family_colour,
    style_of,
    title_of,
)
from studies.statistics import DATASET_POLICY, REFERENCE, t_intervals
from studies.target import ALPHA, means

# Those that are named in figures and in the paper's table.
MAIN = (OURS, REFERENCE, "ranpac", "klda_held", "slda", "knn_lm")
OVER_STEPS = "novel_over_steps"
LEAST_SHOWN = -30  # points, down to which differences are shown


def joined(runs: pd.DataFrame, accuracies: pd.DataFrame) -> pd.DataFrame:
    """One row per dataset, policy and system: ``target.means``, ``seeds``, and each metric.

    ``starts_at`` is mean original accuracy before the stream, ``lost`` that less the one at its
    end. A metric's mean has its own name; with ``<metric>_`` before them there are the other
    columns of ``accuracies``.
    """
    index = [*DATASET_POLICY, "system"]
    table = means(runs).drop(columns=["novel", "original"])
    more = runs.rename(columns={"start": "starts_at"})
    more["lost"] = more["starts_at"] - more["original"]
    averaged = ["best_hm", "holds_at_once", "holds", "starts_at", "lost"]
    table = table.join(more.groupby(index)[averaged].mean(), on=index)
    for metric, own in accuracies.groupby("metric", sort=False):
        own = own.set_index(index).drop(columns=["metric", "seeds"]).add_prefix(f"{metric}_")
        own.columns = [name.removesuffix("_mean").replace("_t_", "_") for name in own]
        table = table.join(own, on=index)
    return table.assign(seeds=accuracies["seeds"].max())


def sure(accuracies: pd.DataFrame) -> pd.DataFrame:
    """Verdicts on each system of a cell against ``REFERENCE``, a column for each metric.

    1 is surely above, -1 surely below, 0 neither: p, corrected by Holm, is not below ``ALPHA``.
    Rows are dataset, policy and system; the reference itself is left out.
    """
    rows = accuracies[accuracies["difference"].notna()]
    signs = np.sign(rows["difference"]).where(rows["p_holm"] < ALPHA, 0).astype(int)
    index = [*DATASET_POLICY, "system"]
    return rows.assign(sign=signs).pivot(index=index, columns="metric", values="sign")


def verdicts(accuracies: pd.DataFrame) -> pd.DataFrame:
    """Systems surely above or below ``REFERENCE`` by points (``hm``) and by area, a row per cell.

    Counts ``above_hm``, ``above_ausuc``, ``below_hm``, ``below_ausuc``; tuples of names: above by
    one alone (``only_hm``, ``only_ausuc``); how many have ``moved``, from one verdict to another,
    or are ``reversed``; Kendall's ``tau`` between both orders of all systems.
    """
    rows = []
    signs = sure(accuracies)
    both = accuracies[accuracies["metric"].isin(("hm", "ausuc"))]
    for cell, own in both.groupby(DATASET_POLICY, sort=False):
        means = own.pivot(index="system", columns="metric", values="mean")
        found = signs.loc[cell]
        row = dict(zip(DATASET_POLICY, cell))
        row["tau"] = kendalltau(means["hm"], means["ausuc"]).statistic
        for one, other in (("hm", "ausuc"), ("ausuc", "hm")):
            row[f"above_{one}"] = int((found[one] > 0).sum())
            row[f"below_{one}"] = int((found[one] < 0).sum())
            row[f"only_{one}"] = tuple(found.index[(found[one] > 0) & (found[other] <= 0)])
        row["moved"] = int((found["hm"] != found["ausuc"]).sum())
        row["reversed"] = int((found["hm"] * found["ausuc"] < 0).sum())
        rows.append(row)
    return pd.DataFrame(rows)


def turned(accuracies: pd.DataFrame) -> pd.DataFrame:
    """How many systems have each pair of verdicts against ``REFERENCE``.

    Rows are verdicts by points (``hm``), columns by area (``ausuc``), both in the order above,
    neither, below.
    """
    signs = sure(accuracies)
    counts = pd.crosstab(signs["hm"], signs["ausuc"])
    return counts.reindex(index=(1, 0, -1), columns=(1, 0, -1), fill_value=0)


def even_rule(runs: pd.DataFrame, pairs: dict[str, str], other: str) -> pd.DataFrame:
    """Systems with and without the even rule, means over all cells, and what the rule brings.

    ``runs`` are as of ``studies.statistics.measure``, ``pairs`` names of systems by those of their
    even variants. A row for each of both, then one for the system ``other``. ``brings_<policy>`` is
    mean HM less that without the rule, seed by seed, each the mean of its datasets, and
    ``low_<policy>`` and ``high_<policy>`` its 95 % t interval over seeds.
    """
    columns = ["hm", "best_hm", "ausuc", "novel", "original", "prequential", "corrections"]
    means = runs.groupby("system")[[*columns, "holds_at_once", "holds"]].mean()
    by_seed = runs.pivot_table(index=["policy", "seed"], columns="system", values="hm", sort=False)
    rows = []
    for even, plain in pairs.items():
        rows.append({"system": plain} | means.loc[plain].to_dict())
        row = {"system": even} | means.loc[even].to_dict()
        for policy, gained in (by_seed[even] - by_seed[plain]).groupby("policy", sort=False):
            found = t_intervals(gained).iloc[0]
            row[f"brings_{policy}"] = found["mean"]
            row |= {f"{end}_{policy}": found[end] for end in ("low", "high")}
        rows.append(row)
    rows.append({"system": other} | means.loc[other].to_dict())
    return pd.DataFrame(rows)


def against_all_parts(forms: pd.DataFrame, measures: Iterable[str]) -> pd.DataFrame:
    """Each form of the proposed system less the form with all parts, in points.

    ``forms`` are rows as of ``studies.forms``, all of the same datasets. A row for each form: the
    mean of the cells, of each measure, seed by seed, with its 95 % t interval over seeds
    (``<measure>_low`` and ``_high``); ``all parts`` has its own values.
    """
    by_seed = forms.pivot_table(index="form", columns="seed", values=list(measures), sort=False)
    found = {}
    for measure in measures:
        own = 100 * by_seed[measure]
        gained = own - own.loc["all parts"]
        gained.loc["all parts"] = own.loc["all parts"]
        bounds = t_intervals(gained)
        for name, column in (("", "mean"), ("_low", "low"), ("_high", "high")):
            found[f"{measure}{name}"] = pd.Series(bounds[column].to_numpy(), own.index)
    return pd.DataFrame(found).reset_index()


def measures(classes: pd.DataFrame, runs: pd.DataFrame, joint: pd.DataFrame) -> pd.DataFrame:
    """Further measures by cell and system.

    Macro accuracies, CLINC150's ``in_scope`` and ``out_of_scope``, ``prequential`` and regrets.
    ``classes`` are as of ``studies.rows.by_class``, ``joint`` the checkpoints of the fit of all
    classes at once.
    """
    index = [*DATASET_POLICY, "system"]
    axes = ("novel", "original", "ausuc")
    macro = classes.groupby([*index, "seed", "axis"], sort=False)["accuracy"].mean()
    table = macro.groupby([*index, "axis"], sort=False).mean().unstack("axis").add_prefix("macro_")
    known = classes[(classes["axis"] == "original") & (classes["dataset"] == "clinc150")]
    known = known.assign(scope=np.where(known["class"] == "oos", "out_of_scope", "in_scope"))
    known["right"] = known["accuracy"] * known["share"]
    sums = known.groupby([*index, "seed", "scope"], sort=False)[["right", "share"]].sum()
    table = table.join(
        (sums["right"] / sums["share"]).groupby([*index, "scope"]).mean().unstack("scope")
    )
    ends = final(joint).rename(columns={name: axis for axis, name in AXES.items()})
    pairs = runs.merge(ends, on=["dataset", "seed", "system"], suffixes=("", "_joint"), how="left")
    pairs = pairs.assign(
        **{f"regret_{axis}": pairs[f"{axis}_joint"] - pairs[axis] for axis in axes}
    )
    kept = ["prequential", *(f"regret_{axis}" for axis in axes)]
    return table.join(pairs.groupby(index)[kept].mean()).reset_index()


def interval(rows: pd.DataFrame, name: str) -> list[str]:
    """Means with the bounds of their intervals, as text."""
    bounds = zip(rows[name], rows[f"{name}_low"], rows[f"{name}_high"])
    return [f"{mean:.3f} [{low:.3f}, {high:.3f}]" for mean, low, high in bounds]


def p_values(values: pd.Series) -> list[str]:
    """p-values with as many digits as they bear."""
    return [_p_value(p) for p in values]


def _p_value(p):
    if pd.isna(p):
        return "–"
    if p < 1e-4:
        return "< 0.0001"
    return f"{p:.4f}" if p < 0.01 else f"{p:.2f}"


def areas(accuracies: pd.DataFrame) -> Figure:
    """Area under the curve less the reference's, all systems, a panel per dataset."""
    rows = accuracies[(accuracies["metric"] == "ausuc") & accuracies["difference"].notna()]
    order = rows.groupby("system")["difference"].mean().sort_values(ascending=False).index
    datasets = rows["dataset"].unique()
    marks = dict(zip(rows["policy"].unique(), "osv^D"))
    size = (WIDTH, 0.17 * len(order) + 0.9)
    figure, panels = plt.subplots(
        1, len(datasets), figsize=size, sharex=True, sharey=True, squeeze=False
    )
    for axes, dataset in zip(panels[0], datasets):
        of_dataset = rows[rows["dataset"] == dataset]
        for place, (policy, mark) in enumerate(marks.items()):
            own = of_dataset[of_dataset["policy"] == policy].set_index("system").loc[order]
            _area_marks(axes, own, 0.25 * (place - 1), mark)
        axes.axvline(0, color=PALETTE[STYLES[REFERENCE][0]], linewidth=0.9, zorder=1)
        axes.set(
            title=title_of(dataset), xlabel="difference in area (pp)", ylim=(len(order) - 0.4, -0.6)
        )
        axes.tick_params(axis="y", length=0)
    panels[0, 0].set_yticks(range(len(order)), order)
    for label in panels[0, 0].get_yticklabels():
        name = label.get_text()
        label.set(color=family_colour(name), fontweight="bold" if name == OURS else "normal")
    panels[0, 0].set_xlim(left=LEAST_SHOWN - 1.5)
    handles = _area_handles(marks)
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _area_marks(axes, rows, shift, mark):
    """A mark and an interval per system, from top to bottom."""
    places = np.arange(len(rows)) + shift
    low = 100 * rows["difference_t_low"]
    high = 100 * rows["difference_t_high"]
    axes.hlines(places, low, high, colors="grey", linewidth=0.8)
    shown = np.maximum(100 * rows["difference"], LEAST_SHOWN)
    for y, x, name, p in zip(places, shown, rows.index, rows["p_holm"]):
        colour = family_colour(name)
        face = colour if p < ALPHA else "white"
        axes.scatter(x, y, s=11, marker=mark, edgecolor=colour, color=face, zorder=3)


def knowledge_and_boldness(
    curves: dict[str, np.ndarray], points: pd.DataFrame, grid: np.ndarray, counts: pd.DataFrame
) -> Figure:
    """The idea of the comparison: two systems on their curves, and verdicts that turn.

    ``curves`` have original accuracy at each novel accuracy of ``grid``, by system; ``points``
    original and novel accuracy of the same systems; ``counts`` are as ``turned`` returns them.
    """
    points = points.loc[[*curves]]
    size = (WIDTH, 2.75)
    figure, (left, right) = plt.subplots(1, 2, figsize=size, width_ratios=(1.5, 1))
    for system, curve in curves.items():
        colour, marker = style_of(system)
        point = points.loc[system]
        left.plot(curve, grid, color=colour)
        left.scatter(*point, s=60, color=colour, marker=marker, edgecolor="white", zorder=3)
        is_leftmost = point["original"] == points["original"].min()
        shift, side = ((8, -24), "left") if is_leftmost else ((-8, -3), "right")
        words = f"{system} answers here"
        left.annotate(words, point, shift, textcoords="offset points", ha=side, color=colour)
    _bolder(left, list(curves.values())[-1], grid)
    left.set(xlabel="original accuracy", ylabel="novel accuracy", ylim=(0, 1))
    left.margins(x=0.08)
    names = ["above", "neither", "below"]
    sns.heatmap(
        counts, annot=True, fmt="d", cmap="Blues", cbar=False, square=True, ax=right, linewidths=1
    )
    right.set(xlabel="by area: what it knows", ylabel="by point: what it answers")
    right.set_title(f"systems against the {REFERENCE}")
    right.set_xticklabels(names)
    right.set_yticklabels(names, rotation=90, va="center")
    right.tick_params(length=0)
    return figure


def _bolder(axes, curve, grid):
    """An arrow along a curve, the way that a system takes if it dares more."""
    start, end = (np.searchsorted(grid, height) for height in (0.35, 0.75))
    along = dict(arrowstyle="->", color="#606060", connectionstyle="arc3,rad=0.15")
    away = 0.008  # from the curve
    axes.annotate(
        "", (curve[end] + away, grid[end]), (curve[start] + away, grid[start]), arrowprops=along
    )
    middle = (start + end) // 2
    axes.annotate("bolder", (curve[middle] + 2 * away, grid[middle]), color="#606060")


def _area_handles(marks):
    dot = dict(color="#404040", linestyle="none", markersize=4)
    handles = [
        Line2D([], [], marker=mark, label=POLICY_TITLES.get(name, name), **dot)
        for name, mark in marks.items()
    ]
    unsure = f"p ≥ {ALPHA:g} (Holm)"
    handles.append(Line2D([], [], marker="o", markerfacecolor="white", label=unsure, **dot))
    colour = PALETTE[STYLES[REFERENCE][0]]
    handles.append(Line2D([], [], color=colour, linewidth=0.9, label=f"the {REFERENCE}"))
    return handles
