"""Section 6.5: the indexes beside one another."""

import matplotlib.pyplot as plt
import pandas as pd

from ocrrlib.report.scale import count
from ocrrlib.report.style import PALETTE, WIDTH
from ocrrlib.report.table import Table

RACERS = {
    "exact": ("black", "P"),
    "faiss_flat": ("grey", "X"),
    "hnswlib": ("vermilion", "o"),
    "faiss_hnsw": ("blue", "s"),
    "usearch": ("green", "D"),
    "faiss_ivf": ("orange", "^"),
}


def race(rows):
    """Recall against queries a second on one thread, for every index; up and to the right is better."""
    sizes = sorted(rows["n"].unique())
    figure, panels = plt.subplots(1, len(sizes), figsize=(WIDTH, 3.5), sharey=True, squeeze=False)
    for axes, n in zip(panels[0], sizes):
        for name, (colour, marker) in RACERS.items():
            one = rows[(rows["n"] == n) & (rows["index"] == name)].sort_values("recall")
            axes.plot(one["recall"], one["qps"], color=PALETTE[colour], marker=marker, markersize=4, label=name)
        axes.set(yscale="log", xlabel="recall@5", title=f"{n:,} entries")
    panels[0][0].set_ylabel("queries a second, one thread")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def equal_recall(rows, target=0.9):
    """The fastest setting of every index that reaches a recall."""
    reached = rows[rows["recall"] >= target].sort_values("qps", ascending=False)
    best = reached.drop_duplicates(["n", "index"]).set_index(["n", "index"])
    places = [(n, name) for n in sorted(rows["n"].unique()) for name in RACERS if name in set(rows["index"])]
    whole = rows.drop_duplicates(["n", "index"]).set_index(["n", "index"])
    numbers = best.reindex(places).drop(columns="made_by", errors="ignore")
    numbers[["build_s", "bytes"]] = whole.reindex(places)[["build_s", "bytes"]]
    numbers = numbers.reset_index(names=["n", "index"])
    missed = numbers["qps"].isna()
    text = {
        "Entries": map(count, numbers["n"]),
        "Index": numbers["index"],
        "Effort": ["" if pd.isna(value) else f"{value:.0f}" for value in numbers["effort"]],
        "Recall@5": ["not reached" if m else f"{v:.3f}" for v, m in zip(numbers["recall"], missed)],
        "Queries a second": ["" if m else f"{v:,.0f}" for v, m in zip(numbers["qps"], missed)],
        "Build (s)": [f"{value:.1f}" for value in numbers["build_s"]],
        "Index (GB)": [f"{value / 1e9:.2f}" for value in numbers["bytes"]],
    }
    caption = (
        f"All indexes on the same data and one thread: the fastest setting with a recall@5 of at least {target:g} "
        "(batch of 1,000 queries), and what a build takes."
    )
    return Table("table_race", caption, numbers, pd.DataFrame(text))
