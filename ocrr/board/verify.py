"""Check contributions to the leaderboard: read rows, replay answers, run systems again.

==========  ====================================================================================
kind        what stands behind a row
==========  ====================================================================================
reported    a CSV
replayed    a transcript too, from which every number follows; not that answers came before labels
re-run      the system, run again here by seeds that its author could not choose; it alone ranks
==========  ====================================================================================
"""

import json
import platform
import random
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from scipy.special import stdtrit

from ocrr.board.rerun import environment
from ocrr.board.rows import contributed
from ocrr.evaluation import CELL, MEASURED, finals, following
from ocrr.submission import ANSWERS, LARGEST_RUN, REPORT, ROWS, SYSTEM, hashes
from ocrr.transcript import Recorder, Replayed
from ocrrlib.datasets import DATASETS
from ocrrlib.embeddings import load, path_of
from ocrrlib.files import ROOT, InputError, pick, write_text
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import Scenario, make_scenario
from ocrrlib.stream import run_stream

CONTRIBUTED = ROOT / "data/results/leaderboard"
REPORTED = "reported"
REPLAYED = "replayed"
RERUN = "re-run"
KINDS = (RERUN, REPLAYED, REPORTED)
SAMPLED = 3  # submitted seeds that are run again
FRESH = 3  # seeds that were not submitted
FIRST_FRESH = 20
LAST_FRESH = 9999
ROUNDED = 0.01  # of test rows that are asked together, so many may differ by rounding
CERTAIN = 0.999  # of means of fresh seeds, so many are above the bound if seeds do not matter


def contributions(folder: Path = CONTRIBUTED) -> Iterator[tuple[pd.DataFrame, str]]:
    """Rows and kind of each contribution in a folder: of single CSV files, and of folders.

    Raises ``InputError`` if one has no such rows, or others than follow from its transcript.
    """
    for path in sorted(folder.glob("[!.]*.csv")):
        yield contributed(path).assign(file=str(path)), REPORTED
    for path in sorted(folder.glob(f"[!.]*/{ROWS}")):
        yield contributed(path).assign(file=str(path)), kind_of(path.parent)


def kind_of(folder: Path) -> str:
    """What stands behind the rows of a contribution: its report, if it is about these very files.

    A transcript of a published cell is replayed whatever the report says; raises as ``replay``.
    """
    replayed = (folder / ANSWERS).exists() and is_published(contributed(folder / ROWS))
    if replayed:
        replay(folder)
    return _kind(folder, replayed)


def _kind(folder, replayed):
    try:
        report = json.loads((folder / REPORT).read_text(encoding="utf-8"))
        about = report["files"]
        rerun = report["kind"] == RERUN and SYSTEM in about and about == hashes(folder)
    except (OSError, ValueError, KeyError, TypeError):
        rerun = False
    if rerun:
        return RERUN
    return REPLAYED if replayed else REPORTED


# A run


def is_published(rows: pd.DataFrame) -> bool:
    """Whether others have the dataset and the policy of some row."""
    return bool((rows["dataset"].isin(DATASETS) & rows["policy"].isin(POLICIES)).any())


def _cell(folder):
    """Rows of a contribution, and what they have in common; ``InputError`` if that is too little.

    The policy and the dataset are published ones: others nobody else has.
    """
    rows = contributed(folder / ROWS)
    cells = rows[[*CELL, "system", "source"]].drop_duplicates()
    if len(cells) > 1:
        raise InputError(f"{folder / ROWS} has several cells or systems: give each its own folder")
    cell = cells.iloc[0].to_dict()
    pick(f"policy in {folder / ROWS}", cell["policy"], POLICIES)
    pick(f"dataset in {folder / ROWS}", cell["dataset"], DATASETS)
    if cell["every"] < 1:
        raise InputError(f"{folder / ROWS}: there is no checkpoint every {cell['every']} items")
    return rows, cell


def _again(system: Any, scenario: Scenario, cell: dict) -> pd.Series:
    """What ``MEASURED`` comes to in one run, rounded as in rows."""
    stream = run_stream(system, scenario, POLICIES[cell["policy"]], cell["every"])
    run = {name: cell[name] for name in ("dataset", "encoder", "policy", "system")}
    run["seed"] = scenario.seed
    found = finals(pd.DataFrame([run | checkpoint.scalars for checkpoint in stream]))
    return found.iloc[0][MEASURED].astype(float).round(6)


