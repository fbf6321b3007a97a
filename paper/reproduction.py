"""The original's tables and figures, row by row: printed, released, ours, and a verdict on each.

A verdict is about a row's distance from the first row of its group, the reference, never about
levels: the original's encoder is another.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf, isnan, log2, nan

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from paper.style import Value
from paper.tables import Table, duration

SOURCES = ("printed", "released", "ours")
ACCURACIES = ("novel", "original")
# "as far": the distance from the reference, a difference or, of counts and times, the binary
# logarithm of a ratio, is the printed one within this; "same side": its sign is; else "other side".
WITHIN = {"difference": 0.02, "ratio": 1.0}
VERDICTS = ("as far", "same side", "other side")


@dataclass(frozen=True)
class Measure:
    """A column of the original's: its title, how its values are shown, and its last digit."""

    title: str
    show: Callable[[float], str] = "{:.3f}".format
    scale: str = "difference"
    digit: float = 0.00051  # the release may be off by so much; NaN: it is not asked

    @property
    def words(self) -> str:
        """The title within a sentence."""
        return self.title if self.title.isupper() else self.title.lower()


def _count(value):
    return "never" if value == inf else f"{value:,.0f}"


MEASURES = {
    "start_original": Measure("Original at the start"),
    "novel": Measure("Novel"),
    "original": Measure("Original"),
    "lead": Measure("Lead on novel", digit=0.0011),  # a difference of two printed numbers
    "to_10": Measure("→10 %", _count, "ratio", 1),  # the original truncates some
    "to_70": Measure("→70 %", _count, "ratio", 1),
    "corrections": Measure("Corrections", _count, "ratio", 1),
    "us": Measure("One correction", duration, "ratio", nan),
    "exact_acc": Measure("Exact"),
    "hnsw_acc": Measure("HNSW"),
    "recall": Measure("Recall@5"),
    "agreement": Measure("Agreement"),
}


@dataclass(frozen=True)
class Row:
    """A row of the original: numbers by measure from each source; None is a level never reached."""

    labels: dict[str, str]
    ours: Mapping[str, float | None]
    printed: Mapping[str, float | None] = field(default_factory=dict)
    released: Mapping[str, float | None] = field(default_factory=dict)
    group: str = ""


def _number(values, name):
    """A number, infinite where a level is never reached, NaN where it is not said."""
    value = values.get(name, nan)
    return inf if value is None else float(value)


def frame(rows: Iterable[Row], measures: Iterable[str]) -> pd.DataFrame:
    """Labels, group and ``<measure>_<source>`` of rows, with ``_std``; NaN where it is not said."""
    found = []
    for row in rows:
        numbers = {}
        for measure in measures:
            for source in SOURCES:
                values = getattr(row, source)
                numbers[f"{measure}_{source}"] = _number(values, measure)
                numbers[f"{measure}_{source}_std"] = _number(values, f"{measure}_std")
        found.append(row.labels | {"group": row.group} | numbers)
    return pd.DataFrame(found)


def distance(value: float, reference: float, scale: str) -> float:
    """How far a number is from the reference: a difference, or the logarithm of a ratio."""
    if scale == "difference":
        return value - reference
    return log2(value) - log2(reference)


def word(theirs: float, ours: float, scale: str) -> str:
    """The verdict on one distance of ours, beside the original's."""
    if theirs == ours or abs(theirs - ours) <= WITHIN[scale] + 1e-9:
        return VERDICTS[0]
    return VERDICTS[1] if np.sign(theirs) == np.sign(ours) else VERDICTS[2]


def verdict(row: pd.Series, first: pd.Series, measures: Iterable[str]) -> str:
    """The verdict on a row that is not the ``first``, the reference, over all measures.

    It is asked of what is printed, where nothing is of what is released. If verdicts on measures
    differ, the worst is told, and of which measures it is.
    """
    words: dict[str, list[str]] = {}
    for measure in measures:
        scale = MEASURES[measure].scale
        names = [f"{measure}_{source}" for source in SOURCES]
        printed, released, ours = (distance(row[name], first[name], scale) for name in names)
        theirs = released if isnan(printed) else printed
        if not isnan(theirs) and not isnan(ours):
            words.setdefault(word(theirs, ours, scale), []).append(MEASURES[measure].words)
    if not words:
        return "–"
    worst = max(words, key=VERDICTS.index)
    return worst if len(words) == 1 else f"{worst} ({', '.join(words[worst])})"


def order(numbers: pd.DataFrame, measure: str) -> str:
    """Kendall's tau between the original's order of the rows and ours, by group."""
    told = []
    for _, group in numbers.groupby("group", sort=False):
        theirs = group[f"{measure}_printed"].fillna(group[f"{measure}_released"])
        tau = kendalltau(theirs, group[f"{measure}_ours"], nan_policy="omit").statistic
        told.append("same order" if tau > 0.9999 else "–" if isnan(tau) else Value(tau, 2).text)
    return " and ".join(dict.fromkeys(told))


def agreement(numbers: pd.DataFrame, measures: Iterable[str]) -> tuple[int, int]:
    """How many printed numbers the release gives, to the last digit, and of how many.

    Only of measures that have one.
    """
    same = n = 0
    for measure in measures:
        pairs = numbers[[f"{measure}_printed", f"{measure}_released"]].dropna().to_numpy()
        digit = MEASURES[measure].digit
        if not isnan(digit):
            same += sum(a == b or abs(a - b) < digit for a, b in pairs)
            n += len(pairs)
    return same, n


def compare(
    name: str, rows: Iterable[Row], measures: Iterable[str], title: str, about: str
) -> Table:
    """The table of some rows. ``about`` says whose encoder, seeds and test rows they are."""
    rows = list(rows)
    measures = list(measures)
    numbers = frame(rows, measures)
    firsts = numbers.drop_duplicates("group").set_index("group", drop=False)
    numbers["verdict"] = [
        "reference" if new else verdict(row, firsts.loc[row["group"]], measures)
        for new, (_, row) in zip(~numbers["group"].duplicated(), numbers.iterrows())
    ]
    text = {label: numbers[label] for label in rows[0].labels} | {"Verdict": numbers["verdict"]}
    for measure in measures:
        for source in SOURCES:
            column = f"{measure}_{source}"
            if numbers[column].notna().any():
                head = f"{MEASURES[measure].title}: {source}"
                text[head] = [_shown(row, measure, source) for _, row in numbers.iterrows()]
    orders = [f"{MEASURES[one].words} {order(numbers, one)}" for one in measures]
    told = "; ".join(one for one in orders if not one.endswith("–"))
    same, n = agreement(numbers, measures)
    caption = " ".join(filter(None, (title, about, f"Kendall's tau of the rows: {told}.")))
    if n:
        caption += f" The release gives {same} of {n} printed numbers to the last digit."
    kept = numbers.drop(columns="group").dropna(axis="columns", how="all")
    return Table(f"table_reproduction_{name}", caption, kept, pd.DataFrame(text))


def _shown(row, measure, source):
    """A number as text, with its standard deviation; those of the release are the printed ones."""
    value = row[f"{measure}_{source}"]
    if isnan(value):
        return "–"
    shown = MEASURES[measure].show(value)
    spread = row[f"{measure}_{source}_std"]
    return shown if isnan(spread) or source == "released" else f"{shown} ± {spread:.3f}"
