"""Tables of the paper that take more than a notebook cell, and the columns that tables share."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ocrrlib.experiments import SUBSTRATE
from ocrrlib.files import write_text
from ocrrlib.metrics import LEVELS, summarise
from paper.style import POLICY_TITLES, title_of

BY = ["classes", "noise", "n"]  # setting of synthetic data, and number of entries
FOUND = ["exact_acc", "hnsw_acc", "exact_acc_k1", "hnsw_acc_k1", "recall", "agreement"]
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)  # entries in the original's table, section 6.5


@dataclass(frozen=True)
class Table:
    """A table twice: ``numbers`` for machines, ``text`` for readers."""

    name: str
    caption: str
    numbers: pd.DataFrame
    text: pd.DataFrame

    def write(self, folder: Path) -> "Table":
        """Write ``<name>.csv``, ``.md`` and ``.tex`` into ``folder``; the table."""
        csv = self.numbers.to_csv(index=False, lineterminator="\n")
        write_text(folder / f"{self.name}.csv", csv)
        markdown = self.text.to_markdown(index=False, disable_numparse=True)
        write_text(folder / f"{self.name}.md", f"{markdown}\n\n: {self.caption}\n")
        latex = self.text.to_latex(
            index=False,
            escape=True,
            caption=self.caption.replace("%", r"\%").replace("_", r"\_"),
            label=f"tab:{self.name}",
            position="htbp",
        )
        latex = latex.replace("±", r"$\pm$").replace("→", r"$\to$")
        write_text(folder / f"{self.name}.tex", latex)
        return self


def shown(values: Iterable[float], form: str, missing: str = "") -> list[str]:
    """Numbers in a format such as ``.3f``; ``missing`` where there is none."""
    return [missing if pd.isna(value) else format(value, form) for value in values]


def spread(mean: Iterable[float], std: Iterable[float]) -> list[str]:
    """``mean ± std`` of each row; the mean alone without a spread, a dash without a mean."""
    text = []
    for m, s in zip(mean, std):
        if pd.isna(m):
            text.append("–")
        elif pd.isna(s):
            text.append(f"{m:.3f}")
        else:
            text.append(f"{m:.3f} ± {s:.3f}")
    return text


def reached(summary: pd.DataFrame, level: int) -> list[str]:
    """Corrections to ``level`` %: the mean over the seeds that reach it; how many, if not all."""
    text = []
    rows = zip(summary[f"to_{level}"], summary[f"to_{level}_reached"], summary["seeds"])
    for mean, n, seeds in rows:
        if not n:
            text.append("never")
        elif n < seeds:
            text.append(f"{mean:.0f} ({n}/{seeds})")
        else:
            text.append(f"{mean:.0f}")
    return text


def titles(summary: pd.DataFrame) -> dict[str, pd.Series]:
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


def accuracies(summary: pd.DataFrame) -> dict[str, list[str]]:
    """Columns of final accuracies, mean ± SD over seeds."""
    return {
        f"Final {axis}": spread(summary[axis], summary[f"{axis}_std"])
        for axis in ("novel", "original")
    }


def levels(summary: pd.DataFrame) -> dict[str, list[str]]:
    """Columns of corrections to each level."""
    return {f"→{level} %": reached(summary, level) for level in LEVELS}


def count(n: int) -> str:
    """10000 as 10k, 1000000 as 1M."""
    if n >= 10**6:
        return f"{n // 10**6}M"
    return f"{n // 1000}k" if n >= 1000 else str(n)


def duration(us: float) -> str:
    """Microseconds in a unit that fits."""
    if us < 100:
        return f"{us:.1f} µs"
    return f"{us:.0f} µs" if us < 1e3 else f"{us / 1e3:.1f} ms"


def durations(rows: pd.DataFrame, action: str) -> list[str]:
    """Medians of an action's times with their 5-95 %."""
    parts = zip(*(rows[f"{action}_{part}"].map(duration) for part in ("median", "low", "high")))
    return [f"{median} ({low}-{high})" for median, low, high in parts]


def headline(experiments: dict[str, pd.DataFrame]) -> Table:
    """Table 1: Banking77, oracle; each row names its experiment.

    ``experiments``: checkpoints by title.
    """
    summaries = []
    for title, runs in experiments.items():
        cell = runs.query("dataset == 'banking77' and policy == 'oracle'")
        summaries.append(summarise(cell, ddof=1).assign(experiment=title))
    summary = pd.concat(summaries, ignore_index=True)
    text = {
        "System": summary["system"],
        "Experiment": summary["experiment"],
        "Entries": shown(summary["stored_entries"], ".0f"),
        "MB": shown(summary["storage_bytes"] / 1e6, ".2f"),
    }
    text |= accuracies(summary) | levels(summary)
    caption = (
        "Banking77, oracle policy: final accuracies (mean ± sample SD over seeds), what is stored "
        "at the end, and corrections until N % novel accuracy is first seen (mean over the seeds "
        "that reach it; how many, if not all). The full sweep draws test rows and stream order "
        "differently from the others, so a system may have two rows."
    )
    return Table("table1_headline", caption, summary, pd.DataFrame(text))


def at_scales(rows: pd.DataFrame, settings: Iterable[tuple[int, float]]) -> pd.DataFrame:
    """Rows of some settings at the original's numbers of entries.

    All rows of these settings where none has one of these numbers.
    """
    rows = rows[rows.set_index(BY[:2]).index.isin(settings)]
    at = rows["n"].isin(SIZES)
    return rows[at] if at.any() else rows


def cost_medians(costs: pd.DataFrame, settings: Iterable[tuple[int, float]]) -> pd.DataFrame:
    """Costs of searches by setting and number of entries, medians over data seeds."""
    costs = at_scales(costs, settings).drop(columns=["seed", "queries", "ef", "in_turn"])
    return costs.groupby(BY).median(numeric_only=True)


def by_setting(numbers: pd.DataFrame) -> tuple[pd.DataFrame, dict]:
    """Numbers in the order of settings, most classes first, and the columns that name them."""
    numbers = numbers.reset_index().sort_values(
        ["classes", "n"], ascending=[False, True], ignore_index=True
    )
    settings = zip(numbers["classes"], numbers["noise"])
    return numbers, {
        "Classes, noise": [f"{classes}, {noise:g}" for classes, noise in settings],
        "Entries": numbers["n"].map(count),
    }


def relative(costs: pd.DataFrame, *actions: str) -> pd.Series:
    """Median times as multiples of the substrate's in that run.

    By default those of a correction and a prediction together.
    """
    actions = actions or ("correct", "predict")
    times = sum(costs[f"{one}_median"] for one in actions)
    return times / sum(costs[f"{SUBSTRATE}_{one}"] for one in actions)
