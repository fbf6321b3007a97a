"""Rank published and contributed systems: figures/leaderboard.csv and figures/leaderboard.md."""

import sys
from pathlib import Path

import pandas as pd

from ocrrlib.embeddings import load
from ocrrlib.files import ROOT, InputError, check_name, write_text
from ocrrlib.own.evaluation import (
    CELL,
    COLUMNS,
    DROP,
    FLOOR,
    METRICS,
    PUBLISHED,
    published_runs,
    ranking,
)
from ocrrlib.stream import EVERY
from paper.style import cell_title

CONTRIBUTED = ROOT / "data/results/leaderboard"
NAMES = ["system", "source", "version", "date", *CELL[:4]]
NUMBERS = ["held_out", "every", "seed", *METRICS]
CAPTION = (
    "Published and contributed systems, best first by *anytime novel*: novel accuracy, averaged "
    "over the stream. *Novel* and *original* are the accuracies at its end, *ausuc* is the area "
    "under the curve of both. Means over seeds ± half the width of the 95 % t interval. Systems "
    "that have *collapsed* come after all others, whatever they learnt: their original accuracy is "
    f"more than {100 * DROP:.0f} points below that of {FLOOR}, which learns nothing from the "
    "stream."
)


def contributed(path: Path) -> pd.DataFrame:
    """Rows of a contributed system, as ``Evaluation.to_csv`` writes them.

    Raises ``InputError`` if they are not such.
    """
    try:
        rows = pd.read_csv(path, dtype=dict.fromkeys(NAMES, str))[COLUMNS]
        rows = rows.astype(dict.fromkeys(METRICS, float))
        for value in pd.unique(rows[NAMES].to_numpy().ravel()):
            check_name("name", value)
        _check_numbers(rows)
        if rows.duplicated([*CELL, "system", "seed"]).any() or (rows["source"] == PUBLISHED).any():
            raise ValueError(f"a seed is there twice, or the source is {PUBLISHED!r}")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: {error}: write it with Evaluation.to_csv") from error
    return rows


def _check_numbers(rows):
    numbers = rows[NUMBERS].fillna({"ausuc": 0})  # a system without probabilities has none
    negative = not numbers.ge(0).all(axis=None)
    above_one = rows[METRICS[:-1]].gt(1).any(axis=None)
    if rows.empty or negative or above_one:
        raise ValueError("there are no rows, negative numbers or accuracies above 1")


def leaderboard(folder: Path = CONTRIBUTED) -> pd.DataFrame:
    """One row per cell and system: the cell, ``rank``, then as ``ranking``.

    Equals have equal ranks.
    """
    published = published_runs().copy()
    # As contributed rows are.
    published[METRICS] = published[METRICS].map(lambda value: round(value, 6))
    datasets = published[["dataset", "encoder"]].drop_duplicates().itertuples(index=False)
    prints = {dataset: load(dataset, encoder).fingerprint for dataset, encoder in datasets}
    runs = [published.assign(fingerprint=published["dataset"].map(prints))]
    runs = pd.concat(runs + [contributed(path) for path in sorted(folder.glob("[!.]*.csv"))])
    blocks = []
    for place, own in runs.groupby(CELL, sort=False):
        block = ranking(own)
        score = block["anytime novel"] - 2 * block["collapsed"]
        ranks = score.rank(ascending=False, method="min").astype(int)
        cell = block.assign(**dict(zip(CELL, place)), draw="fresh", cap="", rank=ranks)
        blocks.append(cell[[*CELL[:5], "draw", "cap", CELL[5], "rank", *block]])
    return pd.concat(blocks, ignore_index=True)


def markdown(table: pd.DataFrame) -> str:
    """The same for readers: a heading and a table for each cell."""
    blocks = [f"# Leaderboard\n\n{CAPTION}"]
    for (dataset, _, encoder, policy, held_out, every), block in table.groupby(CELL, sort=False):
        often = "" if every == EVERY else f" every {every} stream items"
        heading = f"## {cell_title(dataset, policy)}\n\n"
        heading += f"{encoder}, {held_out} classes held out, all test rows{often}"
        text = {"Rank": block["rank"], "System": block["system"]}
        text |= {name: _half(block, name) for name in METRICS[:2]}
        text["Collapsed"] = block["collapsed"].map({True: "collapsed", False: ""})
        text |= {name: _half(block, name) for name in METRICS[2:-1] if name in block}
        text["corrections"] = block["corrections"].map("{:.0f}".format)
        text |= {"Seeds": block["seeds"], "Source": block["source"]}
        text = pd.DataFrame(text).rename(columns=str.capitalize)
        blocks.append(f"{heading}\n\n{text.to_markdown(index=False, disable_numparse=True)}")
    return "\n\n".join(blocks) + "\n"


def _half(block, name):
    """Mean ± half the interval; the mean alone for one seed."""
    halves = (block[f"{name} high"] - block[f"{name} low"]) / 2
    means = ["–" if pd.isna(mean) else f"{mean:.3f}" for mean in block[name]]
    return [mean + ("" if pd.isna(half) else f" ± {half:.3f}") for mean, half in zip(means, halves)]


def main(folder: Path = CONTRIBUTED, target: Path = ROOT / "figures") -> None:
    """Write both files."""
    table = leaderboard(folder)
    write_text(target / "leaderboard.csv", table.round(6).to_csv(index=False, lineterminator="\n"))
    write_text(target / "leaderboard.md", markdown(table))
    print(f"{len(table)} rows: {target / 'leaderboard.csv'}, {target / 'leaderboard.md'}")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"error: {error}")
