"""Section 6.5: exact and approximate search, as tables and figures."""

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns

from ocrrlib.datasets import DATASETS
from ocrrlib.report.style import PALETTE, WIDTH
from ocrrlib.report.table import Table, spread
from ocrrlib.report.values import Value

# The paper's table: entries -> recall@5, exact accuracy, accuracy with HNSW, ms per query (section 6.5).
PAPER = {
    10_000: (0.692, 1.0, 1.0, 0.99),
    100_000: (0.542, 1.0, 1.0, 0.63),
    1_000_000: (0.390, 1.0, 0.99, 0.78),
    10_000_000: (0.226, 1.0, 0.99, 0.89),
}
SETTING = ["classes", "noise"]
FOUND = ["exact_acc", "hnsw_acc", "exact_acc_k1", "hnsw_acc_k1", "recall", "agreement"]


def _scales(found, settings):
    """Rows of the settings that are followed over the paper's scales; all sizes of these where it has none of them."""
    rows = found[found.set_index(SETTING).index.isin(settings)]
    return rows[rows["n"].isin(PAPER)] if rows["n"].isin(PAPER).any() else rows


def _over_seeds(numbers, name):
    """``mean ± std`` of a column, or the one figure where there is one seed."""
    return spread(numbers[name], numbers[f"{name}_std"].where(numbers["seeds"] > 1))


def count(n):
    """10000 as 10k, 1000000 as 1M."""
    return f"{n // 10**6}M" if n >= 10**6 else f"{n // 1000}k" if n >= 1000 else str(n)


def comparison(found, costs, settings):
    """The paper's table, for every setting: what is found (mean ± SD over data seeds) and what it costs."""
    columns = [*SETTING, "n"]
    numbers = _scales(found, settings).groupby(columns)[FOUND].agg(["mean", lambda x: x.std(ddof=0)])
    numbers.columns = [name if part == "mean" else f"{name}_std" for name, part in numbers.columns]
    numbers["seeds"] = _scales(found, settings).groupby(columns).size()
    numbers = numbers.join(_scales(costs, settings).groupby(columns).median(numeric_only=True).drop(columns="seed"))
    numbers = numbers[[c for c in numbers if c not in ("queries", "ef", "threads", "in_turn")]].reset_index()
    numbers = numbers.sort_values(["classes", "n"], ascending=[False, True], ignore_index=True)
    gap = 100 * (numbers["exact_acc"] - numbers["hnsw_acc"])
    text = {
        "Classes, noise": [f"{c}, {z:g}" for c, z in zip(numbers["classes"], numbers["noise"])],
        "Entries": map(count, numbers["n"]),
        "Exact": _over_seeds(numbers, "exact_acc"),
        "HNSW": _over_seeds(numbers, "hnsw_acc"),
        "Gap (pp)": [f"{value:+.1f}" for value in gap],
        "HNSW, k = 1": [f"{value:.3f}" for value in numbers["hnsw_acc_k1"]],
        "Recall@5": _over_seeds(numbers, "recall"),
        "Agreement": [f"{value:.3f}" for value in numbers["agreement"]],
        "Seeds": numbers["seeds"],
    }
    caption = (
        "Exact and HNSW search (M = 16, ef_construction = 200, ef = 64) on synthetic classes: accuracy of the vote, "
        "and without one (k = 1); share of the five nearest entries that HNSW finds; how often both votes agree. "
        "Mean ± SD over data seeds where there are several."
    )
    return Table("table_scale", caption, numbers, pd.DataFrame(text))


def scale_costs(costs, settings):
    """What both searches take, at every scale: medians over data seeds."""
    numbers = _scales(costs, settings).groupby([*SETTING, "n"]).median(numeric_only=True).reset_index()
    numbers = numbers.sort_values(["classes", "n"], ascending=[False, True], ignore_index=True)
    numbers = numbers.drop(columns=["seed", "queries", "ef", "in_turn"])
    milliseconds = {
        "Exact, one (ms)": "exact_ms",
        "Exact, batch (ms)": "exact_batch_ms",
        "HNSW, one (ms)": "hnsw_ms",
        "HNSW, batch (ms)": "hnsw_batch_ms",
    }
    text = {
        "Classes, noise": [f"{c}, {z:g}" for c, z in zip(numbers["classes"], numbers["noise"])],
        "Entries": map(count, numbers["n"]),
        **{title: ["" if pd.isna(v) else f"{v:.3f}" for v in numbers[name]] for title, name in milliseconds.items()},
        "Paper, HNSW (ms)": [f"{PAPER[n][3]:.2f}" if n in PAPER else "" for n in numbers["n"]],
        "Build (s)": [f"{value:.0f}" for value in numbers["build_s"]],
        "Threads": [f"{value:.0f}" for value in numbers["threads"]],
        "Index (GB)": [f"{value / 1e9:.2f}" for value in numbers["bytes"]],
        "Process (GB)": [f"{value / 1e9:.2f}" for value in numbers["resident"]],
    }
    caption = (
        "Cost of the two searches: milliseconds per query, asked for one at a time (median) and in a batch of 1,000; "
        "time to build; memory. Exact search for one query is timed where all rows may be held at once."
    )
    return Table("table_scale_costs", caption, numbers, pd.DataFrame(text))


