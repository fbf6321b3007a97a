"""At least as good as another system, but for a margin: what may be said, and what the plain means say."""

import numpy as np
import pandas as pd
from scipy import stats

from ocrrlib.errors import InputError, pick
from ocrrlib.statistics.pairs import by_seed, differences

MARGIN = 0.01  # one percentage point
LEVEL = 0.95  # confidence of lower bounds


def noninferiority(runs, candidate, margin=MARGIN):
    """A candidate against every other system of its cell, on the same seeds.

    Systems are "at least equal within the margin" where the one-sided lower bound of the mean
    difference (Student's t over pairs) is above ``-margin``.  To say so of all others at once needs
    no correction for their number, since every single test must succeed (Berger 1982).

    Parameters
    ----------
    runs : DataFrame
        One row per run: dataset, policy, seed, system and the metrics; higher is better.
    candidate : str
        The system in question.
    margin : float
        What may be lost, in the metrics' unit.

    Returns
    -------
    DataFrame
        One row per dataset, policy, metric and other ``system``: ``difference`` (candidate minus other, mean
        over seeds), its lower bound ``low``, ``at_least_equal``, and ``plainly``: "ahead", "level"
        or "behind" by the mean difference alone.

    Raises
    ------
    InputError
        If systems of a cell have different seeds, there is only one seed, or the candidate is missing.
    """
    rows = []
    for metric in ("novel", "original"):
        for (dataset, policy), table in by_seed(runs, metric):
            own, n = pick("system", candidate, dict(table.items())), len(table)
            if n < 2:
                raise InputError(f"{dataset}, {policy}: one seed bounds nothing: give at least two")
            for system, other in table.drop(columns=candidate).items():
                d = differences(own, other)
                mean = d.mean()
                low = mean - stats.t.ppf(LEVEL, n - 1) * d.std(ddof=1) / np.sqrt(n)
                cell = {"dataset": dataset, "policy": policy, "metric": metric, "system": system}
                plainly = ("behind", "level", "ahead")[int(np.sign(np.round(mean, 12))) + 1]
                cell |= {"difference": mean, "low": low, "at_least_equal": bool(low > -margin), "plainly": plainly}
                rows.append(cell)
    return pd.DataFrame(rows)


def low_both(resampled, candidate):
    """The same lower bound where test rows count as drawn, too: that of ``noninferiority`` takes them as they are.

    Seeds and test rows are drawn anew together; the bound is the mean difference less Student's t times the spread
    of its resamples, brought to the size of that over seeds (n - 1).

    Parameters
    ----------
    resampled : iterable
        As ``resampling.resampled_cells`` yields it, with ``both``.
    candidate : str
        The system in question.

    Returns
    -------
    DataFrame
        One row per dataset, policy, metric and other ``system``: ``low_both``.
    """
    found = []
    for (dataset, policy), accuracies, drawn in resampled:
        for (metric, table), anew in zip(accuracies.items(), drawn["both"]):
            own, n = pick("system", candidate, {name: at for at, name in enumerate(table)}), len(table)
            spread = (anew[:, [own]] - anew).std(axis=0) * np.sqrt(n / (n - 1))
            low = table[candidate].mean() - table.mean() - stats.t.ppf(LEVEL, n - 1) * spread
            names = {"dataset": dataset, "policy": policy, "metric": metric}
            found.append(pd.DataFrame(names | {"system": table.columns, "low_both": low.to_numpy()}).drop(index=own))
    return pd.concat(found, ignore_index=True)
