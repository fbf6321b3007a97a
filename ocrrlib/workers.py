"""Where work runs: in this process, in others beside it, or on a Dask cluster."""

from contextlib import contextmanager

import joblib

from ocrrlib.errors import InputError

PATIENCE = 10  # seconds that a scheduler has to answer


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


@contextmanager
def workers(jobs, dask=None, common=()):
    """While entered, joblib's parallel work goes to so many processes here, or to the Dask cluster at this address.

    Arguments of this work that are among ``common`` go to each worker of the cluster once.

    Raises
    ------
    InputError
        If ``jobs`` is out of range, or no scheduler answers.
    """
    if jobs < 1:
        raise InputError(f"{jobs} jobs are too few: give at least 1")
    if dask:
        check_scheduler(dask)
        from distributed import Client

        with Client(dask), joblib.parallel_config(backend="dask", n_jobs=-1, scatter=list(common)):
            yield
    elif jobs == 1:
        with joblib.parallel_config(backend="sequential"):
            yield
    else:
        # One thread each, so that sums are made in one order whatever the machine.
        with joblib.parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=1):
            yield
