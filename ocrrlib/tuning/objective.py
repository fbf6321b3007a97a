"""The search's objective: that of the target (see ``studies.target``)."""

import numpy as np
import pandas as pd
from scipy import stats

from studies.statistics import AXES, CELL
from studies.target import means

BOUNDED, LEVEL = 4, 0.95  # seeds that make a bound, and how sure it is


def behind(rows, candidates):
    """How far each candidate is behind, as the objective has it; lower is better.

    Parameters
    ----------
    rows : DataFrame
        system, dataset, policy, seed, ``novel``, ``original``; all of the same seeds.
    candidates : list of str
        Systems that are rated; the others are rivals.

    Returns
    -------
    Series
        By candidate: the most that is lost to any rival that has not collapsed, on either axis of any cell, at
        its one-sided 95 % bound; below 0 where ahead of all. Fewer than ``BOUNDED`` seeds say little of their
        spread: then the mean difference is taken.
    """
    rivals = means(rows[~rows["system"].isin(candidates)])
    left = rivals[~rivals["collapsed"]].groupby(CELL)["system"].agg(list)
    worst = []
    for axis in AXES:
        for cell, table in rows.pivot(index=[*CELL, "seed"], columns="system", values=axis).groupby(CELL):
            own, others = table[list(candidates)].to_numpy(), table[left[cell]].to_numpy()
            differences = own[:, :, None] - others[:, None]
            low, n = differences.mean(axis=0), len(table)
            if n >= BOUNDED:
                low = low - stats.t.ppf(LEVEL, n - 1) * differences.std(axis=0, ddof=1) / np.sqrt(n)
            worst.append(-low.min(axis=1))
    return pd.Series(np.max(worst, axis=0), pd.Index(candidates, name="system")).sort_values(kind="stable")