def decline(found, settings):
    """Recall and accuracies against the number of entries, beside the paper's."""
    figure, panels = plt.subplots(1, len(settings), figsize=(WIDTH, 3.3), sharey=True, squeeze=False)
    lines = {
        "recall": ("recall@5", PALETTE["blue"], "-", "o"),
        "exact_acc": ("exact, vote", PALETTE["black"], "-", "s"),
        "hnsw_acc": ("HNSW, vote", PALETTE["vermilion"], "-", "D"),
        "hnsw_acc_k1": ("HNSW, k = 1", PALETTE["orange"], "--", "^"),
    }
    for axes, (classes, noise) in zip(panels[0], settings):
        cell = _scales(found, [(classes, noise)]).groupby("n")
        for name, (label, colour, line, marker) in lines.items():
            mean = cell[name].mean()
            axes.errorbar(
                mean.index, mean, cell[name].std(ddof=0), color=colour, linestyle=line, marker=marker, label=label
            )
        for place, (label, colour) in enumerate(
            {"paper: recall@5": PALETTE["blue"], "paper: HNSW": PALETTE["vermilion"]}.items()
        ):
            values = [paper[2 * place] for paper in PAPER.values()]
            axes.plot(list(PAPER), values, color=colour, linestyle=":", marker="x", linewidth=1, label=label)
        axes.set(xscale="log", xlabel="entries", title=f"{classes} classes, noise {noise:g}", ylim=(-0.04, 1.04))
    panels[0][0].set_ylabel("accuracy, or recall@5")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def noise_map(found):
    """Exact accuracy, recall and what HNSW loses (or gains), over noise, classes and entries per class, on one seed."""
    cells = found[found["seed"] == 0].assign(
        each=found["n"] // found["classes"], lost=100 * (found["exact_acc"] - found["hnsw_acc"])
    )
    shown = {"exact_acc": ("exact accuracy", "viridis", (0, 1)), "recall": ("recall@5", "viridis", (0, 1))}
    shown["lost"] = ("lost by HNSW (pp)", "vlag", (-25, 25))
    lines = cells.groupby("classes")["each"].nunique()
    size, heights = (WIDTH, 0.22 * lines.sum() + 0.35 * len(lines) + 0.8), {"height_ratios": lines}
    figure, panels = plt.subplots(len(lines), len(shown), figsize=size, sharex=True, squeeze=False, gridspec_kw=heights)
    for row, classes in zip(panels, lines.index):
        for axes, (name, (_, colours, (low, high))) in zip(row, shown.items()):
            square = cells[cells["classes"] == classes].pivot_table(index="each", columns="noise", values=name)
            square = square.reindex(columns=sorted(cells["noise"].unique())).sort_index(ascending=False)
            square = square.round(1 if name == "lost" else 2) + 0.0  # no minus zero
            square.index = [f"{each:,}" for each in square.index]
            looks = dict(cmap=colours, vmin=low, vmax=high, annot_kws={"fontsize": 7})
            sns.heatmap(square, ax=axes, annot=True, fmt=".1f" if name == "lost" else ".2f", cbar=False, **looks)
            axes.grid(False)
            axes.set(xlabel="", ylabel="", yticks=[] if axes is not row[0] else axes.get_yticks())
            axes.tick_params(labelsize=7.5, length=0, rotation=0)
        row[0].set_title(f"{classes:,} classes", loc="left", fontsize=8)
    for column, (title, _, (low, high)) in zip(panels.T, shown.values()):
        column[-1].set_xlabel("noise")
        ends = dict(location="bottom", aspect=30, pad=0.02, ticks=[low, (low + high) / 2, high])
        bar = figure.colorbar(column[0].collections[0], ax=column, **ends)
        bar.set_label(title)
        bar.outline.set_visible(False)
    figure.supylabel("entries per class", fontsize="medium")
    return figure


