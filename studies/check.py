"""Repeat published runs and compare their rows exactly with the published ones.

python -m studies.check [SECONDS=60] [SAMPLE=300 SEED=1] [SYSTEMS=slda,ncm] [ALL=1] [JOBS=2]

This is what `make check` and `make verify` call. A sample is drawn from a text such as the commit's
hash: every commit another one. A difference is a bug, or a change that must be declared: raise the
system's ``version`` in the registry and run it again.
"""

import os
import random
import subprocess
import sys
import zlib
from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from ocrrlib.experiments import Run
from ocrrlib.files import ROOT, InputError, pick
from ocrrlib.metrics import RUN
from ocrrlib.runs import (
    dataset_of,
    declared,
    published,
    read_about,
    run_policies,
    same_fit,
    task_of,
)
from ocrrlib.stream import PROTOCOL
from ocrrlib.systems import SYSTEMS
from ocrrlib.tasks import run_tasks
from studies.abstention import ABSTENTION, FEW_LABELS
from studies.forms import FORMS
from studies.grids import GRIDS, published_runs
from studies.ledger_search import LEDGER_SEARCH
from studies.mixed import MIXED
from studies.names import LABEL_NAMES
from studies.scale import SCALE
from studies.stored_wrong import STORED_WRONG
from studies.streams import STREAMS

# Checkpoints that are compared of a system that reads sentences: each of its runs takes minutes.
FIRST_CHECKPOINTS = 3
_STUDIES = (
    SCALE,
    LEDGER_SEARCH,
    STREAMS,
    LABEL_NAMES,
    FORMS,
    MIXED,
    ABSTENTION,
    FEW_LABELS,
    STORED_WRONG,
)
STUDIES = {study.name: study for study in _STUDIES}
LARGEST = 10_000  # entries of a synthetic ledger that is searched again
DEFAULTS = {"SECONDS": "60", "SAMPLE": "", "SEED": "", "SYSTEMS": "", "ALL": "", "JOBS": ""}


class Published(NamedTuple):
    """One run in a results file."""

    file: str
    run: Run


def repeatable_runs(systems: Iterable[str] | None = None) -> list[Published]:
    """All runs in the results files of grids, or those of some systems."""
    found = []
    for name in GRIDS:
        for run in published_runs(name):
            if systems is None or run.system in systems:
                found.append(Published(name, run))
    return found


def draw(
    runs: list[Published], salt: str, seconds: float | None = None, count: int | None = None
) -> list[Published]:
    """A sample of published runs, the same for the same ``salt``, such as a commit's hash.

    ``seconds`` limits the CPU time that they take, by ``data/results/costs.parquet``; runs on
    sentences are left out. ``count`` is how many are drawn; without both, one (dataset, policy,
    seed) of every file and system.
    """
    mixed = random.Random(salt).sample(runs, len(runs))
    if count is not None:
        return mixed[:count]
    if seconds is None:
        return list({(one.file, one.run.system): one for one in mixed}.values())
    costs = published("costs").set_index(["dataset", "system"])["seed_s"].to_dict()
    chosen = []
    spent = 0.0
    for one in mixed:
        cost = 0.2 + costs.get((one.run.dataset, one.run.system), 1.0)
        if SYSTEMS[one.run.system].reads == "embeddings" and spent + cost <= seconds:
            chosen.append(one)
            spent += cost
    return chosen


def commit() -> str:
    """The commit that is checked out, from which the sample follows; empty outside of git."""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return asked.stdout.strip()


def choose(settings: dict[str, str]) -> list[Published]:
    """The published runs that settings of the command line stand for.

    Raises ``InputError`` if a system is unknown or a number is none.
    """
    systems = settings["SYSTEMS"].split(",") if settings["SYSTEMS"] else None
    for name in systems or ():
        pick("system", name, SYSTEMS)
    runs = repeatable_runs(systems)
    salt = settings["SEED"] or commit()
    try:
        if settings["SAMPLE"]:
            return draw(runs, salt, count=int(settings["SAMPLE"]))
        if settings["ALL"]:
            return runs
        return draw(runs, salt, seconds=float(settings["SECONDS"]))
    except ValueError as error:
        given = f"SECONDS={settings['SECONDS']} SAMPLE={settings['SAMPLE']}"
        raise InputError(f"{given}: give numbers ({error})") from error


