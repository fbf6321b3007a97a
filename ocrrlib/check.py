"""Do published rows still come out?  Repeat runs of the experiments and compare checkpoints, exactly.

A sample is drawn from a text such as the commit's hash: every commit another one.  A difference is a bug, or a change
that must be declared: raise the system's ``version`` in the registry and run it again.
"""

import random
from typing import NamedTuple

import pandas as pd

from ocrrlib.experiments import EXPERIMENTS, Run, grid
from ocrrlib.files import ROOT
from ocrrlib.metrics import RUN
from ocrrlib.runs import dataset_of, declared, published, read_about, run_one, task_of
from ocrrlib.stream import PROTOCOL
from ocrrlib.systems import SYSTEMS
from ocrrlib.tasks import run_tasks

FIRST = 3  # checkpoints that are compared of a system that reads sentences: each of its runs takes minutes


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

    ``seconds`` limits the CPU time that they take, by ``data/results/costs.parquet``; runs on sentences are left out.
    ``count`` is how many are drawn; without both, one (policy, seed) of every file, dataset and system.
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
        if SYSTEMS[one.run.system].reads == "embeddings" and spent + cost <= seconds:
            chosen.append(one)
            spent += cost
    return chosen


def differing(chosen, jobs=1, progress=True):
    """Repeat published runs; those that come out otherwise in the columns that are published."""
    tasks, wrong = [], []
    for _, run in chosen:
        reads = SYSTEMS[run.system].reads
        data = dataset_of(run.dataset, run.encoder, reads)
        tasks.append(task_of(run, data, FIRST if reads == "sentences" else None))
    files = {name: published(name).groupby(RUN) for name in {one.file for one in chosen}}
    for one, again in zip(chosen, run_tasks(run_one, tasks, jobs, cache=None, progress=progress)):
        there, again = files[one.file].get_group(tuple(one.run.names.values())), pd.DataFrame(again["checkpoints"])
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
            if system not in SYSTEMS or declared(system) != then:
                lines.append(f"{name}: {system} is declared otherwise than when it ran: run it again")
    return lines