def _differences(first: pd.Series, second: pd.Series, seed: int) -> list[dict]:
    """Metrics in which two results of a seed differ, with both numbers."""
    unequal = ~((first == second) | (first.isna() & second.isna()))
    both = pd.DataFrame({"submitted": first, "found": second})[unequal].astype(object)
    both = both.where(both.notna(), None)  # as JSON has it
    return [{"seed": seed, "metric": name, **row} for name, row in both.to_dict("index").items()]


def replay(folder: Path) -> int:
    """Compute all rows of a contribution anew from its transcripts; returns how many there are.

    Labels are those of the published dataset, whatever encoder the system used. Raises
    ``InputError`` if a row differs, or an answer is missing or too many.
    """
    rows, cell = _cell(folder)
    path = folder / ANSWERS
    if path.stat().st_size > LARGEST_RUN * len(rows):
        raise InputError(f"{path} has more than {LARGEST_RUN:,} bytes a run")
    try:
        runs = dict(iter(pq.read_table(path).to_pandas().groupby("seed")))
        systems = {seed: Replayed(table) for seed, table in runs.items()}
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise InputError(f"{path} is no transcript: write it with Evaluation.submit") from error
    if {*systems} != {*rows["seed"]}:
        raise InputError(f"{path} and {folder / ROWS} are of different seeds")
    data = load(cell["dataset"])
    for row in rows.to_dict("records"):
        seed = row["seed"]
        try:
            scenario = make_scenario(data, seed, cap=None, held_out=cell["held_out"])
            found = _again(systems[seed], scenario, cell)
            systems[seed].check_ended()
        except InputError as error:
            raise InputError(f"{path}, seed {seed}: {error}") from error
        for one in _differences(pd.Series(row)[MEASURED].astype(float), found, seed):
            raise InputError(
                f"{folder / ROWS}, seed {seed}: {one['metric']} is {one['submitted']}, and "
                f"{one['found']} by its answers: write both with Evaluation.submit"
            )
    return len(rows)


# The system itself


def commit() -> str:
    """The commit that is checked out; ``InputError`` outside of git."""
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True
        )
    except OSError:
        asked = None
    if asked is None or asked.returncode:
        raise InputError("no commit is checked out, from which seeds are drawn: clone with git")
    return asked.stdout.strip()


def drawn(seeds: list[int], salt: str, count: int = SAMPLED) -> tuple[list[int], list[int]]:
    """Some of the submitted seeds, and some that were not, the same for the same ``salt``."""
    rng = random.Random(salt)
    again = sorted(rng.sample(sorted(seeds), min(count, len(seeds))))
    others = [seed for seed in range(FIRST_FRESH, LAST_FRESH + 1) if seed not in {*seeds}]
    return again, sorted(rng.sample(others, FRESH))


def rerun(folder: Path, salt: str, count: int = SAMPLED) -> dict:
    """Run the system of a contribution again, each drawn seed twice, and report what came out.

    A report of the kind ``re-run`` says that both times were equal, that they are the submitted
    rows, and that fresh seeds do as well as the submitted ones. Raises ``InputError`` if the system
    or its data are not there, or it fails.
    """
    rows, cell = _cell(folder)
    if not path_of(cell["dataset"], cell["encoder"]).exists():
        raise InputError(
            f"{folder / ROWS}: there are no rows of {cell['dataset']} by {cell['encoder']} here: "
            "evaluate with a published encoder"
        )
    data = load(cell["dataset"], cell["encoder"])
    if data.fingerprint != cell["fingerprint"]:
        raise InputError(f"{folder / ROWS}: the data are not the published {cell['dataset']}")
    before = hashes(folder)
    again, fresh = drawn(rows["seed"].tolist(), f"{salt} {folder.name}", count)
    found = {}
    unequal = []
    with environment(folder) as place:
        for seed in (*again, *fresh):
            scenario = make_scenario(data, seed, cap=None, held_out=cell["held_out"])
            found[seed], same = _twice(place, scenario, cell)
            if not same:
                unequal.append(str(seed))
        closed = place.closed
    submitted = rows.set_index("seed")[MEASURED]
    differences = [
        one for seed in again for one in _differences(submitted.loc[seed], found[seed], seed)
    ]
    bound = _bound(following(rows)["hm"])
    reached = following(pd.DataFrame([found[seed] for seed in fresh]))["hm"]
    reasons = []
    if unequal:
        reasons.append(
            "two runs of one seed differ, though answers depend on their own row and corrections "
            f"alone: {', '.join(unequal)}"
        )
    if differences:
        reasons.append("the submitted rows are not those that come out here")
    if reached.mean() < bound:
        reasons.append(
            f"hm of seeds that were not submitted is {reached.mean():.4f}, below {bound:.4f}"
        )
    return {
        "kind": REPORTED if reasons else RERUN,
        "reasons": reasons,
        "commit": salt,
        "submitted seeds": again,
        "fresh seeds": {str(seed): round(hm, 6) for seed, hm in zip(fresh, reached)},
        "differences": differences,
        "process": closed,
        "python": platform.python_version(),
        "files": before,
    }


