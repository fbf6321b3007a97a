"""Corrections to reach a level as censored data: a run that never gets there counts for as long as it went."""

import numpy as np
import pandas as pd
from statsmodels.duration.survfunc import SurvfuncRight

from ocrrlib.metrics import CELL, LEVELS, RUN, corrections_to, final
from ocrrlib.statistics.intervals import LEVEL


def median(times, reached, level=LEVEL):
    """Kaplan and Meier's median (1958) with Brookmeyer and Crowley's interval (1982; log-log transform).

    Parameters
    ----------
    times : (n,) array
        When a run got there, or how long it went without.
    reached : (n,) bool
        Which got there.
    level : float
        Confidence of the interval.

    Returns
    -------
    median, low, high : float
        NaN for what is not known: the median where the curve never falls to one half, a
        bound where the interval is open or too few runs are left to say.  Where the curve stays at
        one half for a while, the median is the middle of that while, as it is of an even number of plain values.
    """
    times, reached = np.asarray(times, float), np.asarray(reached, bool)
    if not reached.any():
        return np.nan, np.nan, np.nan
    curve = SurvfuncRight(times, reached.astype(int))
    left, at = np.round(curve.surv_prob, 12), curve.surv_times
    half, below = at[left <= 0.5], at[left < 0.5]
    middle = (half[0] + (below[0] if len(below) else half[0])) / 2 if len(half) else np.nan
    with np.errstate(all="ignore"):  # where nothing is left, the transform is infinite
        low, high = curve.quantile_ci(0.5, alpha=1 - level)
    if np.isnan(low):  # one leap over all that could be the median: exact if enough runs leap, else nothing is known
        leapt = curve.n_risk[left <= 0.5].max(initial=0)
        low = high = middle if 2 * 0.5**leapt <= 1 - level else np.nan
    return middle, low, high if np.isfinite(high) else np.nan


def corrections_to_levels(results, levels=LEVELS):
    """Median corrections until N % novel accuracy is first seen at a checkpoint.

    Parameters
    ----------
    results : DataFrame
        One row per checkpoint.
    levels : sequence of int
        Novel accuracies in %.

    Returns
    -------
    DataFrame
        One row per dataset, policy, system and ``to`` (the level): ``seeds``, ``reached`` (how many got
        there), ``median``, ``low``, ``high``.  Runs that never got there are censored at the corrections
        they made in all.
    """
    runs = final(results)
    which = pd.MultiIndex.from_frame(runs[RUN])
    firsts = {to: corrections_to(results, to).reindex(which).to_numpy() for to in levels}
    rows = []
    for cell, own in runs.groupby(CELL, sort=False, observed=True).indices.items():
        for to, first in firsts.items():
            reached = np.isfinite(first[own])
            times = np.where(reached, first[own], runs["corrections"].to_numpy()[own])
            found = dict(zip(("median", "low", "high"), median(times, reached)))
            rows.append(dict(zip(CELL, cell)) | {"to": to, "seeds": len(own), "reached": int(reached.sum())} | found)
    return pd.DataFrame(rows)
