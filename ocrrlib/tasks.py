"""Run many tasks in parallel and resume them: each result is kept once it is finished.

A finished result is kept under ``build/`` by everything that decides it: its key, the text of the
code and the versions of libraries. After an edit of a system, old results are never shown.
"""

import functools
import hashlib
import importlib.metadata
import inspect
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ocrrlib.files import InputError, cache_folder, write_text

CACHE = cache_folder() / "runs"
SCHEDULER_TIMEOUT = 10  # seconds that a Dask scheduler has to answer
LIBRARIES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "torch",
    "river",
    "transformers",
    "peft",
    "hnswlib",
    "chroma-hnswlib",
    "faiss-cpu",
    "usearch",
    "turbovec",
    "numkong",
)


@dataclass(frozen=True)
class Task:
    """A call of a function with ``args``.

    ``key`` is everything but the code that decides the result, as JSON can hold it. One worker does
    the tasks of a ``group`` in a row, as they share work. ``cost`` is an estimate of the time, in
    any unit; the longest groups are started first.
    """

    key: dict
    args: tuple
    group: object = None
    cost: float = 1


def run_tasks(
    function: Callable,
    tasks: Sequence[Task],
    jobs: int = 1,
    cache: str | Path | None = CACHE,
    progress: bool = True,
    dask: str | None = None,
    note: str = "",
    title: str = "",
) -> list:
    """``function(*task.args)`` for every task, in order; tasks of one key are done once.

    ``function`` gives what JSON can hold, the same whenever it is called. ``jobs`` worker processes
    do the work, or the cluster whose scheduler has the address ``dask``. A finished result is kept
    in the folder ``cache``, if there is one, and not computed again; how many were found there is
    said on stderr if there is a ``note`` to end this line. With ``progress``, a bar with this
    ``title`` stands there, too.

    Raises ``InputError`` if there are too few jobs, no scheduler answers, workers are lost or a
    task raises one, and ``RuntimeError`` if a task fails otherwise. An error of a task names it;
    finished results are kept.
    """
    if jobs < 1:
        raise InputError(f"{jobs} jobs are too few: give at least 1")
    code = _code(inspect.getsourcefile(function))
    keys = [_digest([code, function.__qualname__, task.key]) for task in tasks]
    found = {}
    groups: dict[Any, dict[str, Task]] = {}
    for key, task in dict(zip(keys, tasks)).items():
        try:
            found[key] = _kept(cache, key)
        except (OSError, TypeError, ValueError):  # missing, no cache, or damaged
            group = key if task.group is None else task.group
            groups.setdefault(group, {})[key] = task
    if note and found:
        print(f"{len(found)} of {len({*keys})} runs are taken {note}", file=sys.stderr)
    longest_first = sorted(groups.values(), key=_total_cost, reverse=True)

    client: AbstractContextManager
    if dask:
        client = connect(dask)
        workers = dict(backend="dask", n_jobs=-1)
        keep_in = None
        parent = None
    else:  # arrays are sent, not mapped: maps of a killed parent would stay in memory
        client = nullcontext()
        jobs = min(jobs, max(1, len(groups)))
        workers = dict(backend="loky", n_jobs=jobs, inner_max_num_threads=1, max_nbytes=None)
        keep_in = cache
        parent = os.getpid()
    shown = dict(desc=title or None, unit="task", disable=not progress)
    bar = tqdm(total=len({*keys}), initial=len(found), **shown)
    with bar, client, joblib.parallel_config(**workers):
        work = [joblib.delayed(_do)(function, group, keep_in, parent) for group in longest_first]
        try:
            # Stopped with more in loky's queue, its thread would fail, with a traceback.
            ahead = "all" if dask else jobs
            for done in joblib.Parallel(return_as="generator_unordered", pre_dispatch=ahead)(work):
                found |= done
                if dask and cache:  # a worker elsewhere has no folder in common with us
                    for key, result in done.items():
                        _keep(cache, key, result)
                bar.update(len(done))
        except _losses(dask) as error:
            lost = f"the Dask cluster at {dask}" if dask else "a worker process"
            raise InputError(
                f"{lost} was lost ({type(error).__name__}): finished runs are kept; "
                "run the same again, with fewer jobs if memory was short"
            ) from error
    return [found[key] for key in keys]


def _total_cost(group):
    return sum(task.cost for task in group.values())


def _do(function, tasks, cache, parent):
    """Results of tasks by key, done in a row in the process ``parent`` or a child of it."""
    done = {}
    if parent not in (None, os.getpid()):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    with threadpool_limits(1):  # sums are made in one order whatever the machine
        for key, task in tasks.items():
            if parent not in (None, os.getpid(), os.getppid()):
                os._exit(1)  # the calling process was killed
            try:
                done[key] = function(*task.args)
            except (Exception, SystemExit) as error:
                kind = InputError if isinstance(error, InputError) else RuntimeError
                raise kind(f"run failed: {task.key}: {error}") from error
            if cache:
                _keep(cache, key, done[key])
    return done


def connect(address: str) -> Any:
    """A client of the Dask scheduler at an address.

    Raises ``InputError`` if no scheduler answers or Dask is not installed.
    """
    try:
        from distributed import Client

        # A lost scheduler is one error of ours, not tracebacks of each attempt to find it again.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        return Client(address, timeout=SCHEDULER_TIMEOUT)
    except ImportError as error:
        raise InputError("DASK needs the optional Dask: pip install 'dask[distributed]'") from error
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address}: start one with `dask scheduler`"
        ) from error


def _losses(dask):
    """Errors that say that workers are gone, not that a task failed."""
    if not dask:
        return BrokenExecutor
    from distributed import KilledWorker

    return CancelledError, KilledWorker, OSError


def _keep(cache, key, result):
    """Keep a finished result as JSON, below a line with the SHA-256 of key and JSON.

    That finds damage and edits. It does not hold against someone who computes it anew: whoever can
    write here is trusted as with the code.
    """
    text = json.dumps(result)
    write_text(Path(cache) / key, f"{_checksum(key, text)}\n{text}")


def _kept(cache, key):
    """A finished result; ``ValueError`` if it is not as it was written."""
    checksum, _, text = (Path(cache) / key).read_text(encoding="utf-8").partition("\n")
    if checksum != _checksum(key, text):
        raise ValueError("the checksum differs")
    return json.loads(text)


def _checksum(key, text):
    return hashlib.sha256(f"{key}\n{text}".encode()).hexdigest()


def _digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


@functools.cache  # once: a later edit is not in the code that runs
def _code(path):
    """SHA-256 of the text of this package, of a file's folder, and of the libraries' versions."""
    files = [*sorted(Path(__file__).parent.rglob("*.py")), *sorted(Path(path).parent.glob("*.py"))]
    texts = [hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files]
    return _digest([libraries(), *texts])


def libraries() -> dict[str, str]:
    """Versions of the installed libraries that compute, by name."""
    found = {}
    for name in LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