def _twice(place, scenario, cell):
    """What a run comes to, and whether a second one, with few of the test rows, answers alike.

    Nobody knows which these are, so that answers can follow neither from the others nor from how
    many there are of new classes.
    """
    rng = np.random.default_rng()
    n = len(scenario.y_stream)
    novel, original = (
        rng.permutation(len(y))[: rng.integers(1, len(y) // 2 + 2)]
        for y in (scenario.y_novel, scenario.y_original)
    )
    fewer = replace(
        scenario,
        X_novel=scenario.X_novel[novel],
        y_novel=scenario.y_novel[novel],
        X_original=scenario.X_original[original],
        y_original=scenario.y_original[original],
    )
    found, first = _run_remote(place, scenario, cell, np.arange(len(scenario.queries)))
    rows = np.concatenate([np.arange(n), n + novel, n + len(scenario.y_novel) + original])
    _, second = _run_remote(place, fewer, cell, rows)
    unequal = first.reindex(second.index) != second
    return found, unequal.groupby(level=0).mean().max() <= ROUNDED


def _run_remote(place, scenario, cell, numbers):
    """What a run comes to, and its answers, by question and row, whose ``numbers`` are given."""
    system = place.system(scenario.seed)
    try:
        recorder = Recorder(system)
        found = _again(recorder, scenario, cell)
    finally:
        system.close()
    questions = np.repeat(np.arange(len(recorder.asked)), [*map(len, recorder.asked)])
    index = [questions, numbers[np.concatenate(recorder.asked)]]
    return found, pd.Series(np.concatenate(recorder.given), index)


def _bound(hm):
    """What the mean of fresh seeds is above, ``CERTAIN`` of the time, if seeds do not matter."""
    n = len(hm)  # of one, nothing follows: NaN
    # mean - t_(0.999, n - 1) sd sqrt(1/n + 1/m), m fresh seeds
    return hm.mean() - stdtrit(n - 1, CERTAIN) * hm.std() * np.sqrt(1 / n + 1 / FRESH)


def verify(name: str | Path, count: int = SAMPLED) -> tuple[str, list[str]]:
    """Replay a contribution and run it again, write its report, and tell its kind and findings.

    A report that is there does not count, and is removed first. ``name`` is a folder, or the name
    of one in ``data/results/leaderboard``. Raises ``InputError`` if there is none, its rows do not
    follow from its answers, or its system cannot be run.
    """
    folder = CONTRIBUTED / name  # a path of its own stands for itself
    if not (folder / ROWS).exists() and (Path(name) / ROWS).exists():
        folder = Path(name).resolve()
    if not (folder / ROWS).exists():
        raise InputError(
            f"{name} is no folder with {ROWS}, here or in {CONTRIBUTED}: write one with "
            "Evaluation.submit; a CSV alone is reported, and there is nothing to verify"
        )
    (folder / REPORT).unlink(missing_ok=True)
    lines = []
    replayed = (folder / ANSWERS).exists()
    if replayed:
        runs = replay(folder)
        lines.append(
            f"replayed: corrections and metrics of {runs} runs follow from the answers; "
            "this does not show that answers came before labels"
        )
    if not (folder / SYSTEM).exists():
        lines.append(f"not run again: there is no {SYSTEM}")
        return _kind(folder, replayed), lines
    report = rerun(folder, commit(), count)
    write_text(folder / REPORT, json.dumps(report, indent=1) + "\n")
    seeds = ", ".join(map(str, [*report["submitted seeds"], *report["fresh seeds"]]))
    closed = ", ".join(f"{name} {how}" for name, how in report["process"].items())
    lines.append(f"run again: seeds {seeds}, each twice ({closed})")
    for one in report["differences"]:
        found = f"{one['metric']} {one['found']}, submitted {one['submitted']}"
        lines.append(f"seed {one['seed']}: {found}")
    lines += report["reasons"]
    return _kind(folder, replayed), lines
