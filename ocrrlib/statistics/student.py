"""Student's t for whole degrees of freedom, in plain arithmetic: intervals of a mean need no SciPy."""

import math

import numpy as np

from ocrrlib.errors import InputError

LEVEL = 0.95
SAME = 1e-12  # differences this small, relative to the values, are rounding


def _inside(theta, df):
    """P(|T| < sqrt(df) tan(theta)); Abramowitz and Stegun 26.7.3 for odd ``df``, 26.7.4 for even ones."""
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = df % 2
    term = total = cosine if odd else 1.0
    for k in range(3 if odd else 2, df - 1, 2):
        term *= (k - 1) / k * cosine**2
        total += term
    if odd:
        return 2 / math.pi * (theta + (sine * total if df > 1 else 0.0))
    return sine * total


def quantile(p, df):
    """The ``p`` quantile of Student's t with ``df`` degrees of freedom, by bisection.

    Raises
    ------
    InputError
        If ``p`` is not between 0 and 1 or ``df`` not a whole number from 1 up.
    """
    if not 0 < p < 1:
        raise InputError(f"p {p!r} is out of range: give a probability between 0 and 1")
    if df != int(df) or df < 1:
        raise InputError(f"{df!r} degrees of freedom are out of range: give a whole number from 1 up")
    low, high, wanted, df = 0.0, math.pi / 2, abs(2 * p - 1), int(df)
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _inside(middle, df) < wanted else (low, middle)
    return math.copysign(math.sqrt(df) * math.tan(high), p - 0.5) if wanted else 0.0


def interval(values):
    """Mean, standard deviation and t interval of the mean.

    Parameters
    ----------
    values : (n,) array
        One per seed.

    Returns
    -------
    dict
        ``mean``, ``sd`` (division by n - 1), ``low``, ``high``, ``n``; equal values have an interval
        of no width, one value has none: NaN.

    Raises
    ------
    InputError
        If a value is not finite or there is none.
    """
    values = np.asarray(values, float)
    n = values.size
    if not (n and np.isfinite(values).all()):
        raise InputError("an interval needs values that are all finite: leave out what was not measured")
    mean = float(values.mean())
    if n == 1:
        return {"mean": mean, "sd": math.nan, "low": math.nan, "high": math.nan, "n": n}
    sd = 0.0 if np.ptp(values) <= SAME * np.abs(values).max() else float(values.std(ddof=1))
    half = quantile((1 + LEVEL) / 2, n - 1) * sd / math.sqrt(n)
    return {"mean": mean, "sd": sd, "low": mean - half, "high": mean + half, "n": n}