def vote_or_distance(found):
    """Cells with the paper's pattern, low recall at high accuracy, with and without a vote."""
    rows = found[(found["recall"] <= 0.7) & (found["exact_acc"] >= 0.99)]
    columns = ["classes", "noise", "n", "recall", "exact_acc", "hnsw_acc", "exact_acc_k1", "hnsw_acc_k1"]
    numbers = rows.groupby(columns[:3])[columns[3:]].mean().reset_index().sort_values(columns[:3], ignore_index=True)
    text = {
        "Classes": numbers["classes"],
        "Noise": [f"{value:g}" for value in numbers["noise"]],
        "Entries per class": [f"{n // c:,}" for n, c in zip(numbers["n"], numbers["classes"])],
        "Recall@5": [f"{value:.3f}" for value in numbers["recall"]],
    }
    titles = {"Exact": "exact_acc", "HNSW": "hnsw_acc", "Exact, k = 1": "exact_acc_k1", "HNSW, k = 1": "hnsw_acc_k1"}
    text |= {title: [f"{value:.3f}" for value in numbers[name]] for title, name in titles.items()}
    caption = (
        "All settings in which exact search is right for at least 99 % of queries and HNSW misses at least 30 % of "
        "their neighbours: accuracy with the vote and with the nearest entry alone."
    )
    return Table("table_vote_or_distance", caption, numbers, pd.DataFrame(text))


def lost_by_classes(found, per_class=10_000):
    """The most that HNSW loses, in points, at one number of entries per class, where exact search is nearly right.

    The most of any noise; means over data seeds where there are several.
    """
    rows = found[(found["n"] == per_class * found["classes"]) & (found["exact_acc"] >= 0.99)]
    lost = 100 * (rows["exact_acc"] - rows["hnsw_acc"]).groupby([rows["classes"], rows["noise"]]).mean()
    return lost.groupby("classes").max().round(1) + 0.0  # no minus zero


def quoted(found, ledgers):
    """Values for the paper's prose."""
    low = vote_or_distance(found).numbers
    worst = (low if len(low) else found).sort_values("hnsw_acc").iloc[0]
    largest = found.sort_values("n", kind="stable").iloc[-1]
    values = {
        "largest": int(largest["n"]),
        "largest_recall": largest["recall"],
        "largest_exact": largest["exact_acc"],
        "low": len(low),
        "low_kept": int((low["hnsw_acc"] >= 0.99).sum()),
        "worst": worst["hnsw_acc"],
        "worst_k1": worst["hnsw_acc_k1"],
        "worst_entries": int(worst["n"]),
        "gained": Value(100 * (found["hnsw_acc"] - found["exact_acc"]).max(), digits=1, unit="pp"),
    }
    for classes, lost in lost_by_classes(found).reindex([2, 10, 100]).fillna(0).items():
        values[f"lost_{classes}"] = Value(lost, digits=1, unit="pp")
    for name, cell in ledgers[ledgers["ef"] == ledgers["ef"].min()].groupby("dataset"):
        lost = 100 * (cell["exact_acc"] - cell["hnsw_acc"]).mean()
        values[f"lost_{name}"] = Value(lost, digits=1, unit="pp")
    return {f"scale.{name}": value for name, value in values.items()}


def lines(found, ledgers):
    """What the tables say, in sentences."""
    low = vote_or_distance(found).numbers
    kept = low[low["hnsw_acc"] >= 0.99]
    gained = (100 * (low["hnsw_acc"] - low["hnsw_acc_k1"])).round(1) + 0.0  # no minus zero
    yield f"{len(low)} settings have recall <= 0.7 where exact search is right for 99 % or more"
    yield f"in {len(kept)} of them HNSW is right for 99 % or more, too: the paper's pattern"
    if len(low):
        worst = low.loc[low["hnsw_acc"].idxmin()]
        yield (
            f"it is least right, {worst['hnsw_acc']:.3f}, for {worst['n']:,.0f} entries of {worst['classes']:.0f} "
            f"classes with noise {worst['noise']:g} (recall {worst['recall']:.3f})"
        )
        yield f"the vote adds {gained.min():+.1f} to {gained.max():+.1f} pp to the nearest entry's answer there"
    for classes, lost in lost_by_classes(found).items():
        yield f"with 10,000 entries of each of {classes} classes HNSW loses up to {lost:.1f} pp of accuracy"
    more = found["hnsw_acc"] - found["exact_acc"]
    best = found.loc[more.idxmax()]
    yield (
        f"HNSW is right more often than exact search by up to {100 * more.max():.1f} pp ({best['n']:,.0f} entries of "
        f"{best['classes']:.0f} classes with noise {best['noise']:g})"
    )
    for name, cell in ledgers.groupby("dataset", sort=False):
        least = cell[cell["ef"] == cell["ef"].min()]
        lost = 100 * (least["exact_acc"] - least["hnsw_acc"]).mean()
        yield (
            f"{DATASETS[name].title}: with ef = {least['ef'].iloc[0]} recall is {least['recall'].mean():.3f} "
            f"and {lost:.1f} pp of accuracy are lost"
        )
