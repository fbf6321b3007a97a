"""A grid of runs: in parallel, resumable, one tidy frame in the end."""

import time
from dataclasses import asdict, dataclass, field
from functools import lru_cache

import numpy as np
import pandas as pd

from ocrrlib.errors import InputError, pick
from ocrrlib.experiments import check_runs
from ocrrlib.home import cache_folder
from ocrrlib.metrics import RUN
from ocrrlib.policies import POLICIES
from ocrrlib.provenance import closure, digest
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import SYSTEMS, make
from ocrrlib.tasks import Task, run_tasks

CACHE = cache_folder() / "runs"


def depends_on(run, fingerprint):
    """Everything that decides a run's result: names, numbers, code, libraries and data."""
    entry = SYSTEMS[run.system]
    around = ["ocrrlib.stream", "ocrrlib.scenario", "ocrrlib.policies"]
    code, libraries = closure(*around, f"ocrrlib.systems.{entry.module}")
    return {
        "run": asdict(run),
        "system": [entry.module, entry.cls, entry.params],
        "code": code,
        "libraries": libraries,
        "data": fingerprint,
    }


@dataclass(frozen=True)
class Source:
    """A dataset, known by its fingerprint.

    Attributes
    ----------
    fingerprint : str
        Of the data.
    data : Embedded or Sentences
    """

    fingerprint: str
    data: object = field(compare=False, repr=False)


@lru_cache(maxsize=1)
def _scenario(source, seed, draw, cap, thin):
    return make_scenario(source.data, seed, draw=draw, cap=cap, thin=thin)


def run_one(source, run):
    """One run of a grid; those of one scenario share it when they are run in a row.

    Parameters
    ----------
    source : Source
        The dataset that the run names.
    run : Run

    Returns
    -------
    dict
        Checkpoints; which test rows were right in the end, novel ones first, one bit each in hex; seconds.
    """
    scenario = _scenario(source, run.seed, run.draw, run.cap, run.thin)
    started = time.perf_counter()
    system = make(run.system, run.seed, run.encoder)
    checkpoints = list(run_stream(system, scenario, POLICIES[run.policy]))
    truth = np.concatenate([scenario.y_novel, scenario.y_original])
    return {
        "checkpoints": [checkpoint.scalars for checkpoint in checkpoints],
        "right": np.packbits(checkpoints[-1].answers == truth).tobytes().hex(),
        "n_novel": len(scenario.y_novel),
        "n_original": len(scenario.y_original),
        "seconds": time.perf_counter() - started,
    }


def finish(runs, datasets, jobs=1, dask=None, cache=CACHE, progress=True):
    """Run a grid and return all that ``run_one`` gives for each run.

    Parameters
    ----------
    runs : list of Run
        What to run; finished runs found in the cache are not repeated.
    datasets : dict of str to Embedded
        The datasets that the runs name.
    jobs : int
        Worker processes, from 1 up.
    dask : str, optional
        Address of a Dask scheduler to use instead.
    cache : path or None
        Folder of finished runs.

    Returns
    -------
    list of dict
        In the order of ``runs``; the same whatever the workers.

    Raises
    ------
    InputError
        If a run names what does not exist, or ``jobs`` is out of range.
    """
    check_runs(runs)
    sources = {name: Source(data.fingerprint, data) for name, data in datasets.items()}
    for run in runs:
        given = pick("dataset", run.dataset, datasets).encoder
        if given != run.encoder:
            raise InputError(f"{run.dataset} was embedded by {given!r}, not by {run.encoder!r} as the runs say")
    tasks = [
        Task(
            (sources[run.dataset],),
            (run,),
            digest(depends_on(run, sources[run.dataset].fingerprint)),
            str(run),
            group=(SYSTEMS[run.system].family, run.dataset, run.seed, run.draw, run.cap, run.thin),
            cost=len(datasets[run.dataset].y_train),
        )
        for run in runs
    ]
    return run_tasks(run_one, tasks, jobs, cache, progress, dask)


def _names(run):
    return {name: getattr(run, name) for name in RUN}


def right_answers(runs, finished):
    """Which test rows each run got right in the end, to compare systems row by row.

    Parameters
    ----------
    runs, finished
        A grid and what ``finish`` returned for it.

    Returns
    -------
    DataFrame
        One row per run: ``right``, bytes with one bit per test row, novel ones first (``numpy.unpackbits``
        with ``count=n_novel + n_original``), and the numbers of these rows.
    """
    rows = [
        _names(run) | {"right": bytes.fromhex(one["right"]), "n_novel": one["n_novel"], "n_original": one["n_original"]}
        for run, one in zip(runs, finished)
    ]
    return pd.DataFrame(rows)


def checkpoints(runs, finished):
    """What ``finish`` returned for a grid as a tidy frame.

    Returns
    -------
    results : DataFrame
        One row per checkpoint, in the order of ``runs``; the same whatever the workers.
    seconds : list of float
        Time of each run, as measured when it ran.
    """
    rows = [_names(run) | checkpoint for run, one in zip(runs, finished) for checkpoint in one["checkpoints"]]
    return pd.DataFrame(rows), [one["seconds"] for one in finished]


def sweep(runs, datasets, jobs=1, dask=None, cache=CACHE, progress=True):
    """Run a grid, as ``finish`` does, and return its ``checkpoints``."""
    return checkpoints(runs, finish(runs, datasets, jobs, dask, cache, progress))
