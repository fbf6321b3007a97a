"""Many pieces of work: in parallel, resumable, each kept as soon as it is finished."""

import threading
from contextlib import contextmanager

import joblib
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ocrrlib.cache import RunCache
from ocrrlib.errors import InputError
from ocrrlib.workers import workers


def run_tasks(
    function, tasks, keys, jobs=1, cache=None, progress=True, dask=None, together=None, most=None, cost=None, names=None
):
    """``function(*task)`` for every task, in their order; what is kept under its key is not done again.

    Parameters
    ----------
    function : callable
        Gives what JSON can hold, the same whenever it is called.
    tasks : list of tuple
        Its arguments.
    keys : list of str
        Of each task a digest of all that decides its result.
    jobs : int
        Worker processes, from 1 up.
    cache : path or None
        Folder of finished results.
    dask : str, optional
        Address of a Dask scheduler to use instead of processes.
    together : list of hashable, optional
        One for each task; those with the same one share work, so that a worker does them in a row.
    most : int, optional
        How many tasks are done in a row at most; without it, all that belong together.
    cost : list of float, optional
        About how long each task takes, in any unit: what is long must not start last.
    names : list of str, optional
        What each task is called should it fail.

    Raises
    ------
    InputError
        If ``jobs`` is out of range, no scheduler answers, or a task raises one.
    RuntimeError
        If a task fails otherwise. Either error says which task it was; all that were finished are kept.
    """
    kept = RunCache(cache)
    found = {key: done for key in keys if (done := kept.load(key)) is not None}
    groups, costs = {}, {}
    for place, (key, task) in enumerate(zip(keys, tasks)):
        group = together[place] if together else key
        if key not in found and key not in (own := groups.setdefault(group, {})):
            own[key] = names[place] if names else f"number {place}", task
            costs[group] = costs.get(group, 0) + (cost[place] if cost else 1)
    work = [
        joblib.delayed(_keep)(function, chunk, kept)
        for group in sorted(groups, key=costs.get, reverse=True)
        for chunk in _parts(list(groups[group].items()), most)
    ]
    bar = tqdm(total=len(set(keys)), initial=len(found), unit="run", disable=not progress)
    with workers(jobs, dask), bar, _counted(bar, set(keys), kept):
        for done in joblib.Parallel(return_as="generator_unordered", pre_dispatch="all")(work):
            for key, result in done.items():
                found[key] = result
                if key not in kept:  # the worker has no folder in common with us
                    kept.save(key, result)
            _show(bar, len(found))
    return [found[key] for key in keys]


def _parts(items, most):
    return [dict(items[first : first + most]) for first in range(0, len(items), most)] if most else [dict(items)]


def _keep(function, chunk, cache):
    done = {}
    with threadpool_limits(1):
        for key, (name, task) in chunk.items():
            try:
                done[key] = function(*task)
            except Exception as error:
                kind = InputError if isinstance(error, InputError) else RuntimeError
                raise kind(f"run failed: {name}: {error}") from error
            cache.save(key, done[key])
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
