"""Systems compared on the same seeds: the same draw, order and coins, so that differences are pairs."""

import numpy as np
import pandas as pd
from statsmodels.stats.multitest import multipletests

from ocrrlib.errors import InputError, pick
from ocrrlib.metrics import CELL
from ocrrlib.statistics.intervals import RESAMPLES, SAME, intervals

EXACT = 20  # up to so many pairs, all flips of signs are looked at
FLIPS = 99_999  # and so many random ones beyond
_TIE = 1e-9  # sums this close, relative to the sum of all sizes, are equal but for rounding
_BLOCK = 2**20  # random signs drawn at a time


def by_seed(runs, column):
    """One table per cell, seeds by systems, both in order of appearance.

    Parameters
    ----------
    runs : DataFrame
        One row per run: dataset, policy, seed, system, ``column``.
    column : str
        What to compare.

    Yields
    ------
    (dataset, policy), DataFrame

    Raises
    ------
    InputError
        If systems of a cell do not have the same seeds, or one has a seed twice.
    """
    for cell, own in runs.groupby(CELL[:2], sort=False, observed=True):
        place = ", ".join(map(str, cell))
        runs_of = pd.crosstab(own["seed"], own["system"])
        for wrong, what in ((runs_of > 1, "twice"), (runs_of == 0, "not at all, though others have it")):
            if wrong.any(axis=None):
                seed, system = wrong.stack().idxmax()
                raise InputError(f"{place}: {system} has seed {seed} {what}: give every system each seed once")
        table = own.pivot(index="seed", columns="system", values=column)
        yield cell, table.loc[own["seed"].unique(), own["system"].unique()]


def differences(system, other):
    """``system - other``, pair by pair; what is only rounding is zero."""
    system, other = np.asarray(system, float), np.asarray(other, float)
    found = system - other
    return np.where(np.abs(found) <= SAME * np.maximum(np.abs(system), np.abs(other)), 0.0, found)


def _signed_sums(values):
    """Sums of the values under all choices of signs, (2 ** n,)."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums - value, sums + value])
    return sums


def flip_p(d, flips=FLIPS):
    """How probable a mean at least this far from 0 is if each difference might as well have the other sign.

    Exact over all 2 ** n flips up to ``EXACT`` differences other than 0; beyond, the share among
    ``flips`` random ones and the one that was seen (Phipson and Smyth 2010), which is never 0.

    Parameters
    ----------
    d : (n,) array
        Paired differences.

    Returns
    -------
    float
        Two-sided p-value.
    """
    d = np.asarray(d, float)
    d = d[d != 0]  # a zero is the same with either sign
    sizes = np.abs(d)
    far = abs(d.sum()) - _TIE * sizes.sum()
    if far <= 0:
        return 1.0
    if len(d) <= EXACT:  # meet in the middle: every sum is one of the first half plus one of the second
        first, second = _signed_sums(sizes[::2]), np.sort(_signed_sums(sizes[1::2]))
        above = len(second) - np.searchsorted(second, far - first, side="left")
        return float(2 * above.sum() / 2 ** len(d))  # sums are symmetric about 0
    rng, seen, left = np.random.default_rng(0), 0, flips
    while left:
        rows = min(left, max(1, _BLOCK // len(d)))
        seen += np.count_nonzero(np.abs(rng.choice([-1.0, 1.0], (rows, len(d))) @ sizes) >= far)
        left -= rows
    return (seen + 1) / (flips + 1)


def improvement(d):
    """Probability that a pair's difference is above 0, ties counted half; (..., n) to (...)."""
    return ((np.sign(d) + 1) / 2).mean(axis=-1)


def compare(table, reference, resamples=RESAMPLES):
    """Every system against a reference, pair by pair.

    Parameters
    ----------
    table : DataFrame
        Seeds by systems, higher is better.
    reference : str
        The system to compare to.

    Returns
    -------
    DataFrame
        One row per other system, indexed by its name: ``difference`` (system minus reference, mean over
        seeds) with ``difference_sd``, ``difference_t_low``, ... as in ``intervals``; ``p`` of
        flipped signs, ``p_holm`` over the systems here; ``improvement``, the probability of a better result
        than the reference's.

    Raises
    ------
    InputError
        If the reference is missing.
    """
    own = pick("system", reference, dict(table.items()))
    others = table.drop(columns=reference)
    d = differences(others.T, own)
    if others.empty:
        return pd.DataFrame()
    found = intervals(d, resamples).add_prefix("difference_")
    found = found.rename(columns={"difference_mean": "difference"}).set_index(others.columns)
    found["p"] = [flip_p(row) for row in d]
    found["p_holm"] = multipletests(found["p"], method="holm")[1]
    found["improvement"] = improvement(d)
    return found
