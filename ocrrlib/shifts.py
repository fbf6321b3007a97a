"""Other streams and other starts from the same rows: each turns a scenario into a scenario."""

from dataclasses import replace

import numpy as np

from ocrrlib.errors import InputError, pick


def _halves(m):
    """The ranks of the ``m`` rows of a class, those of the inner half and of the outer one."""
    return np.arange(m // 2), np.arange(m // 2, m)


def _abrupt(m, rng):
    inner, outer = map(rng.permutation, _halves(m))
    return np.concatenate([inner, outer])


def _gradual(m, rng):
    return np.arange(m)


def _recurring(m, rng):
    inner, outer = (np.array_split(rng.permutation(half), 2) for half in _halves(m))
    return np.concatenate([inner[0], outer[0], inner[1], outer[1]])


# In which order the rows of a class come, by rank of their distance to its centre.
DRIFTS = {"abrupt": _abrupt, "gradual": _gradual, "recurring": _recurring}


def from_centre_outwards(scenario, how):
    """The same stream rows, those near the centre of their class first; which class comes when stays as it was.

    Parameters
    ----------
    scenario : Scenario
        Its test sets hold rows near and far, as ever.
    how : str
        ``gradual``: in order of distance. ``abrupt``: the inner half of a class, then the outer one, both
        in random order. ``recurring``: halves of the inner and of the outer half in turn, twice.

    Raises
    ------
    InputError
        If there is no such drift.
    """
    order_of, X, y = pick("drift", how, DRIFTS), scenario.X_stream.astype(np.float64), scenario.y_stream
    rng, order = np.random.default_rng([scenario.seed, 6]), np.arange(len(y))
    for label in np.unique(y):
        places = np.flatnonzero(y == label)
        rows = X[places]
        distances = ((rows - rows.mean(axis=0)) ** 2).sum(axis=1)
        outwards = places[np.argsort(distances, kind="stable")]
        order[places] = outwards[order_of(len(places), rng)]
    return replace(scenario, X_stream=scenario.X_stream[order])


def keep_known(scenario, n):
    """The same stream for a system that starts with ``n`` random known classes; fewer are among more.

    Raises
    ------
    InputError
        If there are not so many, or ``n`` is below 1.
    """
    known = np.unique(scenario.y_initial)
    if not 1 <= n <= len(known):
        raise InputError(f"cannot keep {n} known classes of {len(known)}: give 1 to {len(known)}")
    kept = np.random.default_rng([scenario.seed, 7]).permutation(known)[:n]
    initial, original = np.isin(scenario.y_initial, kept), np.isin(scenario.y_original, kept)
    return replace(
        scenario,
        X_initial=scenario.X_initial[initial],
        y_initial=scenario.y_initial[initial],
        X_original=scenario.X_original[original],
        y_original=scenario.y_original[original],
    )