def undeclared() -> list[str]:
    """Results of another protocol, or of systems that are declared otherwise now: a line each."""
    lines = []
    for name in GRIDS:
        about = read_about(ROOT / f"data/results/{name}.parquet")
        if about["protocol"] != PROTOCOL:
            lines.append(f"{name}: rows of protocol {about['protocol']}, not {PROTOCOL}")
        for system, then in about["systems"].items():
            if system not in SYSTEMS or declared(system) != then:
                what = f"{system} is declared otherwise than when it ran"
                lines.append(f"{name}: {what}: run it again")
    return lines


def differing(runs: list[Published], jobs: int = 1, progress: bool = True) -> list[Published]:
    """Repeat published runs and return those that differ in a published column."""
    fits: dict[Run, list[Published]] = {}
    for one in runs:
        fits.setdefault(same_fit(one.run), []).append(one)
    tasks = []
    for together in fits.values():
        run = together[0].run
        reads = SYSTEMS[run.system].reads
        data = dataset_of(run.dataset, run.encoder, reads)
        first = FIRST_CHECKPOINTS if reads == "sentences" else None
        tasks.append(task_of([one.run for one in together], data, first))
    results = run_tasks(run_policies, tasks, jobs, cache=None, progress=progress)
    files = {name: published(name).groupby(RUN) for name in {one.file for one in runs}}
    wrong = []
    for together, repeated in zip(fits.values(), results):
        for one, again in zip(together, repeated):
            there = files[one.file].get_group(tuple(one.run.names.values()))
            if not _same(there, pd.DataFrame(again["checkpoints"])):
                wrong.append(one)
    return wrong


def _same(there, again):
    """Whether the repeated checkpoints equal the first published ones, in common columns."""
    again = again[[name for name in again if name in there]]
    return there[again.columns].head(len(again)).reset_index(drop=True).equals(again)


def differing_rows(name: str, salt: str, count: int = 1) -> list[str]:
    """Repeat ``count`` published rows of a study, drawn by ``salt``; a line for each difference."""
    frame = published(name)
    if "n" in frame:
        frame = frame[frame["n"] <= LARGEST]
    seed = zlib.crc32(f"{name} {salt}".encode())
    wrong = []
    for row in frame.sample(count, random_state=seed).to_dict("records"):
        again = STUDIES[name].rerun(row)
        if not pd.Series(again).equals(pd.Series({column: row[column] for column in again})):
            wrong.append(f"{name}: {row} comes out otherwise: {again}")
    return wrong


def rows_of_each_study(settings: dict[str, str]) -> int:
    """How many rows of each study these settings repeat."""
    if settings["SYSTEMS"]:
        return 0
    return 20 if settings["ALL"] and not settings["SAMPLE"] else 1


def check(settings: dict[str, str]) -> tuple[list[str], str]:
    """Differences, a line each, and a summary of what was repeated; raises as ``choose``."""
    runs = choose(settings)
    wrong = undeclared()
    salt = settings["SEED"] or commit()
    count = rows_of_each_study(settings)
    for name in STUDIES:
        wrong += differing_rows(name, salt, count)
    found = differing(runs, int(settings["JOBS"] or os.cpu_count()))
    wrong += [f"{one.file}: {one.run} comes out otherwise" for one in found]
    if wrong:
        systems = ", ".join(sorted({one.run.system for one in found}))
        where = f" in {systems}" if systems else ""
        way_out = "a bug, or a change to declare by a new `version` in the registry"
        return wrong, f"{len(wrong)} differences{where}: {way_out}"
    rows = f"{count} rows of each of {', '.join(STUDIES)}"
    return wrong, f"{len(runs)} published runs repeated, all exact; and {rows}"


def main() -> None:
    settings = dict(word.partition("=")[::2] for word in sys.argv[1:])
    try:
        for name in settings:
            pick("parameter", name, DEFAULTS)
        wrong, summary = check(DEFAULTS | settings)
    except InputError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped")
    if wrong:
        print(*wrong, sep="\n")
        sys.exit(f"error: {summary}")
    print(summary)


if __name__ == "__main__":
    main()
