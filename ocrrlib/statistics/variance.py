"""Where the spread over seeds comes from: the held-out draw, the order of the stream, the coins."""

from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats

from ocrrlib.errors import InputError
from ocrrlib.statistics.intervals import LEVEL, SAME

FACTORS = ("draw", "order", "coins")
SOURCES = tuple(":".join(part) for size in (1, 2, 3) for part in combinations(FACTORS, size))

# Components that count as one. Order k is the k-th shuffling of whatever sentences stream by, so that in another
# draw little but its name is the same, and the k-th coins fall on other items in another order: all is nested.
SPLIT = {
    "draw": ("draw",),
    "order": ("order", "draw:order"),
    "coins": tuple(source for source in SOURCES if "coins" in source),
}


def components(values):
    """Variance components of a balanced three-way crossed design with one value per cell, all factors random.

    By the method of moments: mean squares equal their expectations (Searle, Casella and
    McCulloch, Variance Components, 1992, chapter 4).

    Parameters
    ----------
    values : (draws, orders, coins) array
        At least two of each.

    Returns
    -------
    Series
        An unbiased estimate for each of ``SOURCES``, which may be negative; the last holds the
        three-way interaction and whatever noise there is.

    Raises
    ------
    InputError
        If a factor has one level only, or a value is not finite.
    """
    values = np.asarray(values, float)
    if values.ndim != 3 or min(values.shape) < 2 or not np.isfinite(values).all():
        raise InputError(f"values of shape {values.shape}: give finite ones, three factors of at least two levels each")
    effects, squares = {}, {}
    for part in [(), *(part for size in (1, 2, 3) for part in combinations(range(3), size))]:
        others = tuple(axis for axis in range(3) if axis not in part)
        effect = values.mean(axis=others, keepdims=True)
        # What is left of these means when all that smaller parts explain is taken away.
        effect = effect - sum(effects[less] for less in effects if set(less) < set(part))
        effects[part] = effect
        repeats = np.prod([values.shape[axis] for axis in others])
        degrees = np.prod([values.shape[axis] - 1 for axis in part])
        squares[part] = repeats * (effect**2).sum() / degrees
    found = {}
    for part in list(squares)[:0:-1]:  # from the largest, whose mean square has no other in it
        more = [bigger for bigger in found if set(bigger) > set(part)]
        repeats = {p: np.prod([values.shape[axis] for axis in range(3) if axis not in p]) for p in (part, *more)}
        found[part] = (squares[part] - sum(repeats[p] * found[p] for p in more)) / repeats[part]
    estimates = np.array([found[part] for part in list(squares)[1:]])
    rounding = max(SAME * np.abs(estimates).max(), (SAME * np.abs(values).max()) ** 2)
    return pd.Series(np.where(np.abs(estimates) <= rounding, 0.0, estimates), index=SOURCES)


def draw_interval(values):
    """Bounds of the draw's share of the variance, from 0 to 1: the F interval of one-way analysis (Searle et al., 3.5).

    It takes the streams within a draw to be independent, so it is a rough one.

    Parameters
    ----------
    values : (draws, orders, coins) array
        As for ``components``.
    """
    rows = np.asarray(values, float).reshape(len(values), -1)
    (n, m), means = rows.shape, rows.mean(axis=1)
    within = ((rows - means[:, None]) ** 2).sum() / (n * (m - 1))
    ratio = m * means.var(ddof=1) / within if within else np.inf
    ends = (ratio / stats.f.ppf(q, n - 1, n * (m - 1)) for q in ((1 + LEVEL) / 2, (1 - LEVEL) / 2))
    return tuple(float(np.clip((end - 1) / (end + m - 1), 0, 1)) if np.isfinite(end) else 1.0 for end in ends)


def shares(study, metrics):
    """How much of the variance each source makes up, for every system and metric.

    Parameters
    ----------
    study : DataFrame
        As ``cross`` returns it.
    metrics : sequence of str
        Columns to explain.

    Returns
    -------
    DataFrame
        One row per dataset, system, metric, ``source`` (draw, order within draw, coins within order): ``variance``,
        ``share`` in %, and ``below_zero``: whether the estimate was negative.  Such a one is shown as 0, so that
        shares add up to 100; where nothing varies, they are NaN.  Of the draw's share also ``low`` and ``high``,
        as from ``draw_interval``.

    Raises
    ------
    InputError
        If a system lacks a combination of draw, order and coins, or has one twice.
    """
    rows = []
    for (dataset, system), own in study.groupby(["dataset", "system"], sort=False, observed=True):
        levels = [np.unique(own[factor]) for factor in FACTORS]
        if len(own) != np.prod([len(level) for level in levels]) or own.duplicated(list(FACTORS)).any():
            raise InputError(
                f"{dataset}, {system}: not every draw, order and coins is there once: give the whole cross"
            )
        own = own.sort_values(list(FACTORS))
        for metric in metrics:
            values = own[metric].to_numpy(float).reshape([len(level) for level in levels])
            parts = components(values)
            raw = {source: parts[list(names)].sum() for source, names in SPLIT.items()}
            total = sum(max(value, 0.0) for value in raw.values())
            for source, value in raw.items():
                row = {"dataset": dataset, "system": system, "metric": metric, "source": source}
                row |= {"variance": max(value, 0.0), "share": 100 * max(value, 0.0) / total if total else np.nan}
                bounds = draw_interval(values) if source == "draw" and total else (np.nan, np.nan)
                row |= {"low": 100 * bounds[0], "high": 100 * bounds[1]}
                rows.append(row | {"below_zero": value < 0})
    return pd.DataFrame(rows)
