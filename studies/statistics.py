"""Statistics over seeds: intervals, paired tests, censored corrections.

A *run* is one system with one seed in one *cell* (dataset and policy); runs of a cell are paired by
their seed.
"""

from functools import reduce

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.duration.survfunc import SurvfuncRight
from statsmodels.stats.multitest import multipletests

from ocrrlib.metrics import AXES as COLUMNS
from ocrrlib.metrics import LEVELS, RUN, corrections_to, final

AXES = ("novel", "original")
CELL = ["dataset", "policy"]
METRICS = (*COLUMNS, "hm", *(f"{axis}_over_steps" for axis in COLUMNS))
REFERENCE = "substrate"
LEVEL = 0.95  # confidence of intervals and bounds
EXACT = 20  # up to so many pairs all sign flips are enumerated
SAME = 1e-12  # differences this small, relative to the values, are rounding


def over_steps(runs, name):
    """Mean of a column of checkpoints over stream steps, by trapezoids: of each run, as ``groupby`` parts them."""
    return [np.trapezoid(run[name], run["step"]) / run["step"].iloc[-1] for _, run in runs]


def measure(results):
    """One row per run of checkpoints: what it ends with, and means over stream steps (``<axis>_over_steps``).

    It ends with ``novel`` and ``original`` accuracy, their harmonic mean ``hm``, ``corrections``
    and ``storage_bytes``; ``start`` is original accuracy before the stream. Where the checkpoints
    have them, ``ausuc`` counts as an axis, and there are ``best_hm`` and ``prequential`` accuracy:
    of the answers that users met.
    """
    runs, last = results.groupby(RUN, sort=False, observed=True), final(results)
    columns = {name: axis for axis, name in COLUMNS.items() if name in results}
    kept = [name for name in ("corrections", "storage_bytes", "best_hm") if name in results]
    found = last[[*RUN, *columns, *kept]].rename(columns=columns)
    found["hm"] = (
        2
        * found["novel"]
        * found["original"]
        / (found["novel"] + found["original"]).clip(lower=1e-300)
    )
    found["start"] = runs["original_acc"].first().to_numpy()
    if "mistakes" in results:
        found["prequential"] = 1 - last["mistakes"] / last["step"]
    return found.assign(
        **{f"{axis}_over_steps": over_steps(runs, name) for name, axis in columns.items()}
    )


def by_seed(runs, *columns):
    """Yield each cell and a table of each column: seeds by systems, both in order of appearance."""
    for cell, own in runs.groupby(CELL, sort=False, observed=True):
        seeds, systems = own["seed"].unique(), own["system"].unique()
        yield (
            cell,
            *(
                own.pivot(index="seed", columns="system", values=name).loc[seeds, systems]
                for name in columns
            ),
        )


def differences(system, other):
    """``system - other``, pair by pair; what is only rounding is zero."""
    system, other = np.asarray(system, float), np.asarray(other, float)
    found = system - other
    return np.where(np.abs(found) <= SAME * np.maximum(np.abs(system), np.abs(other)), 0.0, found)


def t_intervals(values, level=LEVEL):
    """``mean``, ``sd`` and Student's t interval ``low`` to ``high`` of each row of (m, n); NaN for one column."""
    values = np.atleast_2d(np.asarray(values, float))
    n, mean = values.shape[1], values.mean(axis=1)
    if n == 1:
        return pd.DataFrame({"mean": mean} | dict.fromkeys(("sd", "low", "high"), np.nan))
    same = np.ptp(values, axis=1) <= SAME * np.abs(values).max(axis=1)
    sd = np.where(same, 0.0, values.std(axis=1, ddof=1))
    half = stats.t.ppf((1 + level) / 2, n - 1) * sd / np.sqrt(n)
    return pd.DataFrame({"mean": mean, "sd": sd, "low": mean - half, "high": mean + half})


def intervals(values, resamples=9_999):
    """``t_intervals`` (``t_low``, ``t_high``) and BCa bootstrap intervals (``bca_low``, ``bca_high``) of each row."""
    values = np.atleast_2d(np.asarray(values, float))
    found = t_intervals(values).rename(columns={"low": "t_low", "high": "t_high"})
    found["bca_low"] = found["bca_high"] = found["mean"]
    vary = found["sd"].to_numpy() > 0
    if vary.any():
        mean, size = (part(values[vary], axis=1, keepdims=True) for part in (np.mean, np.ptp))
        how = dict(
            n_resamples=resamples,
            batch=1_000,
            axis=-1,
            confidence_level=LEVEL,
            rng=np.random.default_rng(0),
        )
        bounds = stats.bootstrap(
            ((values[vary] - mean) / size,), _rounded_mean, **how
        ).confidence_interval
        found.loc[vary, ["bca_low", "bca_high"]] = mean + size * np.column_stack(bounds)
    return found


