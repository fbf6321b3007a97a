"""Rank published and contributed systems: figures/leaderboard.csv and figures/leaderboard.md."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from ocrr.evaluation import (
    CELL,
    COLUMNS,
    MEASURED,
    OPTIONAL,
    PUBLISHED,
    following,
    published_runs,
    ranking,
)
from ocrrlib.embeddings import load
from ocrrlib.files import ROOT, InputError, check_name, write_text
from ocrrlib.stream import EVERY
from paper.style import cell_title

CONTRIBUTED = ROOT / "data/results/leaderboard"
WHOLE = ["held_out", "every", "seed"]
NUMBERS = [*WHOLE, *MEASURED]
TEXT_COLUMNS = [name for name in COLUMNS if name not in NUMBERS]
MISSING = "–"
LEAST_SEEDS = 20  # of a system that is ranked, as many as of the published ones
CAPTION = (
    "Published and contributed systems, best first by *HM*, the harmonic mean of *novel* and "
    "*original*, the accuracies at the end of the stream: who forgets the known classes ranks as "
    "low as who learns no new one. *Best HM* is the highest on the curve of both, *AUSUC* the area "
    "under it. *Starts at* is original accuracy before the first correction, *lost* are the points "
    "from there to the end. A correction *holds* if its text, asked again *at once* or at the end, "
    "is answered as corrected. "
    "Means over seeds ± half the width of the 95 % t interval. Rows of fewer than "
    f"{LEAST_SEEDS} seeds come last, without a rank."
)


def contributed(path: Path) -> pd.DataFrame:
    """Rows of a contributed system, as ``Evaluation.to_csv`` writes them.

    Raises ``InputError`` if they are not such.
    """
    try:
        rows = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[""])
        absent = [name for name in OPTIONAL if name not in rows]  # in files of earlier versions
        rows = rows.assign(**dict.fromkeys(absent, np.nan))[COLUMNS]
        rows = rows.astype(dict.fromkeys(NUMBERS, float))
        for value in pd.unique(rows[TEXT_COLUMNS].to_numpy().ravel()):
            check_name("name", value)
        _check_numbers(rows)
        rows = rows.astype(dict.fromkeys(WHOLE, int))
        if rows.duplicated([*CELL, "system", "seed"]).any() or (rows["source"] == PUBLISHED).any():
            raise ValueError(f"a seed is there twice, or the source is {PUBLISHED!r}")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: {error}: write it with Evaluation.to_csv") from error
    return rows


def _check_numbers(rows):
    numbers = rows[NUMBERS].fillna(dict.fromkeys(OPTIONAL, 0))
    negative = not numbers.ge(0).all(axis=None)
    above_one = rows[MEASURED[:-1]].gt(1).any(axis=None)
    if rows.empty or negative or above_one:
        raise ValueError("there are no rows, negative numbers or accuracies above 1")
    if not (rows[WHOLE] % 1).eq(0).all(axis=None) or np.isinf(rows["corrections"]).any():
        raise ValueError(f"{', '.join(WHOLE)} are not whole, or corrections infinite")


def leaderboard(folder: Path = CONTRIBUTED) -> pd.DataFrame:
    """One row per cell and system: the cell, ``rank``, then as ``ranking``.

    Equals have equal ranks. Systems of fewer than ``LEAST_SEEDS`` seeds have none and come last.
    Raises ``InputError`` if a file has no such rows, two have one seed of one system, or rows of a
    published dataset are not of its data.
    """
    published = published_runs().copy()
    # As contributed rows are.
    published[MEASURED] = published[MEASURED].map(lambda value: round(value, 6))
    prints = published[["dataset", "encoder"]].drop_duplicates()
    prints["fingerprint"] = [load(*one).fingerprint for one in prints.itertuples(index=False)]
    paths = sorted(folder.glob("[!.]*.csv"))
    theirs = [contributed(path).assign(file=str(path)) for path in paths]
    _check_files(theirs, prints)
    runs = pd.concat([published.merge(prints), *theirs])
    blocks = []
    for place, own in following(runs).groupby(CELL, sort=False):
        block = ranking(own)
        enough = block["seeds"] >= LEAST_SEEDS
        ranks = block["hm"].where(enough).rank(ascending=False, method="min").astype("Int64")
        cell = block.assign(**dict(zip(CELL, place)), draw="fresh", cap="", rank=ranks)
        cell = cell[[*CELL[:5], "draw", "cap", CELL[5], "rank", *block]]
        blocks.append(cell.sort_values("rank", kind="stable", na_position="last"))
    return pd.concat(blocks, ignore_index=True)


def _check_files(files, prints):
    """``InputError`` for a seed that is in two files, or other data under a published name."""
    if not files:
        return
    rows = pd.concat(files)
    again = rows[rows.duplicated([*CELL, "system", "seed"], keep=False)]
    if not again.empty:
        first = again.iloc[0]
        names = " and ".join(again["file"].unique()[:2])
        raise InputError(
            f"{names} both have {first['system']} on {first['dataset']}, seed {first['seed']}: "
            "leave it out of one, or give one system another name"
        )
    both = rows.merge(prints, on=["dataset", "encoder"], suffixes=("", " published"))
    others = both[both["fingerprint"] != both["fingerprint published"]]
    if not others.empty:
        first = others.iloc[0]
        raise InputError(
            f"{first['file']}: the data are not the published {first['dataset']}, as their "
            "fingerprint differs: give the dataset another name"
        )


def cells(table: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Title, setting and rows of each cell of a leaderboard."""
    for (dataset, _, encoder, policy, held_out, every), block in table.groupby(CELL, sort=False):
        often = "" if every == EVERY else f" every {every} stream items"
        setting = f"{encoder}, {held_out} classes held out, all test rows{often}"
        yield cell_title(dataset, policy), setting, block


