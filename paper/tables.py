"""Tables of the paper that take more than a notebook cell, and the columns that tables share."""

from dataclasses import dataclass
from html import escape

import pandas as pd

from ocrrlib.files import write_text
from ocrrlib.metrics import LEVELS, summarise
from paper.style import POLICY_TITLES, title_of
from studies.costs import REFERENCE

BY = ["classes", "noise", "n"]  # setting of synthetic data, and number of entries
FOUND = ["exact_acc", "hnsw_acc", "exact_acc_k1", "hnsw_acc_k1", "recall", "agreement"]
# The original's table: entries -> recall@5, exact accuracy, accuracy with HNSW, ms per query
# (section 6.5).
PAPER_SCALE = {
    10_000: (0.692, 1.0, 1.0, 0.99),
    100_000: (0.542, 1.0, 1.0, 0.63),
    1_000_000: (0.390, 1.0, 0.99, 0.78),
    10_000_000: (0.226, 1.0, 0.99, 0.89),
}


@dataclass(frozen=True)
class Table:
    """A table twice: ``numbers`` for machines, ``text`` for readers."""

    name: str
    caption: str
    numbers: pd.DataFrame
    text: pd.DataFrame

    def write(self, folder):
        """Write ``<name>.csv``, ``.md`` and ``.tex`` into ``folder``; return the table, for display."""
        write_text(
            folder / f"{self.name}.csv", self.numbers.to_csv(index=False, lineterminator="\n")
        )
        markdown = self.text.to_markdown(index=False, disable_numparse=True)
        write_text(folder / f"{self.name}.md", f"{markdown}\n\n: {self.caption}\n")
        latex = self.text.to_latex(
            index=False,
            escape=True,
            caption=self.caption.replace("%", r"\%").replace("_", r"\_"),
            label=f"tab:{self.name}",
            position="htbp",
        )
        write_text(folder / f"{self.name}.tex", latex.replace("±", r"$\pm$").replace("→", r"$\to$"))
        return self

    def _repr_html_(self):
        return f"{self.text.to_html(index=False, border=0)}<p><em>{escape(self.caption)}</em></p>"


def shown(values, form, missing=""):
    """Numbers in a format such as ``.3f``; ``missing`` where there is none."""
    return [missing if pd.isna(value) else format(value, form) for value in values]


def spread(mean, std):
    """``mean ± std``, one of each per row; the mean alone where there is no spread, a dash where there is none."""
    return ["–" if m != m else f"{m:.3f}" + f" ± {s:.3f}" * (s == s) for m, s in zip(mean, std)]


def reached(summary, level):
    """Corrections to ``level`` %: the mean over the seeds that reach it, and how many if not all."""
    rows = zip(summary[f"to_{level}"], summary[f"to_{level}_reached"], summary["seeds"])
    return [
        f"{mean:.0f}" + f" ({n}/{seeds})" * (n < seeds) if n else "never" for mean, n, seeds in rows
    ]


def titles(summary):
    """Columns that name a dataset, a policy and a system, as far as the summary has them."""
    known = {
        "dataset": title_of,
        "policy": lambda name: POLICY_TITLES.get(name, name),
        "system": str,
    }
    return {
        name.capitalize(): summary[name].map(title)
        for name, title in known.items()
        if name in summary
    }


def accuracies(summary):
    """Columns of final accuracies, mean ± SD over seeds."""
    return {
        f"Final {axis}": spread(summary[axis], summary[f"{axis}_std"])
        for axis in ("novel", "original")
    }


def levels(summary):
    """Columns of corrections to each level."""
    return {f"→{level} %": reached(summary, level) for level in LEVELS}


def count(n):
    """10000 as 10k, 1000000 as 1M."""
    return f"{n // 10**6}M" if n >= 10**6 else f"{n // 1000}k" if n >= 1000 else str(n)


def duration(us):
    """Microseconds in a unit that fits."""
    return f"{us:.1f} µs" if us < 100 else f"{us:.0f} µs" if us < 1e3 else f"{us / 1e3:.1f} ms"


def durations(rows, action):
    """Medians of an action's times with their 5-95 %."""
    parts = zip(*(rows[f"{action}_{part}"].map(duration) for part in ("median", "low", "high")))
    return [f"{median} ({low}-{high})" for median, low, high in parts]


def headline(experiments):
    """Table 1: Banking77, oracle; each row names its experiment. ``experiments``: checkpoints by title."""
    cells = {
        title: runs.query("dataset == 'banking77' and policy == 'oracle'")
        for title, runs in experiments.items()
    }
    summary = pd.concat(
        [summarise(cell).assign(experiment=title) for title, cell in cells.items()],
        ignore_index=True,
    )
    text = {
        "System": summary["system"],
        "Experiment": summary["experiment"],
        "Entries": shown(summary["stored_entries"], ".0f"),
        "MB": shown(summary["storage_bytes"] / 1e6, ".2f"),
    }
    text |= accuracies(summary) | levels(summary)
    caption = (
        "Banking77, oracle policy: final accuracies (mean ± SD over seeds), what is stored at the end, and corrections "
        "until N % novel accuracy is first seen (mean over the seeds that reach it; how many, if not all). The full "
        "sweep draws test rows and stream order differently from the others, so a system may have two rows."
    )
    return Table("table1_headline", caption, summary, pd.DataFrame(text))


def at_scales(rows, settings):
    """Rows of some settings at the original's numbers of entries; all of them where none is one of these."""
    rows = rows[rows.set_index(BY[:2]).index.isin(settings)]
    return rows[rows["n"].isin(PAPER_SCALE)] if rows["n"].isin(PAPER_SCALE).any() else rows


def cost_medians(costs, settings):
    """Costs of searches by setting and number of entries, medians over data seeds."""
    costs = at_scales(costs, settings).drop(columns=["seed", "queries", "ef", "in_turn"])
    return costs.groupby(BY).median(numeric_only=True)


def by_setting(numbers):
    """Numbers in the order of settings, most classes first, and the columns that name a setting and its size."""
    numbers = numbers.reset_index().sort_values(
        ["classes", "n"], ascending=[False, True], ignore_index=True
    )
    pairs = zip(numbers["classes"], numbers["noise"])
    return numbers, {
        "Classes, noise": [f"{c}, {z:g}" for c, z in pairs],
        "Entries": numbers["n"].map(count),
    }


def relative(costs, *actions):
    """Median times of a correction and a prediction, or of one of them, as multiples of the substrate's in that run."""
    actions = actions or ("correct", "predict")
    return sum(costs[f"{one}_median"] for one in actions) / sum(
        costs[f"{REFERENCE}_{one}"] for one in actions
    )