def _rounded_mean(sample, axis):
    return np.round(sample.mean(axis=axis), 12)  # equal means stay equal, however summed


def flip_p(d):
    """Two-sided p of paired differences (n,) under flips of their signs (Fisher): exact up to ``EXACT`` of them.

    ``scipy.stats.permutation_test`` enumerates one flip after another, a million for 20 pairs; sums
    of two halves give the same count at once. Beyond, SciPy draws 99,999 flips.
    """
    d = np.asarray(d, float)
    d = d[d != 0]  # a zero is the same with either sign
    far = abs(d.sum()) - 1e-9 * np.abs(d).sum()  # sums this close are equal but for rounding
    if far <= 0:
        return 1.0
    if len(d) > EXACT:
        rng = np.random.default_rng(0)
        return stats.permutation_test(
            (d,), np.mean, permutation_type="samples", n_resamples=99_999, rng=rng
        ).pvalue
    one, other = (
        np.ravel(reduce(np.add.outer, np.outer(half, (-1, 1)), 0.0)) for half in (d[::2], d[1::2])
    )
    above = len(other) - np.searchsorted(np.sort(other), far - one)
    return float(2 * above.sum() / 2 ** len(d))  # sums are symmetric about 0


def accuracies(runs, resamples=9_999):
    """Mean, spread and paired difference to ``REFERENCE`` of every system, metric by metric.

    Returns
    -------
    DataFrame
        dataset, policy, metric, system, ``seeds``, the columns of ``intervals``; with
        ``difference_`` before them those of the difference (its mean: ``difference``); ``p`` of
        flipped signs, ``p_holm`` over the systems of a cell and metric, ``improvement``: the
        probability of a better result, ties counted half. NaN for the reference itself.
    """
    found = {}
    for metric in (metric for metric in METRICS if metric in runs):
        for cell, table in by_seed(runs, metric):
            others = table.drop(columns=REFERENCE)
            d = differences(others.T, table[REFERENCE])
            paired = intervals(d, resamples).add_prefix("difference_").set_index(others.columns)
            paired = paired.rename(columns={"difference_mean": "difference"}).assign(
                p=[flip_p(row) for row in d]
            )
            paired["p_holm"] = multipletests(paired["p"], method="holm")[1]
            paired["improvement"] = ((np.sign(d) + 1) / 2).mean(axis=-1)
            own = intervals(table.T, resamples).set_index(table.columns)
            own.insert(0, "seeds", len(table))
            found[*cell, metric] = own.join(paired)
    return pd.concat(found, names=[*CELL, "metric"]).reset_index()


def median(times, reached):
    """Kaplan-Meier median (1958) and its interval (Brookmeyer and Crowley 1982, log-log); NaN for what is not known.

    ``times`` (n,): when a run got there, or, where ``reached`` is False, how long it went without.
    Where the curve stays at one half for a while, the median is the middle of that while, as of an
    even number of plain values.
    """
    times, reached = np.asarray(times, float), np.asarray(reached, bool)
    if not reached.any():
        return np.nan, np.nan, np.nan
    curve = SurvfuncRight(times, reached.astype(int))
    left, at = np.round(curve.surv_prob, 12), curve.surv_times
    half, below = at[left <= 0.5], at[left < 0.5]
    middle = (half[0] + (below[0] if len(below) else half[0])) / 2 if len(half) else np.nan
    with np.errstate(all="ignore"):  # where nothing is left, the transform is infinite
        low, high = curve.quantile_ci(0.5, alpha=1 - LEVEL)
    if np.isnan(
        low
    ):  # one leap over all that could be the median: exact if enough runs leap, else nothing is known
        leapt = curve.n_risk[left <= 0.5].max(initial=0)
        low = high = middle if 2 * 0.5**leapt <= 1 - LEVEL else np.nan
    return middle, low, high if np.isfinite(high) else np.nan


def corrections_to_levels(results, levels=LEVELS):
    """``median`` corrections with ``low``, ``high`` until N % novel accuracy (``to``) is seen, by cell and system.

    ``reached`` of ``seeds`` runs got there; the others are censored at the corrections that they
    made in all.
    """
    runs, rows = final(results), []
    for to in levels:
        runs = runs.join(corrections_to(results, to), on=RUN)
    for names, own in runs.groupby([*CELL, "system"], sort=False, observed=True):
        for to in levels:
            first, reached = own[f"to_{to}"], own[f"to_{to}"].notna()
            row = dict(zip((*CELL, "system"), names)) | {
                "to": to,
                "seeds": len(own),
                "reached": int(reached.sum()),
            }
            found = median(first.fillna(own["corrections"]), reached)
            rows.append(row | dict(zip(("median", "low", "high"), found)))
    return pd.DataFrame(rows)
