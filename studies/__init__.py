"""Studies of single notebooks beside the sweep: scale, costs, harder streams, spread over seeds, tuning."""

from ocrrlib import tasks as _tasks
from ocrrlib.provenance import digest


def run_tasks(function, tasks, jobs=1, cache=None, progress=True, dask=None):
    """``function(*args)`` for every task (key dict, args), in order; finished ones are found in the cache."""
    work = [_tasks.Task((), args, digest(key), str(key)) for key, args in tasks]
    return _tasks.run_tasks(function, work, jobs, cache, progress, dask)