def markdown(table: pd.DataFrame) -> str:
    """A leaderboard for readers: a heading and a table for each cell."""
    blocks = [f"# Leaderboard\n\n{CAPTION}"]
    for title, setting, block in cells(table):
        text = {
            "Rank": ranks(block),
            "System": block["system"],
            "Novel": halves(block, "novel"),
            "Original": halves(block, "original"),
            "HM": halves(block, "hm"),
            "Best HM": halves(block, "best hm"),
            "AUSUC": halves(block, "ausuc"),
            "Starts at": halves(block, "starts at"),
            "Lost (pp)": halves(block, "lost", 100, 1),
            "Holds at once": _means(block, "holds at once"),
            "Holds": _means(block, "holds"),
            "Seeds": block["seeds"],
            "Source": block["source"],
        }
        rows = pd.DataFrame(text).to_markdown(index=False, disable_numparse=True)
        blocks.append(f"## {title}\n\n{setting}\n\n{rows}")
    return "\n\n".join(blocks) + "\n"


def ranks(block: pd.DataFrame) -> list[str]:
    """Ranks of a cell for readers, a dash for none."""
    return [MISSING if pd.isna(rank) else f"{rank:.0f}" for rank in block["rank"]]


def halves(block: pd.DataFrame, name: str, times: float = 1, digits: int = 3) -> list[str]:
    """Means ± half the interval, so many times as large; the mean alone for one seed."""
    if name not in block:
        return [MISSING] * len(block)
    text = []
    for mean, low, high in zip(block[name], block[f"{name} low"], block[f"{name} high"]):
        shown = MISSING if pd.isna(mean) else f"{times * mean:.{digits}f}"
        half = "" if pd.isna(high) else f" ± {times * (high - low) / 2:.{digits}f}"
        text.append(shown + half)
    return text


def _means(block, name):
    """Means alone."""
    if name not in block:
        return [MISSING] * len(block)
    return [MISSING if pd.isna(mean) else f"{mean:.3f}" for mean in block[name]]


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
