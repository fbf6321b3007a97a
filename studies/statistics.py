"""Statistics over seeds: intervals, paired tests, censored corrections.

A *run* is one system with one seed in one *cell* (dataset and policy); runs of a cell are paired by
their seed.
"""

from collections.abc import Iterable, Iterator
from functools import reduce

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.duration.survfunc import SurvfuncRight

from ocrrlib.metrics import (
    AXES,
    LEVELS,
    RUN,
    common_share,
    corrections_to,
    final,
    harmonic_mean,
    over_steps,
)

BOTH_ACCURACIES = ("novel", "original")
DATASET_POLICY = ["dataset", "policy"]
# Columns of checkpoints that a run ends with under their own names.
KEPT = ["corrections", "storage_bytes", "best_hm", "holds_at_once", "holds"]
TESTED = (*AXES, "hm", "best_hm", "share", *(f"{axis}_over_steps" for axis in AXES))  # metrics
OF_REFERENCE = "_of_reference"  # behind a metric: the reference's value beside a system's
# What others are compared with: the nearest entry of the substrate's ledger. Unlike that of a vote,
# its point lies on its curve.
REFERENCE = "substrate_k1"
VOTES = ("substrate", "knn_lm")  # the curve is that of the nearest entry of each class
ALPHA = 0.01  # significance of a difference from the reference
LEVEL = 0.95  # confidence of intervals and bounds
MOST_ENUMERATED = 20  # up to so many pairs all sign flips are enumerated
ROUNDING = 1e-12  # differences this small, relative to the values, are rounding


def measure(results: pd.DataFrame) -> pd.DataFrame:
    """One row per run of checkpoints: its end, and means over stream steps (``<axis>_over_steps``).

    It ends with ``novel`` and ``original`` accuracy, their harmonic mean ``hm``, ``corrections``
    and ``storage_bytes``; ``start`` is original accuracy before the stream. Where the checkpoints
    have them, ``ausuc`` counts as an axis, and there are the other columns in ``KEPT``,
    ``prequential`` accuracy (of the answers that users met), and ``miss``: the best harmonic mean
    on the curve less the one at the system's own point; NaN for ``VOTES``.
    """
    runs = results.groupby(RUN, sort=False, observed=True)
    last = final(results)
    columns = {name: axis for axis, name in AXES.items() if name in results}
    kept = [name for name in KEPT if name in results]
    found = last[[*RUN, *columns, *kept]].rename(columns=columns)
    found["hm"] = harmonic_mean(found["novel"], found["original"])
    found["start"] = runs["original_acc"].first().to_numpy()
    if "mistakes" in results:
        found["prequential"] = 1 - last["mistakes"] / last["step"]
    if "best_hm" in results:
        found["miss"] = (found["best_hm"] - found["hm"]).mask(found["system"].isin(VOTES))
    means = {f"{axis}_over_steps": over_steps(runs, name) for name, axis in columns.items()}
    return found.assign(**means)


