"""Means over seeds with their spread: t intervals and bootstrap intervals (BCa)."""

import numpy as np
import pandas as pd
from scipy import stats

from ocrrlib.errors import InputError
from ocrrlib.statistics.student import LEVEL, SAME

RESAMPLES = 9_999
_BLOCK = 2**22  # numbers drawn at a time


def _bca(values, resamples):
    """Bootstrap intervals of the means of rows that are not constant, (m, n) to two of (m,)."""
    mean, size = values.mean(axis=1, keepdims=True), np.ptp(values, axis=1, keepdims=True)

    def centre(sample, axis):  # equal means stay equal, however they were summed
        return np.round(sample.mean(axis=axis), 12)

    found = stats.bootstrap(
        ((values - mean) / size,),
        centre,
        n_resamples=resamples,
        batch=max(1, _BLOCK // values.size),
        axis=-1,
        confidence_level=LEVEL,
        method="BCa",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return [mean[:, 0] + size[:, 0] * bound for bound in (found.low, found.high)]


def intervals(values, resamples=RESAMPLES):
    """Mean, standard deviation and two intervals of the mean for each row.

    Parameters
    ----------
    values : (m, n) array or (n,) array
        One row per quantity, one column per seed.
    resamples : int
        Bootstrap resamples; all rows share them.

    Returns
    -------
    DataFrame
        One row per quantity: ``mean``, ``sd`` (division by n - 1), ``t_low``, ``t_high``
        (Student's t) and ``bca_low``, ``bca_high`` (bias-corrected and accelerated bootstrap;
        Efron 1987).  Equal values have intervals of no width; one value has none: NaN.

    Raises
    ------
    InputError
        If a value is not finite or there is none.
    """
    values = np.atleast_2d(np.asarray(values, float))
    if not (values.shape[1] and np.isfinite(values).all()):
        raise InputError("an interval needs values that are all finite: leave out what was not measured")
    m, n = values.shape
    mean, same = values.mean(axis=1), np.ptp(values, axis=1) <= SAME * np.abs(values).max(axis=1)
    if n == 1:
        nothing = np.full(m, np.nan)
        return pd.DataFrame({"mean": mean} | dict.fromkeys(("sd", "t_low", "t_high", "bca_low", "bca_high"), nothing))
    sd = np.where(same, 0.0, values.std(axis=1, ddof=1))
    half = stats.t.ppf((1 + LEVEL) / 2, n - 1) * sd / np.sqrt(n)
    low, high = mean.copy(), mean.copy()
    if not same.all():
        low[~same], high[~same] = _bca(values[~same], resamples)
    return pd.DataFrame(
        {"mean": mean, "sd": sd, "t_low": mean - half, "t_high": mean + half, "bca_low": low, "bca_high": high}
    )
