"""Published grids of runs: the runs of each results file, and those that need not run again."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pandas as pd

from ocrrlib.experiments import Run
from ocrrlib.metrics import RUN, Checkpoint
from ocrrlib.runs import (
    about,
    datasets_of,
    path_of,
    published,
    read_about,
    run_grid,
    write_results,
)
from ocrrlib.scenario import PAPER_CAP
from ocrrlib.stream import PROTOCOL

# How the scenarios of each file were drawn; its rows name all else of their runs.
GRIDS: dict[str, dict] = {
    "full_sweep": dict(draw="fresh", cap=PAPER_CAP),
    "storage_pareto": dict(draw="continued", cap=PAPER_CAP),
    "lora": dict(draw="continued", cap=PAPER_CAP),
    "vote_ablation": dict(draw="continued", cap=PAPER_CAP),
    "beyond": dict(draw="fresh", cap=None),
    "beyond_mpnet": dict(draw="fresh", cap=None),
    "beyond_tfidf": dict(draw="fresh", cap=None),
    "joint": dict(draw="fresh", cap=None),
}


def published_runs(name: str) -> list[Run]:
    """The runs of a results file, in its order."""
    rows = published(name)[RUN].drop_duplicates().to_dict("records")
    return [Run(**row, **GRIDS[name]) for row in rows]


def run_again(name: str, runs: list[Run], out: Path, **how) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run a grid, write its results below the folder ``out``, and return them as ``run_grid`` does.

    Published rows are taken for systems that the registry declares as when they ran. ``how``: the
    options of ``run_tasks``.
    """
    datasets = datasets_of(runs)
    now = about(runs, datasets)
    standing = _standing(name, now)
    new = [run for run in runs if run not in standing]
    parts = [(published(name), published(f"{name}_rows"))]
    if new:
        parts.insert(0, run_grid(new, datasets, **how))
    checkpoints, rows = (_in_order(runs, frames) for frames in zip(*parts))
    write_results(checkpoints, path_of(name, out), now)
    write_results(rows, path_of(f"{name}_rows", out), now)
    return checkpoints, rows


def _standing(name: str, now: dict) -> set[Run]:
    """Runs whose published rows stand: of the same data, and of systems declared as they are now.

    There are none if checkpoints have measures now that were not published.
    """
    then = read_about(path_of(name))
    measures = {field.name for field in fields(Checkpoint) if field.compare}
    same_data = now["data"].items() <= then["data"].items()
    if then["protocol"] != PROTOCOL or not same_data or measures - {*published(name)}:
        return set()
    same = {system for system, row in now["systems"].items() if then["systems"].get(system) == row}
    return {run for run in published_runs(name) if run.system in same}


def _in_order(runs: list[Run], parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Rows of these runs, in their order, each run from the first part that has it."""
    found: dict[tuple, pd.DataFrame] = {}
    for part in reversed(parts):
        found |= dict(list(part.groupby(RUN, sort=False)))
    return pd.concat([found[tuple(run.names.values())] for run in runs], ignore_index=True)
