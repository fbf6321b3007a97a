"""A table as it is published, and the columns that many of them have."""

from dataclasses import dataclass

import pandas as pd

from ocrrlib.files import write_text
from ocrrlib.metrics import LEVELS
from ocrrlib.report.style import POLICY_TITLES, title_of


@dataclass(frozen=True)
class Table:
    """A table twice: ``numbers`` for machines, ``text`` for readers."""

    name: str
    caption: str
    numbers: pd.DataFrame
    text: pd.DataFrame

    def write(self, folder):
        """Write ``<name>.csv``, ``.md`` and ``.tex`` into ``folder``; returns the table, to be shown."""
        write_text(folder / f"{self.name}.csv", self.numbers.to_csv(index=False, lineterminator="\n"))
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

    def _repr_markdown_(self):
        return self.text.to_markdown(index=False, disable_numparse=True) + f"\n\n*{self.caption}*"


def spread(mean, std):
    """``mean ± std``, one of each per row; the mean alone where there is no spread."""
    return [f"{m:.3f}" + f" ± {s:.3f}" * (s == s) for m, s in zip(mean, std)]


def reached(summary, level):
    """Corrections to ``level`` %: the mean over the seeds that got there, and how many if not all."""
    cells = []
    for row in summary.to_dict("records"):
        mean, count, seeds = row[f"to_{level}"], row[f"to_{level}_reached"], row["seeds"]
        cells.append("never" if not count else f"{mean:.0f}" + (f" ({count}/{seeds})" if count < seeds else ""))
    return cells


def titles(summary):
    """Columns that name a cell, as readers know them; those that are there."""
    known = {"dataset": title_of, "policy": lambda name: POLICY_TITLES.get(name, name), "system": str}
    return {name.capitalize(): summary[name].map(told) for name, told in known.items() if name in summary}


def accuracies(summary):
    """Where systems end: means over seeds, and their spread."""
    return {
        "Final novel": spread(summary["novel"], summary["novel_std"]),
        "Final original": spread(summary["original"], summary["original_std"]),
    }


def levels(summary):
    """Corrections to each level, one column each."""
    return {f"→{level} %": reached(summary, level) for level in LEVELS}


def megabytes(nbytes):
    """Bytes as megabytes."""
    return [f"{value / 1e6:.2f}" for value in nbytes]
