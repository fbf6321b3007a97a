"""What a correction and a prediction cost, through the public contract, one at a time (paper, section 5.7)."""

import time

import numpy as np
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ocrrlib.policies import POLICIES
from ocrrlib.scale import check_memory, timed
from ocrrlib.stream import run_stream
from ocrrlib.synthetic import Synthetic
from ocrrlib.systems import make

TURN = 25  # items that one system gets before it is the next one's turn
QUANTILES = {"median": 0.5, "low": 0.05, "high": 0.95}


def microseconds(times, name):
    """Median and 5-95 % of times in seconds, in microseconds, as ``<name>_median`` and so on."""
    return {f"{name}_{key}": 1e6 * float(np.quantile(times, q)) for key, q in QUANTILES.items()}


def fitted(name, scenario):
    """A system that has seen the initial rows of a scenario.

    Raises
    ------
    InputError
        If a library that it needs is not installed.
    """
    s = scenario
    return make(name, s.seed, s.encoder).fit(s.X_initial, s.y_initial, s.classes)


def turns(system, scenario, items=300):
    """Costs of a fitted system on the first items of a stream: each is predicted, then corrected, ``TURN`` in a row.

    Yields
    ------
    dict with microseconds per prediction and correction until now, and bytes held
    """
    s, predict, correct = scenario, [], []
    places = np.arange(min(items, len(s.y_stream)))
    for turn in np.split(places, places[TURN::TURN]):
        for i in turn:
            predict += timed(system.predict, [(s.X_stream[i : i + 1],)])
            correct += timed(system.correct, [(s.X_stream[i], int(s.y_stream[i]))])
        costs = microseconds(predict, "predict") | microseconds(correct, "correct")
        yield {**costs, "bytes": system.storage().bytes}


def of_items(measured, progress=True):
    """Take ``turns`` of several systems by turns, so that a slow minute of the machine meets all of them.

    Parameters
    ----------
    measured : list of iterators
        ``turns`` of one system each.

    Returns
    -------
    list of dict
        The last costs of each.
    """
    rows, going = [{}] * len(measured), dict(enumerate(measured))
    with threadpool_limits(1), tqdm(desc="items", unit="turn", disable=not progress) as bar:
        while going:
            for place, one in list(going.items()):
                costs = next(one, None)
                if costs is None:
                    del going[place]
                else:
                    rows[place] = costs
                    bar.update()
    return rows


def of_seed(name, scenario):
    """Seconds of one whole run of the benchmark: fit, stream, corrections and all evaluations."""
    with threadpool_limits(1):
        started = time.perf_counter()
        for _ in run_stream(make(name, scenario.seed, scenario.encoder), scenario, POLICIES["oracle"]):
            pass
        return time.perf_counter() - started


def of_ledger(name, n, dim=384, items=200, classes=100, noise=0.12, copied=2**29):
    """The same for a substrate whose ledger holds ``n`` synthetic entries.

    Between searches one thread copies ``copied`` bytes: ``bandwidth`` is the median of the bytes a second that it
    reads or writes.
    """
    source, target = np.ones((2, copied), np.uint8)  # in use before what is free is asked for
    check_memory(n, dim)
    data = Synthetic(n, min(classes, n), noise, dim=dim)
    X, y = data.rows(0, n), data.labels(0, n)
    Q, labels = data.queries(items)
    predict, copies = [], []
    with threadpool_limits(1):
        system = make(name).fit(X, y, range(data.classes))
        system.predict(Q[:1])
        for turn in np.split(Q, range(TURN, items, TURN)):
            predict += timed(system.predict, [(q[None],) for q in turn])
            copies += timed(np.copyto, [(target, source)])
        correct = timed(system.correct, list(zip(Q, labels.tolist())))
    costs = microseconds(predict, "predict") | microseconds(correct, "correct")
    held = {"bytes": system.storage().bytes, "bandwidth": 2 * copied / float(np.median(copies))}
    return {"system": name, "entries": n, **costs, **held}