def with_share(runs: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Runs as of ``measure`` with their ``share``, on test rows that ``REFERENCE`` has right, too.

    ``share_of_reference`` is the reference's own on the same rows. ``rows`` are the last rows of
    the same runs, with their ``depths`` (see ``ocrrlib.metrics``).
    """
    depths = {
        tuple(run): (np.frombuffer(packed, "<i4"), n)
        for *run, packed, n in rows[[*RUN, "depths", "n_novel"]].itertuples(index=False)
    }
    found = []
    for *run, system in runs[RUN].itertuples(index=False):
        own, n = depths[*run, system]
        theirs, _ = depths[*run, REFERENCE]
        found.append((common_share(own, theirs, n), common_share(theirs, own, n)))
    return runs.assign(**dict(zip(("share", f"share{OF_REFERENCE}"), zip(*found))))


def by_seed(runs: pd.DataFrame, *columns: str) -> Iterator[tuple]:
    """Yield each cell and a table of each column: seeds by systems, both in order of appearance."""
    for cell, own in runs.groupby(DATASET_POLICY, sort=False, observed=True):
        seeds = own["seed"].unique()
        systems = own["system"].unique()
        tables = [
            own.pivot(index="seed", columns="system", values=name).loc[seeds, systems]
            for name in columns
        ]
        yield cell, *tables


def differences(system, other) -> np.ndarray:
    """``system - other``, pair by pair; differences within rounding are zero."""
    system = np.asarray(system, float)
    other = np.asarray(other, float)
    found = system - other
    size = np.maximum(np.abs(system), np.abs(other))
    return np.where(np.abs(found) <= ROUNDING * size, 0.0, found)


def holm(p) -> np.ndarray:
    """Correct p-values (m,) for being several (Holm 1979).

    They are statsmodels' digit for digit; its function collects garbage at every call.
    """
    p = np.asarray(p, float)
    order = np.argsort(p)
    corrected = np.empty_like(p)
    # of the i-th least, i from 0:  min(1, max_{j <= i} (m - j) p_j)
    corrected[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)).clip(max=1)
    return corrected


def t_intervals(values, level: float = LEVEL) -> pd.DataFrame:
    """``mean``, ``sd`` and Student's t interval ``low`` to ``high`` of each row of (m, n).

    NaN for one column.
    """
    values = np.atleast_2d(np.asarray(values, float))
    n = values.shape[1]
    mean = values.mean(axis=1)
    if n == 1:
        return pd.DataFrame({"mean": mean} | dict.fromkeys(("sd", "low", "high"), np.nan))
    same = np.ptp(values, axis=1) <= ROUNDING * np.abs(values).max(axis=1)
    sd = np.where(same, 0.0, values.std(axis=1, ddof=1))
    # mean ± t_{(1 + level) / 2, n - 1} · sd / √n
    half = stats.t.ppf((1 + level) / 2, n - 1) * sd / np.sqrt(n)
    return pd.DataFrame({"mean": mean, "sd": sd, "low": mean - half, "high": mean + half})


def t_and_bca_intervals(values, resamples: int = 9_999) -> pd.DataFrame:
    """``t_intervals`` and BCa bootstrap intervals of each row of (m, n).

    Their bounds are ``t_low``, ``t_high``, ``bca_low`` and ``bca_high``.
    """
    values = np.atleast_2d(np.asarray(values, float))
    found = t_intervals(values).rename(columns={"low": "t_low", "high": "t_high"})
    found["bca_low"] = found["mean"]
    found["bca_high"] = found["mean"]
    vary = found["sd"].to_numpy() > 0
    if vary.any():
        mean = np.mean(values[vary], axis=1, keepdims=True)
        size = np.ptp(values[vary], axis=1, keepdims=True)
        result = stats.bootstrap(
            ((values[vary] - mean) / size,),
            _rounded_mean,
            n_resamples=resamples,
            batch=1_000,
            axis=-1,
            confidence_level=LEVEL,
            rng=np.random.default_rng(0),
        )
        bounds = np.column_stack(result.confidence_interval)
        found.loc[vary, ["bca_low", "bca_high"]] = mean + size * bounds
    return found


def _rounded_mean(sample, axis):
    return np.round(sample.mean(axis=axis), 12)  # equal means stay equal, however summed


def flip_p(d) -> float:
    """Two-sided p of paired differences (n,) under flips of their signs (Fisher).

    Exact up to ``MOST_ENUMERATED`` pairs: ``scipy.stats.permutation_test`` would enumerate one flip
    after another, a million for 20 pairs; sums of two halves give the same count at once. Beyond,
    SciPy draws 99,999 flips.
    """
    d = np.asarray(d, float)
    d = d[d != 0]  # a zero is the same with either sign
    far = abs(d.sum()) - 1e-9 * np.abs(d).sum()  # sums this close are equal but for rounding
    if far <= 0:
        return 1.0
    if len(d) > MOST_ENUMERATED:
        return stats.permutation_test(
            (d,),
            np.mean,
            permutation_type="samples",
            n_resamples=99_999,
            rng=np.random.default_rng(0),
        ).pvalue
    one = _signed_sums(d[::2])
    other = _signed_sums(d[1::2])
    above = len(other) - np.searchsorted(np.sort(other), far - one)
    # p = #{s in {-1, 1}^n: |s·d| >= |Σd|} / 2^n; sums are symmetric about 0
    return float(2 * above.sum() / 2 ** len(d))


def _signed_sums(d):
    """Sums (2**n,) of differences (n,) with all combinations of signs."""
    return np.ravel(reduce(np.add.outer, np.outer(d, (-1, 1)), 0.0))


def accuracies(runs: pd.DataFrame, resamples: int = 9_999) -> pd.DataFrame:
    """Mean, spread and paired difference to ``REFERENCE`` of every system, metric by metric.

    Returns
    -------
    DataFrame
        dataset, policy, metric, system, ``seeds``, the columns of ``t_and_bca_intervals``; with
        ``difference_`` before them those of the difference (its mean: ``difference``); ``p`` of
        flipped signs, ``p_holm`` over the systems of a cell and metric, ``improvement``: the
        probability of a better result, ties counted half. NaN for the reference itself.
    """
    found = {}
    for metric in TESTED:
        if metric not in runs:
            continue
        columns = [name for name in (metric, metric + OF_REFERENCE) if name in runs]
        for cell, table, *theirs in by_seed(runs, *columns):
            own = t_and_bca_intervals(table.T, resamples).set_index(table.columns)
            own.insert(0, "seeds", len(table))
            found[*cell, metric] = own.join(_paired(table, *theirs, resamples=resamples))
    return pd.concat(found, names=[*DATASET_POLICY, "metric"]).reset_index()


def _paired(table, theirs=None, *, resamples):
    """Differences of systems to ``REFERENCE``, a row each, of a table of seeds by systems.

    ``theirs`` has the reference's values beside each system's, where they are not the same for all.
    """
    others = table.drop(columns=REFERENCE)
    reference = table[REFERENCE] if theirs is None else theirs.drop(columns=REFERENCE).T
    d = differences(others.T, reference)
    paired = t_and_bca_intervals(d, resamples).add_prefix("difference_").set_index(others.columns)
    paired = paired.rename(columns={"difference_mean": "difference"})
    paired["p"] = [flip_p(row) for row in d]
    paired["p_holm"] = holm(paired["p"])
    paired["improvement"] = ((np.sign(d) + 1) / 2).mean(axis=-1)
    return paired


def median(times, reached) -> tuple[float, float, float]:
    """Kaplan-Meier median (1958) with its interval; NaN for what is not known.

    The interval is Brookmeyer and Crowley's (1982, log-log). ``times`` (n,): when a run got there,
    or, where ``reached`` is False, how long it went without. Where the curve stays at one half for
    a while, the median is the middle of that while, as of an even number of plain values.
    """
    times = np.asarray(times, float)
    reached = np.asarray(reached, bool)
    if not reached.any():
        return np.nan, np.nan, np.nan
    curve = SurvfuncRight(times, reached.astype(int))
    left = np.round(curve.surv_prob, 12)
    half = curve.surv_times[left <= 0.5]
    below = curve.surv_times[left < 0.5]
    middle = np.nan
    if len(half):
        middle = (half[0] + (below[0] if len(below) else half[0])) / 2
    with np.errstate(all="ignore"):  # where nothing is left, the transform is infinite
        low, high = curve.quantile_ci(0.5, alpha=1 - LEVEL)
    if np.isnan(low):
        # One leap over all that could be the median: exact if enough runs leap, else nothing is
        # known.
        leapt = curve.n_risk[left <= 0.5].max(initial=0)
        low = high = middle if 2 * 0.5**leapt <= 1 - LEVEL else np.nan
    return middle, low, high if np.isfinite(high) else np.nan


def corrections_to_levels(results: pd.DataFrame, levels: Iterable[int] = LEVELS) -> pd.DataFrame:
    """``median`` corrections until N % novel accuracy (``to``) is seen, by cell and system.

    ``low`` and ``high`` are the bounds of its interval. ``reached`` of ``seeds`` runs got there;
    the others are censored at the corrections that they made in all.
    """
    runs = final(results)
    for to in levels:
        runs = runs.join(corrections_to(results, to), on=RUN)
    index = [*DATASET_POLICY, "system"]
    rows = []
    for names, own in runs.groupby(index, sort=False, observed=True):
        for to in levels:
            first = own[f"to_{to}"]
            reached = first.notna()
            middle, low, high = median(first.fillna(own["corrections"]), reached)
            row = dict(zip(index, names))
            row |= {"to": to, "seeds": len(own), "reached": int(reached.sum())}
            rows.append(row | {"median": middle, "low": low, "high": high})
    return pd.DataFrame(rows)
