"""Rank the published and all contributed systems: figures/leaderboard.csv and figures/leaderboard.md."""

import sys

import pandas as pd

from ocrrlib.datasets import DATASETS
from ocrrlib.embeddings import load
from ocrrlib.evaluation import CELL, DROP, FLOOR, METRICS, PUBLISHED, published_runs, ranking
from ocrrlib.files import ROOT, InputError, write_text
from ocrrlib.own_data import check_name
from paper.style import cell_title
from ocrrlib.stream import EVERY

CONTRIBUTED = ROOT / "data/results/leaderboard"
COLUMNS = ["system", "source", *CELL, "seed", *METRICS, "version", "date"]
CAPTION = (
    "Published and contributed systems, best first by *anytime novel*: novel accuracy, averaged over the stream. "
    "*Novel* and *original* are the accuracies at its end. Means over seeds ± half the width of the 95 % t interval. "
    f"Systems that have *collapsed* come after all others, whatever they learnt: their original accuracy is more than "
    f"{100 * DROP:.0f} points below that of {FLOOR}, which learns nothing from the stream."
)


def contributed(path):
    """Rows of a contributed system, as ``Evaluation.to_csv`` writes them, checked.

    Raises
    ------
    InputError
        If the file is not such a table: its columns, its names, or a value out of range.
    """
    try:
        frame = pd.read_csv(path, dtype={"version": str, "source": str, "system": str, "dataset": str})
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a table ({error}): write it with Evaluation.to_csv") from error
    if list(frame.columns) != COLUMNS or frame.isna().any(axis=None) or frame.empty:
        raise InputError(f"{path}: give the columns {', '.join(COLUMNS)}, and a value in each")
    for name in ("system", "source", "dataset", "encoder", "policy", "version", "date"):
        for value in frame[name].unique():
            check_name(f"{path}: {name}", value)
    numbers = frame[["held_out", "every", "seed", *METRICS]]
    if not all(kind.kind in "iuf" for kind in numbers.dtypes) or (numbers < 0).any(axis=None):
        raise InputError(f"{path}: held_out, every, seed and metrics must be numbers from 0 up")
    if (frame[METRICS[:-1]] > 1).any(axis=None):
        raise InputError(f"{path}: accuracies must be at most 1")
    if frame.duplicated([*CELL, "system", "seed"]).any() or (frame["source"] == PUBLISHED).any():
        raise InputError(f"{path}: give each seed of a cell once, and a source other than {PUBLISHED!r}")
    return frame


def leaderboard(folder=CONTRIBUTED):
    """One row per cell and system: the cell, ``rank``, then as ``own.ranking``; equals have equal ranks."""
    published = published_runs().copy()
    published[METRICS] = published[METRICS].map(lambda value: round(value, 6))  # as contributed rows are
    datasets = published[["dataset", "encoder"]].drop_duplicates().itertuples(index=False)
    prints = {dataset: load(dataset, encoder).fingerprint for dataset, encoder in datasets}
    runs = [published.assign(fingerprint=published["dataset"].map(prints))]
    runs = pd.concat(runs + [contributed(path) for path in sorted(folder.glob("[!.]*.csv"))])
    blocks = []
    for place, own in runs.groupby(CELL, sort=False):
        block = ranking(own)
        within = block.groupby("collapsed")["anytime novel"].rank(ascending=False, method="min").astype(int)
        ranks = within + block["collapsed"] * (~block["collapsed"]).sum()
        cell = dict(zip(CELL, place)) | {"draw": "fresh", "cap": ""}
        names = ("dataset", "fingerprint", "encoder", "policy", "held_out", "draw", "cap", "every")
        blocks.append(pd.DataFrame({name: [cell[name]] * len(block) for name in names}).assign(rank=ranks).join(block))
    return pd.concat(blocks, ignore_index=True)


def markdown(table):
    """The same for readers: a heading and a table for each cell."""
    blocks = [f"# Leaderboard\n\n{CAPTION}"]
    for (dataset, _, encoder, policy, held_out, every), block in table.groupby(CELL, sort=False):
        often = "" if every == EVERY else f" every {every} stream items"
        title = DATASETS[dataset].title if dataset in DATASETS else dataset
        heading = f"## {title}, {policy.replace('random', 'random-')}\n\n"
        heading += f"{encoder}, {held_out} classes held out, all test rows{often}"
        text = {"Rank": block["rank"], "System": block["system"], "Novel": _half(block, "novel")}
        text |= {"Original": _half(block, "original")}
        text |= {"Collapsed": block["collapsed"].map({True: "collapsed", False: ""})}
        text |= {name.capitalize(): _half(block, name) for name in METRICS[2:]}
        text |= {"Seeds": block["seeds"], "Source": block["source"]}
        blocks.append(f"{heading}\n\n{pd.DataFrame(text).to_markdown(index=False, disable_numparse=True)}")
    return "\n\n".join(blocks) + "\n"


def _half(block, name):
    """Mean ± half the interval; the mean alone for corrections and for one seed."""
    halves = (block[f"{name} high"] - block[f"{name} low"]) / 2
    if name == "corrections":
        return [f"{mean:.0f}" for mean in block[name]]
    return [f"{mean:.3f}" + ("" if pd.isna(half) else f" ± {half:.3f}") for mean, half in zip(block[name], halves)]


def main(folder=CONTRIBUTED, target=ROOT / "figures"):
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
