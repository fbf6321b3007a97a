"""The wider comparison (notebooks 09 and 19): frames of tables, numbers as text, and figures."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ocrrlib.experiments import OURS, SUBSTRATE
from ocrrlib.metrics import AXES, final
from paper.style import POLICY_TITLES, family_colour
from studies.fronts import means
from studies.statistics import ALPHA, DATASET_POLICY, t_intervals

# Those that are named in tables.
MAIN = (OURS, SUBSTRATE, "ranpac", "klda_held", "slda", "knn_lm")
OVER_STEPS = "novel_over_steps"
# What runs are compared by, and its title.
READINGS = {"hm": "HM", "best_hm": "best HM", "ausuc": "area", "share": "share"}
# What explains HM, and its title.
NUMBERS = {"start": "start (%)", "share": "share (%)", "miss": "miss (pp)", "hm": "HM (%)"}
LEAST_SHOWN = 60  # percent, down to which marks are shown
POLICY_MARKS = {"oracle": ("o", "full"), "random50": ("D", "none"), "random10": ("v", "none")}


def joined(runs: pd.DataFrame, accuracies: pd.DataFrame) -> pd.DataFrame:
    """One row per dataset, policy and system: ``fronts.means``, ``seeds``, and each metric.

    ``starts_at`` is mean original accuracy before the stream, ``lost`` that less the one at its
    end. A metric's mean has its own name; with ``<metric>_`` before them there are the other
    columns of ``accuracies``.
    """
    index = [*DATASET_POLICY, "system"]
    table = means(runs).drop(columns=["novel", "original"])
    more = runs.rename(columns={"start": "starts_at"})
    more["lost"] = more["starts_at"] - more["original"]
    averaged = ["miss", "holds_at_once", "holds", "starts_at", "lost"]
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


def readings(accuracies: pd.DataFrame) -> pd.DataFrame:
    """Verdicts against ``REFERENCE`` by each of ``READINGS``, a row per cell and reading.

    How many systems are surely ``above``, ``neither`` and ``below``, and how many have ``moved``
    there from another verdict by HM, or are ``reversed``; systems without a share are left out.
    """
    signs = sure(accuracies)[list(READINGS)].dropna()
    rows = []
    for reading in READINGS:
        own = signs[reading]
        counts = {"above": own > 0, "neither": own == 0, "below": own < 0}
        counts |= {"moved": own != signs["hm"], "reversed": own * signs["hm"] < 0}
        by_cell = pd.DataFrame(counts).groupby(level=DATASET_POLICY, sort=False).sum()
        rows.append(by_cell.assign(reading=reading).reset_index())
    return pd.concat(rows, ignore_index=True)


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


def less(runs: pd.DataFrame, ours: str, rival: str, measures: Iterable[str]) -> dict:
    """One system less a rival in points, with 95 % t intervals over seeds, means over all cells.

    ``worst``: the least difference in HM of a cell, ``worst_dataset`` and ``worst_policy``;
    ``corrections`` as many times the rival's where every mistake is corrected.
    """
    both = runs[runs["system"].isin((ours, rival))]
    row = {"rival": rival}
    for measure in measures:
        own = 100 * both.pivot_table(index="seed", columns="system", values=measure)
        found = t_intervals(own[ours] - own[rival]).iloc[0]
        row |= {
            measure: found["mean"],
            f"{measure}_low": found["low"],
            f"{measure}_high": found["high"],
        }
    cells = 100 * both.pivot_table(index=DATASET_POLICY, columns="system", values="hm")
    behind = cells[ours] - cells[rival]
    row["worst"] = behind.min()
    row["worst_dataset"], row["worst_policy"] = behind.idxmin()
    made = both[both["policy"] == "oracle"].groupby("system")["corrections"].mean()
    return row | {"corrections": made[ours] / made[rival]}


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


def three_numbers(panels: Iterable[Axes], runs: pd.DataFrame, systems: Iterable[str]) -> None:
    """Draw each of ``NUMBERS`` of systems in a panel of its own, a line per system.

    A mark is the mean of all datasets and seeds under one policy, in percent; those below
    ``LEAST_SHOWN`` are triangles at the edge. A start is the same under all policies, and has one
    mark. ``runs`` have shares.
    """
    order = list(systems)
    colours = np.array([family_colour(system) for system in order])
    means = runs.groupby(["system", "policy"])[list(NUMBERS)].mean().mul(100).unstack("policy")
    places = np.arange(len(order))
    for axes, (name, title) in zip(panels, NUMBERS.items()):
        table = means.loc[order, name]
        shown = table if name == "miss" else table.clip(lower=LEAST_SHOWN)
        axes.hlines(places, shown.min(axis=1), shown.max(axis=1), colors="#C0C0C0", linewidth=1)
        policies = ["oracle"] if name == "start" else reversed(POLICY_MARKS)
        for policy in policies:
            mark, fill = POLICY_MARKS[policy]
            cut = (shown[policy] > table[policy]).to_numpy()
            for those, marker in ((~cut, mark), (cut, "<")):
                edge = colours[those]
                face = edge if fill == "full" else "white"
                axes.scatter(
                    shown[policy][those], places[those], 14, face, marker, edgecolor=edge, zorder=3
                )
        axes.set(title=title, ylim=(len(order) - 0.4, -0.6))
        axes.set_yticks(places, order)
        axes.tick_params(axis="y", length=0)


def policy_handles() -> list[Line2D]:
    """What the marks of ``three_numbers`` mean."""
    dot = dict(color="#404040", linestyle="none", markersize=4)
    return [
        Line2D([], [], marker=mark, label=POLICY_TITLES[policy], fillstyle=fill, **dot)
        for policy, (mark, fill) in POLICY_MARKS.items()
    ]
