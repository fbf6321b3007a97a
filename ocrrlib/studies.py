"""Many small pieces of work: in parallel, each kept as soon as it is finished."""

from itertools import islice

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ocrrlib.cache import RunCache
from ocrrlib.errors import InputError

CHUNK = 20  # tasks that belong together and that one worker does in a row


def run_tasks(function, tasks, keys, jobs=1, cache=None, progress=True, together=None):
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
    together : list of hashable, optional
        One for each task; those with the same one share work, so that a worker does them in a row.

    Raises
    ------
    InputError
        If ``jobs`` is out of range.
    """
    if jobs < 1:
        raise InputError(f"{jobs} jobs are too few: give at least 1")
    kept = RunCache(cache)
    found = {key: done for key in keys if (done := kept.load(key)) is not None}
    groups = {}
    for key, task, group in zip(keys, tasks, together or keys):
        if key not in found:
            groups.setdefault(group, {})[key] = task
    chunks = [dict(part) for group in groups.values() for part in _batches(group.items())]
    work = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(_keep)(function, chunk, kept) for chunk in chunks
    )
    with tqdm(total=len(set(keys)), initial=len(found), unit="run", disable=not progress) as bar:
        for done in work:
            found |= done
            bar.update(len(done))
    return [found[key] for key in keys]


def _batches(items):
    items = iter(items)
    return iter(lambda: list(islice(items, CHUNK)), [])


def _keep(function, chunk, cache):
    done = {}
    for key, task in chunk.items():
        with threadpool_limits(1):
            done[key] = function(*task)
        cache.save(key, done[key])
    return done
