"""Section 6.5: approximate search on real ledgers, after a stream."""

import matplotlib.pyplot as plt
import pandas as pd

from ocrrlib.datasets import DATASETS
from ocrrlib.report.scale import FOUND
from ocrrlib.report.style import PALETTE, WIDTH
from ocrrlib.report.table import Table


def efforts(ledgers):
    """Recall and accuracies against ``ef`` on ledgers after a stream, in the mean over seeds."""
    names = list(dict.fromkeys(ledgers["dataset"]))
    figure, panels = plt.subplots(2, len(names), figsize=(WIDTH, 4.4), sharex=True, squeeze=False)
    for (above, below), name in zip(panels.T, names):
        mean = ledgers[ledgers["dataset"] == name].groupby("ef").mean(numeric_only=True)
        above.plot(mean["recall"], color=PALETTE["blue"], marker="o", label="recall@5")
        below.plot(mean["exact_acc"], color=PALETTE["black"], label="exact, vote")
        below.plot(mean["exact_acc_k1"], color=PALETTE["grey"], linestyle="--", label="exact, k = 1")
        below.plot(mean["hnsw_acc"], color=PALETTE["vermilion"], marker="D", label="HNSW, vote")
        below.plot(mean["hnsw_acc_k1"], color=PALETTE["orange"], linestyle="--", marker="^", label="HNSW, k = 1")
        above.set_title(DATASETS[name].title)
        below.set_xscale("log", base=2)
        below.set_xlabel("search effort, ef")
    panels[0, 0].set_ylabel("recall@5")
    panels[1, 0].set_ylabel("accuracy")
    figure.legend(*panels[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def by_effort(ledgers):
    """The same as a table, in the mean over seeds."""
    numbers = ledgers.groupby(["dataset", "ef"], sort=False)[["entries", *FOUND]].mean().reset_index()
    text = {"Dataset": [DATASETS[name].title for name in numbers["dataset"]], "ef": numbers["ef"]}
    text["Entries"] = [f"{value:.0f}" for value in numbers["entries"]]
    titles = {"Exact": "exact_acc", "HNSW": "hnsw_acc", "Exact, k = 1": "exact_acc_k1", "HNSW, k = 1": "hnsw_acc_k1"}
    titles |= {"Recall@5": "recall", "Agreement": "agreement"}
    text |= {title: [f"{value:.4f}" for value in numbers[name]] for title, name in titles.items()}
    caption = (
        "HNSW on the substrate's ledger after a whole stream (oracle policy): accuracy over all test rows and recall, "
        "by search effort; mean over seeds."
    )
    return Table("table_ledger_search", caption, numbers, pd.DataFrame(text))
