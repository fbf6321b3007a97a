"""Where our own system was set: on training rows, weighted by the class counts of the test sets, with own seeds."""

from dataclasses import replace

import numpy as np

from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream

FOLDS = 4
CATCH_ALL = "oos"  # a class of what belongs nowhere: what is asked later need not be like what was collected


def halves(X, places, times):
    """Rows cut in two along the direction in which they vary most, and so on: lists of places, 2**times of them."""
    if not times:
        return [places]
    centred = X[places] - X[places].mean(axis=0, dtype=np.float64)
    axis = np.linalg.svd(centred, full_matrices=False)[2][0]
    order = places[np.argsort(centred @ axis * np.sign(axis[np.abs(axis).argmax()]), kind="stable")]
    return [part for half in np.array_split(order, 2) for part in halves(X, half, times - 1)]


def from_training_rows(data, fold):
    """A dataset made of another one's training rows: of each class a fourth, drawn at random, is for testing.

    Of the class ``CATCH_ALL`` it is a fourth that lies apart from the others.
    The folds, 0 to 3, have all training rows between them as test rows.
    """
    rng, tested = np.random.default_rng(0), np.zeros(len(data.y_train), bool)
    for label, name in enumerate(data.classes):
        rows = rng.permutation(np.flatnonzero(data.y_train == label))
        parts = halves(data.X_train, rows, 2) if name == CATCH_ALL else np.array_split(rows, FOLDS)
        tested[parts[fold]] = True
    parts = {"X_train": data.X_train[~tested], "y_train": data.y_train[~tested]}
    parts |= {"X_test": data.X_train[tested], "y_test": data.y_train[tested]}
    return replace(data, **parts)


def row_weights(data, own):
    """What a test row of each class of ``own`` counts, (C,): all classes weigh as in the test rows of ``data``.

    All that is read of the test sets is how many rows of each class they have, which is published.
    """
    wanted, there = (np.bincount(one.y_test, minlength=len(data.classes)) for one in (data, own))
    return wanted / np.maximum(there, 1)


def accuracy(data, weights, policy, seed, entry):
    """Final novel and original accuracy of a system over whole test sets.

    Parameters
    ----------
    data : Embedded
        As from ``from_training_rows``.
    weights : (C,) float
        What a row of each class counts.
    policy : str
        Name of a policy.
    seed : int
        Of the scenario and the system.
    entry : Entry
        The system, as in the registry.
    """
    scenario = make_scenario(data, seed, cap=None)
    *_, last = run_stream(entry.make(seed), scenario, POLICIES[policy], every=len(scenario.y_stream))
    parts = np.split(last.answers, [len(scenario.y_novel)])
    return {
        axis: float(np.average(answers == y, weights=weights[y]))
        for axis, answers, y in zip(("novel", "original"), parts, (scenario.y_novel, scenario.y_original))
    }
