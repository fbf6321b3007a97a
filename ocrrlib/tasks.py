"""Many pieces of work: in parallel, resumable, each kept as soon as it is finished.

A finished result is kept under ``build/`` by everything that decides it: its key, the text of the
code and the versions of libraries. After an edit of a system, old results are never shown.
"""

import functools
import hashlib
import importlib
import importlib.metadata
import inspect
import io
import json
import logging
import marshal
import os
import re
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import cloudpickle
import joblib
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ocrrlib.files import InputError, cache_folder, sha256, write_text

CACHE = cache_folder() / "runs"
PATIENCE = 10  # seconds that a Dask scheduler has to answer
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
)
STARTED = time.time()


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
    valid: Callable[[Any], bool] = lambda result: True,
) -> list:
    """``function(*task.args)`` for every task, in order; tasks of one key are done once.

    ``function`` gives what JSON can hold, the same whenever it is called. ``jobs`` worker processes
    do the work, or the cluster whose scheduler has the address ``dask``. A finished result is kept
    in the folder ``cache``, if there is one, and not computed again while it is ``valid``.

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
            found[key] = _kept(cache, key, valid)
        except (OSError, TypeError, ValueError):  # missing, no cache, or damaged
            group = key if task.group is None else task.group
            groups.setdefault(group, {})[key] = task
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
    bar = tqdm(total=len({*keys}), initial=len(found), unit="task", disable=not progress)
    with bar, client, joblib.parallel_config(**workers):
        work = [joblib.delayed(_do)(function, group, keep_in, parent) for group in longest_first]
        try:
            for done in joblib.Parallel(return_as="generator_unordered", pre_dispatch="all")(work):
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
        return Client(address, timeout=PATIENCE)
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


def _kept(cache, key, valid):
    """A finished result; ``ValueError`` if it is not as it was written, or not ``valid``."""
    checksum, _, text = (Path(cache) / key).read_text(encoding="utf-8").partition("\n")
    if checksum != _checksum(key, text):
        raise ValueError("the checksum differs")
    result = json.loads(text)
    if not valid(result):
        raise ValueError("it is out of date")
    return result


def _checksum(key, text):
    return hashlib.sha256(f"{key}\n{text}".encode()).hexdigest()


def _digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


@functools.cache  # once: a later edit is not in the code that runs
def _code(path):
    """SHA-256 of the text of this package and of one more file, and of the libraries' versions."""
    files = [*sorted(Path(__file__).parent.rglob("*.py")), path]
    texts = [hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files]
    return _digest([libraries(), *texts])


def own_modules() -> dict[str, Path]:
    """Files of the loaded modules of your own, by module name: not installed ones nor this package.

    A module that is run as a script is among them.
    """
    package = Path(__file__).parent
    standard = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
    found = {}
    for name, module in list(sys.modules.items()):
        path = Path(str(getattr(module, "__file__", None)))
        installed = {"site-packages", "dist-packages"} & set(path.parts)
        elsewhere = installed or any(path.is_relative_to(one) for one in [package, *standard])
        if path.suffix == ".py" and not elsewhere and path.is_file():
            found[name] = path
    return found


def own_code_digest(*parts: Any) -> str | None:
    """SHA-256 of ``parts``, of all loaded modules of your own and of what is installed.

    Attributes of your classes, and globals that they and your functions read, count as they are
    now. None where the digest cannot be known: a part cannot be pickled, or a module changed after
    it was loaded.
    """
    hashes = own_code_hashes()
    if None in hashes.values():
        return None
    try:
        text = pickled(parts, repeatable=True)
    except Exception:  # many kinds: pickling runs code of your own
        return None
    return _digest([hashlib.sha256(text).hexdigest(), [*hashes.values()], _installed()])


