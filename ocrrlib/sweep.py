"""A grid of runs: in parallel, resumable, one tidy frame in the end."""

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict

import joblib
import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ocrrlib.cache import RunCache
from ocrrlib.errors import InputError, pick
from ocrrlib.experiments import check_runs
from ocrrlib.home import cache_folder
from ocrrlib.metrics import RUN
from ocrrlib.policies import POLICIES
from ocrrlib.provenance import closure, digest
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import SYSTEMS, make

CACHE = cache_folder() / "runs"
PATIENCE = 10  # seconds that a scheduler has to answer


def depends_on(run, fingerprint):
    """Everything that decides a run's result: names, numbers, code, libraries and data."""
    entry = SYSTEMS[run.system]
    code, libraries = closure(
        "ocrrlib.stream", "ocrrlib.scenario", "ocrrlib.policies", f"ocrrlib.systems.{entry.module}"
    )
    return {
        "run": asdict(run),
        "system": [entry.module, entry.cls, entry.params],
        "code": code,
        "libraries": libraries,
        "data": fingerprint,
    }


def run_group(runs, data, cache):
    """Runs of one scenario, one after the other, so that they share work.

    Parameters
    ----------
    runs : list of (Run, str)
        Runs that differ in policy and system only, with their cache keys.
    data : Embedded
        Their dataset.
    cache : RunCache
        Where each is kept as soon as it is finished.

    Returns
    -------
    list of (key, dict)
        Checkpoints; which test rows were right in the end, novel ones first, one bit each in hex; seconds.
    """
    first, done = runs[0][0], []
    scenario = make_scenario(data, first.seed, draw=first.draw, cap=first.cap, thin=first.thin)
    truth = np.concatenate([scenario.y_novel, scenario.y_original])
    for run, key in runs:
        started = time.perf_counter()
        try:
            stream = run_stream(make(run.system, run.seed, run.encoder), scenario, POLICIES[run.policy])
            checkpoints = list(stream)
        except Exception as error:
            raise RuntimeError(f"run failed: {run}: {error}") from error
        finished = {
            "checkpoints": [checkpoint.scalars for checkpoint in checkpoints],
            "right": np.packbits(checkpoints[-1].answers == truth).tobytes().hex(),
            "n_novel": len(scenario.y_novel),
            "n_original": len(scenario.y_original),
            "seconds": time.perf_counter() - started,
        }
        cache.save(key, finished)
        done.append((key, finished))
    return done


def check_scheduler(address):
    """Refuse an address where no Dask scheduler answers.

    Raises
    ------
    InputError
        If none does, or Dask is not installed.
    """
    try:
        from distributed import comm
    except ImportError as error:
        raise InputError("DASK needs the optional Dask: pip install 'dask[distributed]'") from error

    async def greet():
        (await comm.connect(address, timeout=PATIENCE)).abort()

    try:
        with ThreadPoolExecutor(1) as pool:  # a notebook's own thread has an event loop already
            pool.submit(asyncio.run, greet()).result()
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers at {address}: start one with `dask scheduler`") from error


@contextmanager
def _workers(jobs, dask):
    """Where groups run: worker processes here, or the Dask cluster at this address."""
    if dask:
        check_scheduler(dask)
        from distributed import Client

        with Client(dask), joblib.parallel_config(backend="dask", n_jobs=-1):
            yield
    elif jobs == 1:
        with joblib.parallel_config(backend="sequential"), threadpool_limits(1):
            yield
    else:
        threads = max(1, (os.cpu_count() or 1) // jobs)
        with joblib.parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=threads):
            yield


def _show(bar, done):
    """Bring a bar to ``done`` runs, never back."""
    bar.n = max(bar.n, done)
    bar.refresh()


@contextmanager
def _counted(bar, keys, kept):
    """Runs show in the bar as soon as they are kept; a group of long ones may take an hour."""
    over = threading.Event()

    def look():
        while not over.wait(2):
            _show(bar, sum(key in kept for key in keys))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def finish(runs, datasets, jobs=1, dask=None, cache=CACHE, progress=True):
    """Run a grid and return all that ``run_group`` keeps of each run.

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
    if jobs < 1:
        raise InputError(f"{jobs} jobs are too few: give at least 1")
    kept = RunCache(cache)
    fingerprints = {name: data.fingerprint for name, data in datasets.items()}
    for run in runs:
        given = pick("dataset", run.dataset, datasets).encoder
        if given != run.encoder:
            raise InputError(f"{run.dataset} was embedded by {given!r}, not by {run.encoder!r} as the runs say")
    keys = [digest(depends_on(run, fingerprints[run.dataset])) for run in runs]
    found = {key: run for key in keys if (run := kept.load(key)) is not None}

    groups = {}
    for run, key in zip(runs, keys):
        if key not in found:
            family = SYSTEMS[run.system].family
            groups.setdefault((family, run.dataset, run.seed, run.draw, run.cap, run.thin), []).append((run, key))
    # What is long must not start last.
    heavy = sorted(groups, key=lambda g: len(groups[g]) * len(datasets[g[1]].y_train), reverse=True)
    tasks = [joblib.delayed(run_group)(groups[g], datasets[groups[g][0][0].dataset], kept) for g in heavy]
    bar = tqdm(total=len(runs), initial=len(found), unit="run", disable=not progress)
    with _workers(jobs, dask), bar, _counted(bar, keys, kept):
        for done in joblib.Parallel(return_as="generator_unordered", pre_dispatch="all")(tasks):
            for key, finished in done:
                found[key] = finished
                if key not in kept:  # the worker has no folder in common with us
                    kept.save(key, finished)
            _show(bar, len(found))

    return [found[key] for key in keys]


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
