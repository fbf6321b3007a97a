"""Many pieces of work: in parallel, resumable, each kept as soon as it is finished.

A finished result is kept under ``build/`` by all that decides it: its key, and the text of the code (see ``_code``),
so that nobody who edits a system is shown old results.
"""

import hashlib
import importlib.metadata
import inspect
import json
import os
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path

import joblib
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ocrrlib.files import InputError, cache_folder, write_text

CACHE = cache_folder() / "runs"
PATIENCE = 10  # seconds that a Dask scheduler has to answer
LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch", "river", "transformers", "peft", "hnswlib", "chroma-hnswlib")
# What a result does not hang on: how runs are named, spread over workers, kept, checked and asked for.
AROUND = ("experiments.py", "runs.py", "tasks.py", "check.py", "own.py", "cli.py", "metrics.py", "files.py")


@dataclass(frozen=True)
class Task:
    """A piece of work.

    Attributes
    ----------
    key : dict
        All that decides its result but the code; JSON can hold it.
    args : tuple
        What the function is called with.
    group : hashable, optional
        Tasks of one group share work, so that one worker does them in a row.
    cost : float
        About how long it takes, in any unit: what is long must not start last.
    """

    key: dict
    args: tuple
    group: object = None
    cost: float = 1


def run_tasks(function, tasks, jobs=1, cache=CACHE, progress=True, dask=None):
    """``function(*task.args)`` for every task, in order; what is kept in the cache is not done again.

    Parameters
    ----------
    function : callable
        Gives what JSON can hold, the same whenever it is called.
    tasks : list of Task
        What is to be done; each distinct key is done once.
    jobs : int
        Worker processes, from 1 up.
    cache : path or None
        Folder of finished results.
    dask : str, optional
        Address of a Dask scheduler to use instead of processes.

    Raises
    ------
    InputError
        If ``jobs`` is out of range, no scheduler answers, or a task raises one.
    RuntimeError
        If a task fails otherwise. Either error names the task; all that were finished are kept.
    """
    if jobs < 1:
        raise InputError(f"{jobs} jobs are too few: give at least 1")
    folder, code = None if cache is None else Path(cache), _code(inspect.getsourcefile(function))
    keys = [_digest([code, function.__qualname__, task.key]) for task in tasks]
    found = {key: done for key in set(keys) if (done := _kept(folder, key)) is not None}
    groups = {}  # of those that are left, each key once
    for key, task in zip(keys, tasks):
        if key not in found:
            groups.setdefault(key if task.group is None else task.group, {}).setdefault(key, task)
    longest_first = sorted(groups.values(), key=lambda part: sum(task.cost for task in part.values()), reverse=True)
    parent = None if dask else os.getpid()
    work = [joblib.delayed(_do)(function, part, folder, parent) for part in longest_first]
    bar = tqdm(total=len(set(keys)), initial=len(found), unit="run", disable=not progress)
    with bar, _workers(min(jobs, max(1, len(work))), dask):
        for done in joblib.Parallel(return_as="generator_unordered", pre_dispatch="all")(work):
            for key, result in done.items():
                found[key] = result
                if dask and folder:  # a worker elsewhere has no folder in common with us
                    _keep(folder, key, result)
            bar.update(len(done))
    return [found[key] for key in keys]


def _do(function, tasks, folder, parent):
    done = {}
    with threadpool_limits(1):  # sums are made in one order whatever the machine
        for key, task in tasks.items():
            if parent not in (None, os.getpid(), os.getppid()):
                os._exit(1)  # whoever asked for this was killed
            try:
                done[key] = function(*task.args)
            except Exception as error:
                kind = InputError if isinstance(error, InputError) else RuntimeError
                raise kind(f"run failed: {task.key}: {error}") from error
            if folder and parent:
                _keep(folder, key, done[key])
    return done


@contextmanager
def _workers(jobs, dask=None):
    """While entered, joblib's work goes to so many processes here, or to the Dask cluster at this address."""
    if dask:
        check_scheduler(dask)
        from distributed import Client

        with Client(dask), joblib.parallel_config(backend="dask", n_jobs=-1):
            yield
    elif jobs == 1:
        with joblib.parallel_config(backend="sequential"):
            yield
    else:
        # Arrays are sent, not mapped: maps of a killed parent would stay in memory.
        with joblib.parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=1, max_nbytes=None):
            yield


def check_scheduler(address):
    """Refuse an address where no Dask scheduler answers.

    Raises
    ------
    InputError
        If none does, or Dask is not installed.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError("DASK needs the optional Dask: pip install 'dask[distributed]'") from error
    try:
        Client(address, timeout=PATIENCE, set_as_default=False).close()
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers at {address}: start one with `dask scheduler`") from error


def _digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


@once
def _code(path):
    """Digest of the text of the benchmark, its systems and one more file, and of the libraries' versions."""
    package = Path(__file__).parent
    files = [path for path in sorted(package.rglob("*.py")) if path.name not in AROUND]
    texts = [hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in (*files, *([path] if path else []))]
    return _digest([texts, libraries()])


def libraries():
    """Versions of the libraries that compute, by name; of those that are installed."""
    found = {}
    for name in LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _file(folder, key):
    return folder / key[:2] / f"{key}.json"


def _keep(folder, key, result):
    write_text(_file(folder, key), json.dumps(result))


def _kept(folder, key):
    """What was kept under a key, or None; a damaged file is reported and counts as none."""
    if folder is None or not (path := _file(folder, key)).exists():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        warnings.warn(f"{path} is damaged: its run is repeated", stacklevel=3)
