"""Many small pieces of work: in parallel, each kept as soon as it is finished."""

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ocrrlib.cache import RunCache
from ocrrlib.errors import InputError


def each(function, tasks, keys, jobs=1, cache=None, progress=True):
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

    Raises
    ------
    InputError
        If ``jobs`` is out of range.
    """
    if jobs < 1:
        raise InputError(f"{jobs} jobs are too few: give at least 1")
    kept = RunCache(cache)
    found = {key: done for key in keys if (done := kept.load(key)) is not None}
    todo = {key: task for key, task in zip(keys, tasks) if key not in found}
    work = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(_keep)(function, task, key, kept) for key, task in todo.items()
    )
    with tqdm(total=len(tasks), initial=len(tasks) - len(todo), unit="run", disable=not progress) as bar:
        for key, done in work:
            found[key] = done
            bar.update()
    return [found[key] for key in keys]


def _keep(function, task, key, cache):
    with threadpool_limits(1):
        done = function(*task)
    cache.save(key, done)
    return key, done
