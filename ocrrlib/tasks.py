"""Many pieces of work: in parallel, resumable, each kept as soon as it is finished."""

import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace

import joblib
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ocrrlib.cache import RunCache
from ocrrlib.errors import InputError
from ocrrlib.workers import workers

IN_A_ROW = 20  # short tasks of one group that a worker does in a row, so that many workers have enough to do


@dataclass(frozen=True)
class Task:
    """A piece of work.

    Attributes
    ----------
    common : tuple
        The first arguments: what many tasks have in common, as a dataset; it goes to each worker of a cluster once.
    args : tuple
        The other arguments.
    key : str
        A digest of all that decides its result.
    name : str
        What it is called should it fail.
    group : hashable, optional
        Tasks of one group share work, so that a worker does them in a row.
    cost : float
        About how long it takes, in any unit: what is long must not start last.
    """

    common: tuple
    args: tuple
    key: str
    name: str
    group: object = None
    cost: float = 1


def run_tasks(function, tasks, jobs=1, cache=None, progress=True, dask=None, in_a_row=None):
    """``function(*task.common, *task.args)`` for every task, in order; what is kept under its key is not done again.

    Parameters
    ----------
    function : callable
        Gives what JSON can hold, the same whenever it is called.
    tasks : list of Task
        What is to be done.
    jobs : int
        Worker processes, from 1 up.
    cache : path or None
        Folder of finished results.
    dask : str, optional
        Address of a Dask scheduler to use instead of processes.
    in_a_row : int, optional
        How many tasks of a group are done in a row at most; without it, all.

    Raises
    ------
    InputError
        If ``jobs`` is out of range, no scheduler answers, or a task raises one.
    RuntimeError
        If a task fails otherwise. Either error says which task it was; all that were finished are kept.
    """
    kept = RunCache(cache)
    keys = {task.key for task in tasks}
    found = {key: done for key in keys if (done := kept.load(key)) is not None}
    groups = {}  # of those that are left, each key once
    for task in tasks:
        if task.key not in found:
            group = task.key if task.group is None else task.group, *map(id, task.common)
            groups.setdefault(group, {}).setdefault(task.key, task)
    longest_first = sorted(groups.values(), key=lambda group: sum(task.cost for task in group.values()), reverse=True)
    parts = [part for group in longest_first for part in _parts(list(group.values()), in_a_row or len(group))]
    work = [
        joblib.delayed(_keep)(function, [replace(task, common=()) for task in part], kept, *part[0].common)
        for part in parts
    ]
    common = list({id(each): each for part in parts for each in part[0].common}.values())
    bar = tqdm(total=len(keys), initial=len(found), unit="run", disable=not progress)
    with workers(jobs, dask, common), bar, _counted(bar, keys, kept):
        for done in joblib.Parallel(return_as="generator_unordered", pre_dispatch="all")(work):
            for key, result in done.items():
                found[key] = result
                if key not in kept:  # the worker has no folder in common with us
                    kept.save(key, result)
            _show(bar, len(found))
    return [found[task.key] for task in tasks]


def _parts(tasks, size):
    return [tasks[first : first + size] for first in range(0, len(tasks), size)]


def _keep(function, tasks, cache, *common):
    done = {}
    with threadpool_limits(1):
        for task in tasks:
            try:
                done[task.key] = function(*common, *task.args)
            except Exception as error:
                kind = InputError if isinstance(error, InputError) else RuntimeError
                raise kind(f"run failed: {task.name}: {error}") from error
            cache.save(task.key, done[task.key])
    return done


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
