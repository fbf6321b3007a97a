"""Do published rows still come out?  Repeat runs of the experiments and compare checkpoints, exactly.

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
from typing import NamedTuple

import pandas as pd

from ocrrlib.experiments import EXPERIMENTS, Run, grid
from ocrrlib.files import ROOT, InputError, pick
from ocrrlib.metrics import RUN
from ocrrlib.runs import dataset_of, declared, published, read_about, run_policies, task_of
from ocrrlib.stream import PROTOCOL
from ocrrlib.systems import SYSTEMS as NAMED
from ocrrlib.tasks import run_tasks
from studies import boldness, names, scale, streams

FIRST = 3  # checkpoints that are compared of a system that reads sentences: each of its runs takes minutes
STUDIES = {
    "scale": scale.rerun,
    "ledger_search": scale.rerun_ledger,
    "streams": streams.rerun,
    "names": names.rerun,
    "boldness": boldness.rerun,
}
LARGEST = 10_000  # entries of a synthetic ledger that is searched again
NAMES = dict.fromkeys(("SECONDS", "SAMPLE", "SEED", "SYSTEMS", "ALL", "JOBS"))


class Published(NamedTuple):
    """One run in a results file."""

    file: str
    run: Run


def published_runs(systems=None):
    """All runs in the results files of the experiments, or those of some systems."""
    found = []
    for name in EXPERIMENTS:
        there = set(published(name)[RUN].itertuples(index=False, name=None))
        found += [Published(name, run) for run in grid(name) if tuple(run.names.values()) in there]
    return [one for one in found if systems is None or one.run.system in systems]


def draw(runs, salt, seconds=None, count=None):
    """A sample of published runs, the same for the same ``salt``, such as a commit's hash.

    ``seconds`` limits the CPU time that they take, by ``data/results/costs.parquet``; runs on
    sentences are left out. ``count`` is how many are drawn; without both, one (policy, seed) of
    every file, dataset and system.
    """
    mixed = random.Random(salt).sample(runs, len(runs))
    if count is not None:
        return mixed[:count]
    if seconds is None:
        return list({(one.file, one.run.dataset, one.run.system): one for one in mixed}.values())
    costs = published("costs").set_index(["dataset", "system"])["seed_s"].to_dict()
    chosen, spent = [], 0.0
    for one in mixed:
        cost = 0.2 + costs.get((one.run.dataset, one.run.system), 1.0)
        if NAMED[one.run.system].reads == "embeddings" and spent + cost <= seconds:
            chosen.append(one)
            spent += cost
    return chosen


def differing(chosen, jobs=1, progress=True):
    """Repeat published runs; those that come out otherwise in the columns that are published."""
    tasks, wrong = [], []
    for _, run in chosen:
        reads = NAMED[run.system].reads
        data = dataset_of(run.dataset, run.encoder, reads)
        tasks.append(task_of([run], data, FIRST if reads == "sentences" else None))
    files = {name: published(name).groupby(RUN) for name in {one.file for one in chosen}}
    for one, again in zip(
        chosen, run_tasks(run_policies, tasks, jobs, cache=None, progress=progress)
    ):
        there, again = (
            files[one.file].get_group(tuple(one.run.names.values())),
            pd.DataFrame(again[0]["checkpoints"]),
        )
        again = again[[name for name in again if name in there]]
        if not there[again.columns].head(len(again)).reset_index(drop=True).equals(again):
            wrong.append(one)
    return wrong


def undeclared():
    """Why rows of the experiments are not of the systems as the registry has them, a line each."""
    lines = []
    for name in EXPERIMENTS:
        about = read_about(ROOT / f"data/results/{name}.parquet")
        if about["protocol"] != PROTOCOL:
            lines.append(f"{name}: rows of protocol {about['protocol']}, not {PROTOCOL}")
        for system, then in about["systems"].items():
            if system not in NAMED or declared(system) != then:
                lines.append(
                    f"{name}: {system} is declared otherwise than when it ran: run it again"
                )
    return lines


def commit():
    """The commit that is checked out, from which the sample follows; empty outside of git."""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return asked.stdout.strip()


def chosen(SECONDS="60", SAMPLE="", SEED="", SYSTEMS="", ALL="", JOBS=""):
    """The published runs that these settings stand for; InputError if a system is unknown or a number is none."""
    runs = published_runs(
        [pick("system", name, NAMED) and name for name in SYSTEMS.split(",")] if SYSTEMS else None
    )
    try:
        if SAMPLE:
            return draw(runs, SEED or commit(), count=int(SAMPLE))
        return runs if ALL else draw(runs, SEED or commit(), seconds=float(SECONDS))
    except ValueError as error:
        raise InputError(f"SECONDS={SECONDS} SAMPLE={SAMPLE}: give numbers ({error})") from error


def differing_rows(name, salt, count=1):
    """Repeat ``count`` published rows of a study, drawn by ``salt``; a line for each that comes out otherwise."""
    frame, wrong = published(name), []
    frame = frame[frame["n"] <= LARGEST] if "n" in frame else frame
    for row in frame.sample(count, random_state=zlib.crc32(f"{name} {salt}".encode())).to_dict(
        "records"
    ):
        again = STUDIES[name](row)
        if not pd.Series(again).equals(pd.Series({key: row[key] for key in again})):
            wrong.append(f"{name}: {row} comes out otherwise: {again}")
    return wrong


def main():
    try:
        settings = dict(word.partition("=")[::2] for word in sys.argv[1:])
        for name in settings:
            pick("parameter", name, NAMES)
        runs = chosen(**settings)
        wrong = undeclared()
        jobs, salt = int(settings.get("JOBS") or os.cpu_count()), settings.get("SEED") or commit()
        count = (
            0
            if settings.get("SYSTEMS")
            else 20
            if settings.get("ALL") and not settings.get("SAMPLE")
            else 1
        )
        wrong += [line for name in STUDIES for line in differing_rows(name, salt, count)]
        found = differing(runs, jobs)
        wrong += [f"{one.file}: {one.run} comes out otherwise" for one in found]
    except InputError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped")
    if wrong:
        print(*wrong, sep="\n")
        systems = ", ".join(sorted({one.run.system for one in found}))
        way_out = "a bug, or a change to declare by a new `version` in the registry"
        sys.exit(f"error: {len(wrong)} differences{f' in {systems}' if systems else ''}: {way_out}")
    print(
        f"{len(runs)} published runs repeated, all exact; and {count} rows of each of {', '.join(STUDIES)}"
    )


if __name__ == "__main__":
    main()