def own_code_hashes() -> dict[str, str | None]:
    """SHA-256 of the files of your own loaded modules, by path.

    None for one that changed after this process started: the text that was loaded is not known.
    """
    hashes: dict[str, str | None] = {}
    for path in sorted(set(own_modules().values())):
        hashes[str(path)] = None if path.stat().st_mtime > STARTED else sha256(path)
    return hashes


def unchanged(hashes: dict[str, str | None]) -> bool:
    """Whether files still have the SHA-256 that ``own_code_hashes`` gave."""
    return all(Path(path).is_file() and sha256(path) == one for path, one in hashes.items())


class Sent:
    """A value that other processes get with your classes and functions as they are now.

    Without this, a worker imports your modules anew: an attribute or global that was set after the
    import would have its first value there.
    """

    def __init__(self, value: Any):
        self.value = value

    def check(self) -> None:
        """Raise ``InputError`` if the value cannot be sent."""
        try:
            pickled(self.value)
        except Exception as error:  # many kinds: pickling runs code of your own
            why = " ".join(str(error).split())
            raise InputError(
                f"the system cannot be sent to other processes ({why}): evaluate with jobs=1"
            ) from error

    def __reduce__(self) -> tuple:
        return _received, (pickled(self.value), sys.path)


def _received(text, path):
    sys.path += [folder for folder in path if folder not in sys.path]  # for your other modules
    return Sent(cloudpickle.loads(text))


def pickled(value: Any, repeatable: bool = False) -> bytes:
    """The pickle of a value, with classes and functions of your own modules in it, not by name.

    A ``repeatable`` one is the same in each process, and for a digest only.
    """
    mine = own_modules()
    new = {name for name in mine if sys.modules[name].__name__ == name}
    new -= {"__main__", *cloudpickle.list_registry_pickle_by_value()}  # the main one is not by name
    buffer = io.BytesIO()
    kind = _Repeatable if repeatable else _ByValue
    for name in new:
        cloudpickle.register_pickle_by_value(sys.modules[name])
    try:
        kind(buffer, mine).dump(value)
    finally:
        for name in new:
            cloudpickle.unregister_pickle_by_value(sys.modules[name])
    return buffer.getvalue()


class _ByValue(cloudpickle.Pickler):
    """Pickles modules by name, those of your own with their data."""

    def __init__(self, file, mine):
        super().__init__(file)
        self.mine = mine

    def reducer_override(self, obj):
        if not isinstance(obj, ModuleType):
            return super().reducer_override(obj)
        data = _data(obj) if obj.__name__ in self.mine else {}
        return importlib.import_module, (obj.__name__,), data, None, None, _set_data


class _Repeatable(_ByValue):
    """Leaves out what differs from process to process."""

    def reducer_override(self, obj):
        reduced = super().reducer_override(obj)
        if isinstance(obj, type) and isinstance(reduced, tuple):  # has a number drawn for the class
            arguments = [None if _is_drawn(one) else one for one in reduced[1]]
            reduced = (reduced[0], tuple(arguments), *reduced[2:])
        return reduced

    def persistent_id(self, obj):
        if isinstance(obj, CodeType):
            return marshal.dumps(obj, 2)  # the last format without references
        if type(obj) in (set, frozenset):  # in the order of random hashes
            return sorted(map(repr, obj))
        return None


def _is_drawn(argument):
    return isinstance(argument, str) and re.fullmatch("[0-9a-f]{32}", argument)


def _data(module):
    """Global variables of a module that are neither code nor modules."""
    return {
        name: value
        for name, value in vars(module).items()
        if not (name.startswith("__") or callable(value) or isinstance(value, ModuleType))
    }


def _set_data(module, data):
    vars(module).update(data)


@functools.cache
def _installed():
    """SHA-256 of the lists of files, each with its SHA-256, of all installed distributions."""
    all_of_them = importlib.metadata.distributions()
    return _digest(sorted(one.read_text("RECORD") or str(one.metadata) for one in all_of_them))


def libraries() -> dict[str, str]:
    """Versions of the installed libraries that compute, by name."""
    found = {}
    for name in LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
