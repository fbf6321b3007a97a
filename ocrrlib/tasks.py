"""Many pieces of work: in parallel, resumable, each kept as soon as it is finished.

A finished result is kept under ``build/`` by all that decides it: its key, the text of the code and
the versions of libraries, so that nobody who edits a system is shown old results.
"""

import functools
import hashlib
import importlib.metadata
import inspect
import json
import os
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import joblib
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ocrrlib.files import InputError, cache_folder, write_text

CACHE = cache_folder() / "runs"
PATIENCE = 10  # seconds that a Dask scheduler has to answer
LIBRARIES = "numpy scipy scikit-learn torch river transformers peft hnswlib chroma-hnswlib faiss-cpu usearch turbovec"


@dataclass(frozen=True)
class Task:
    """A call of a function with ``args``.

    ``key`` is all that decides the result but the code, as JSON can hold it. One worker does the
    tasks of a ``group`` in a row, as they share work. ``cost`` is about how long it takes, in any
    unit: what is long must not start last.
    """

    key: dict
    args: tuple
    group: object = None
    cost: float = 1


def run_tasks(function, tasks, jobs=1, cache=CACHE, progress=True, dask=None):
    """``function(*task.args)`` for every task, in order; tasks of one key are done once.

    ``function`` gives what JSON can hold, the same whenever it is called. ``jobs`` worker processes
    do the work, or the cluster whose scheduler has the address ``dask``. What is finished is kept
    in the folder ``cache``, if there is one, and not done again.

    Raises ``InputError`` if there are too few jobs, no scheduler answers or a task raises one, and
    ``RuntimeError`` if a task fails otherwise. Either error names the task; all that were finished
    are kept.
    """
    if jobs < 1:
        raise InputError(f"{jobs} jobs are too few: give at least 1")
    code, found, groups = _code(inspect.getsourcefile(function)), {}, {}
    keys = [_digest([code, function.__qualname__, task.key]) for task in tasks]
    for key, task in dict(zip(keys, tasks)).items():
        try:
            found[key] = json.loads(_file(cache, key).read_text(encoding="utf-8"))
        except (OSError, TypeError, ValueError):  # missing, no cache, or damaged
            groups.setdefault(key if task.group is None else task.group, {})[key] = task
    longest_first = sorted(
        groups.values(), key=lambda part: sum(task.cost for task in part.values()), reverse=True
    )
    if dask:
        workers, there, keeping = dict(backend="dask", n_jobs=-1), connect(dask), (None, None)
    else:  # arrays are sent, not mapped: maps of a killed parent would stay in memory
        jobs = min(jobs, max(1, len(groups)))
        workers = dict(backend="loky", n_jobs=jobs, inner_max_num_threads=1, max_nbytes=None)
        there, keeping = nullcontext(), (cache, os.getpid())
    bar = tqdm(total=len({*keys}), initial=len(found), unit="run", disable=not progress)
    with bar, there, joblib.parallel_config(**workers):
        work = [joblib.delayed(_do)(function, part, *keeping) for part in longest_first]
        for done in joblib.Parallel(return_as="generator_unordered", pre_dispatch="all")(work):
            found |= done
            if dask and cache:  # a worker elsewhere has no folder in common with us
                for key, result in done.items():
                    write_text(_file(cache, key), json.dumps(result))
            bar.update(len(done))
    return [found[key] for key in keys]


def _do(function, tasks, cache, parent):
    """Results of tasks by key, done in a row in the process ``parent`` or a child of it."""
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
            if cache:
                write_text(_file(cache, key), json.dumps(done[key]))
    return done


def connect(address):
    """A client of the Dask scheduler at an address; ``InputError`` if none answers or Dask is not installed."""
    try:
        from distributed import Client

        return Client(address, timeout=PATIENCE)
    except ImportError as error:
        raise InputError("DASK needs the optional Dask: pip install 'dask[distributed]'") from error
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address}: start one with `dask scheduler`"
        ) from error


def _file(cache, key):
    return Path(cache) / f"{key}.json"


def _digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


@functools.cache  # once: what is edited later is not what runs
def _code(path):
    """Digest of the text of this package and of one more file, and of the libraries' versions."""
    files = [*sorted(Path(__file__).parent.rglob("*.py")), path]
    return _digest(
        [libraries(), *(hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files)]
    )


def libraries():
    """Versions of the libraries that compute, by name; of those that are installed."""
    found = {}
    for name in LIBRARIES.split():
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
