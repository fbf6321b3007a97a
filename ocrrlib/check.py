"""Do published rows still come out?  Repeat runs of the experiments and compare checkpoints, exactly.

A sample is drawn from a text such as the commit's hash: every commit another one.  A difference is a bug, or a change
that must be declared: raise the system's ``version`` in the registry and run it again.
"""

import random
from dataclasses import dataclass
from itertools import islice

import pandas as pd

from ocrrlib.experiments import EXPERIMENTS, Run, grid
from ocrrlib.files import ROOT
from ocrrlib.metrics import RUN
from ocrrlib.policies import POLICIES
from ocrrlib.runs import datasets_of, declared, read_about, read_results, run_one, scenario_of
from ocrrlib.stream import PROTOCOL, run_stream
from ocrrlib.systems import SYSTEMS, make
from ocrrlib.tasks import Task, run_tasks

FIRST = 3  # checkpoints that are compared of a system that reads sentences: each of its runs takes minutes


@dataclass(frozen=True)
class Published:
    """One run in a results file."""

    file: str
    run: Run


def published_runs(systems=None, folder=ROOT / "data/results"):
    """All runs in the results files of the experiments, or those of some systems."""
    found = []
    for name in EXPERIMENTS:
        there = set(read_results(folder / f"{name}.parquet")[RUN].itertuples(index=False, name=None))
        runs = [run for run in grid(name) if tuple(getattr(run, column) for column in RUN) in there]
        found += [Published(name, run) for run in runs if systems is None or run.system in systems]
    return found


def draw(runs, salt, seconds=None, count=None):
    """A sample of published runs, the same for the same ``salt``.

    Parameters
    ----------
    runs : list of Published
    salt : str
        What the sample follows from, such as the commit's hash.
    seconds : float, optional
        CPU seconds that it may take, by the times in ``data/results/costs.parquet``; runs on sentences are left out.
    count : int, optional
        Runs that are drawn; without both, one (policy, seed) of every file, dataset and system.
    """
    rng = random.Random(f"{salt}")
    mixed = rng.sample(runs, len(runs))
    if count is not None:
        return mixed[:count]
    if seconds is None:
        return list({(one.file, one.run.dataset, one.run.system): one for one in mixed}.values())
    costs = read_results(ROOT / "data/results/costs.parquet").set_index(["dataset", "system"])["seed_s"].to_dict()
    chosen, spent = [], 0.0
    for one in mixed:
        cost = 0.2 + costs.get((one.run.dataset, one.run.system), 1.0)
        if SYSTEMS[one.run.system].reads == "embeddings" and spent + cost <= seconds:
            chosen.append(one)
            spent += cost
    return chosen


def _repeat(data, run):
    """Checkpoints of a run, as dicts; the first few of one on sentences."""
    if SYSTEMS[run.system].reads == "embeddings":
        return run_one(data, run)
    stream = run_stream(make(run.system, run.seed, run.encoder), scenario_of(data, run), POLICIES[run.policy])
    return {"checkpoints": [checkpoint.scalars for checkpoint in islice(stream, FIRST)]}


def differing(chosen, jobs=1, progress=True, folder=ROOT / "data/results"):
    """Repeat published runs; those that come out otherwise.

    Returns
    -------
    list of Published
    """
    files = {name: read_results(folder / f"{name}.parquet") for name in dict.fromkeys(one.file for one in chosen)}
    groups = {}
    for one in chosen:
        groups.setdefault(SYSTEMS[one.run.system].reads, []).append(one.run)
    data = {reads: datasets_of(runs) for reads, runs in groups.items()}
    tasks = [
        Task({"run": one.run}, (data[SYSTEMS[one.run.system].reads][one.run.dataset], one.run), group=_group(one.run))
        for one in chosen
    ]
    again = run_tasks(_repeat, tasks, jobs, cache=None, progress=progress)
    return [one for one, result in zip(chosen, again) if not _same(files[one.file], one.run, result["checkpoints"])]


def _group(run):
    return run.dataset, run.seed, run.draw, run.cap, SYSTEMS[run.system].family


def _same(published, run, rows):
    there = published[(published[RUN] == pd.Series({name: getattr(run, name) for name in RUN})).all(axis=1)]
    columns = list(rows[0])
    return there[columns].head(len(rows)).reset_index(drop=True).equals(pd.DataFrame(rows)[columns])


def undeclared(folder=ROOT / "data/results"):
    """Why rows of the experiments are not of the systems as the registry has them, a line each."""
    lines = []
    for name in EXPERIMENTS:
        about = read_about(folder / f"{name}.parquet")
        if about["protocol"] != PROTOCOL:
            lines.append(f"{name}: rows of protocol {about['protocol']}, not {PROTOCOL}")
        for system, then in about["systems"].items():
            if system not in SYSTEMS or declared(system) != then:
                lines.append(f"{name}: {system} is declared otherwise than when it ran: run it again")
    return lines
