"""Accuracy over the whole way, not only at its end: normalised areas under a run's curves."""

import numpy as np

from ocrrlib.errors import InputError, pick
from ocrrlib.metrics import RUN, final
from ocrrlib.policies import POLICIES


def allowed(policy, seed, n):
    """The most corrections that a policy allows in ``n`` stream steps: its coins that say yes."""
    return int(pick("policy", policy, POLICIES).draws(seed, n).sum())


def anytime(results):
    """Mean accuracy over stream steps, and over the corrections that a run's policy allows.

    Trapezoids: a system is seen every so many steps only and changes in between, so that
    steps, which keep what was seen last, would be late by half an interval.  Corrections go on
    to the most that the policy allows, whichever systems are compared: after its last one a
    system stays where it is.

    Parameters
    ----------
    results : DataFrame
        One row per checkpoint, each run's from step 0 on and in order.

    Returns
    -------
    DataFrame
        One row per run in order of appearance: ``metrics.RUN``, ``allowed`` corrections, and
        ``novel_over_steps``, ``original_over_steps``, ``novel_over_corrections``,
        ``original_over_corrections``, all fractions of the test rows.

    Raises
    ------
    InputError
        If a run's checkpoints do not begin at step 0 or go back, or it has more corrections
        than its policy allows.
    """
    run = results.groupby(RUN, sort=False, observed=True).ngroup().to_numpy()
    rows = results.iloc[np.argsort(run, kind="stable")]
    run = np.sort(run)
    first = np.flatnonzero(np.diff(run, prepend=-1))
    last = np.append(first[1:], len(run)) - 1
    steps, made = rows["step"].to_numpy(), rows["corrections"].to_numpy()
    found = rows.iloc[last][RUN].reset_index(drop=True)
    found["allowed"] = [allowed(*one) for one in zip(found["policy"], found["seed"], steps[last])]

    inside = np.diff(run) == 0
    backwards = inside & ((np.diff(steps) < 0) | (np.diff(made) < 0))
    for wrong, why in (
        (steps[first] != 0, "has no checkpoint at step 0 in its first place"),
        (np.bincount(run[1:][backwards], minlength=len(first)) > 0, "goes back in steps or corrections"),
        (made[last] > found["allowed"], "has more corrections than its policy allows"),
    ):
        if np.any(wrong):
            raise InputError(f"run {tuple(found[wrong][RUN].iloc[0])} {why}: give whole runs, as `sweep` returns them")

    for over, at, span in (("steps", steps, steps[last]), ("corrections", made, found["allowed"].to_numpy())):
        for axis in ("novel", "original"):
            accuracy = rows[f"{axis}_acc"].to_numpy()
            slices = np.diff(at) * (accuracy[1:] + accuracy[:-1]) / 2
            area = np.bincount(run[1:][inside], weights=slices[inside], minlength=len(first))
            area = area + (span - at[last]) * accuracy[last]
            # Where there is no way to go, a run is where it ends.
            found[f"{axis}_over_{over}"] = np.where(span > 0, area / np.maximum(span, 1), accuracy[last])
    return found


def measure(results):
    """One row per run: final ``novel`` and ``original`` accuracy, ``corrections`` and what ``anytime`` adds."""
    last = final(results).rename(columns={"novel_acc": "novel", "original_acc": "original"})
    return last[[*RUN, "novel", "original", "corrections"]].merge(anytime(results), on=RUN, validate="one_to_one")
