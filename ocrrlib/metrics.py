"""Metrics: accuracies, corrections to reach N % (paper, section 3.2), and the novel-original curve.

The curve says how much a system knows of new classes, however boldly it answers them. A constant,
added to the log-probabilities of all new classes, trades novel for original accuracy (calibrated
stacking; Chao, Changpinyo, Gong and Sha 2016, in generalised zero-shot learning). From -inf to +inf
it draws the curve.

Three numbers explain the harmonic mean of both accuracies at a system's own point: its *start*,
original accuracy before the first correction; its *share*, how well it tells new requests from
known ones that it has right (``share``); and its *miss*, the best harmonic mean on its curve less
that of its point, which is what the place of its own threshold costs.

A memory that lets a few neighbours vote gives most classes no probability, and the curve of its
votes ends where they do. Its *whole* curve is that of the nearest entry of each class. Of other
systems both curves are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from pandas.core.groupby import DataFrameGroupBy

RUN = ["dataset", "encoder", "policy", "seed", "system"]
DATASET_POLICY_SYSTEM = ["dataset", "policy", "system"]
LEVELS = (10, 30, 50, 70, 90)
# Columns of checkpoints by axis; the paper's results lack the last one.
AXES = {"novel": "novel_acc", "original": "original_acc", "ausuc": "ausuc"}
DECIMALS = 9  # log-odds this close are equal: BLAS rounds differently in batches of different size


# One checkpoint


@dataclass(frozen=True)
class Checkpoint:
    """What a system reached after ``step`` stream items.

    Until then it answered ``mistakes`` items wrong and got ``corrections``. Accuracies are
    fractions of the test rows. ``ausuc`` and ``best_hm`` are those of ``summary`` for the whole
    curve, ``ausuc_declared`` is the area for the probabilities that the system declares; NaN for a
    system without probabilities. Of the corrected rows, the share ``holds_at_once`` was answered
    as corrected when asked again right after the correction, and the share ``holds`` is now; NaN
    before the first correction.

    ``answers`` are the class ids (m,) given to the test rows, novel ones first, ``given`` (step,)
    those given to the stream's items; ``heights`` (n,) those of the whole curve over the novel
    rows, and ``depths`` (o,) its depths at the original rows, see ``heights`` and ``depths``.
    """

    step: int
    corrections: int
    novel_acc: float
    original_acc: float
    stored_entries: int
    storage_bytes: int
    mistakes: int = 0
    ausuc: float = np.nan
    best_hm: float = np.nan
    ausuc_declared: float = np.nan
    holds_at_once: float = np.nan
    holds: float = np.nan
    given: np.ndarray | None = field(compare=False, repr=False, default=None)
    answers: np.ndarray | None = field(compare=False, repr=False, default=None)
    heights: np.ndarray | None = field(compare=False, repr=False, default=None)
    depths: np.ndarray | None = field(compare=False, repr=False, default=None)

    @property
    def scalars(self) -> dict:
        """The numbers, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.compare}


def measure(position, queries, scenario, system) -> Checkpoint:
    """Measure a system on the test rows of a scenario.

    ``position`` is where the stream stands (``ocrrlib.stream.Position``), ``queries`` the rows of
    the scenario as they are put to the system.
    """
    n_novel = len(scenario.y_novel)
    n_original = len(scenario.y_original)
    tests = np.arange(len(scenario.y_stream), len(scenario.queries))
    truth = np.concatenate([scenario.y_novel, scenario.y_original])
    answers = queries.answers(tests)
    right = answers == truth
    log_p = queries.log_probabilities(tests)
    whole_heights = None
    whole_depths = None
    curve_metrics = {}
    if log_p is not None:
        new = np.isin(np.arange(len(scenario.classes)), scenario.held_out)
        whole = queries.whole_log_probabilities(tests)
        best = best_known_and_new(whole, new)
        whole_heights = heights(*best, truth, n_novel)
        whole_depths = depths(*best, truth, n_novel)
        curve_metrics = summary(whole_heights, n_original)
        declared = curve_metrics
        if whole is not log_p:
            declared_heights = heights(*best_known_and_new(log_p, new), truth, n_novel)
            declared = summary(declared_heights, n_original)
        curve_metrics["ausuc_declared"] = declared["ausuc"]
    holding = {}
    if len(position.corrected):
        now = queries.answers(position.corrected) == position.labels
        holding = {"holds_at_once": float(position.held.mean()), "holds": float(now.mean())}
    storage = system.storage()
    return Checkpoint(
        step=position.step,
        corrections=len(position.corrected),
        novel_acc=float(np.mean(right[:n_novel])),
        original_acc=float(np.mean(right[n_novel:])),
        stored_entries=storage.entries,
        storage_bytes=storage.bytes,
        mistakes=position.mistakes,
        given=position.given,
        answers=answers,
        heights=whole_heights,
        depths=whole_depths,
        **curve_metrics,
        **holding,
    )


# The novel-original curve


def best_known_and_new(
    log_p: np.ndarray, new: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the best known and the best new class of each row, and the lead of the new one.

    ``log_p`` (m, C) are log-probabilities, up to a constant per row and a common factor, -inf
    where a class is impossible; ``new`` (C,) bool are the new classes. Returns class ids (m,)
    twice, -1 where no such class is possible, the first of equal ones, and leads (m,).
    """
    rows = np.arange(len(log_p))
    best = []
    for group in (~new, new):
        own = np.where(group, log_p, -np.inf)
        label = own.argmax(axis=1)
        value = own[rows, label]
        best.append((np.where(value > -np.inf, label, -1), value))
    (known, first), (other, second) = best
    with np.errstate(invalid="ignore"):  # neither is possible
        return known, other, np.round(second - first, DECIMALS)


def heights(
    known: np.ndarray, new: np.ndarray, lead: np.ndarray, y: np.ndarray, n: int
) -> np.ndarray:
    """The curve's height over each novel row, (n,) int64; -1 for rows that are always wrong.

    That is the number of original rows that are right where the constant is just high enough for
    the novel row to be. ``known``, ``new`` and ``lead`` (m,) are from ``best_known_and_new``,
    ``y`` (m,) the classes of the rows, the first ``n`` of them novel. The k-th highest is the
    curve's height where k novel rows are right.
    """
    right = np.sort(lead[n:][known[n:] == y[n:]])
    return np.where(new[:n] == y[:n], np.searchsorted(right, lead[:n]), -1)


def depths(
    known: np.ndarray, new: np.ndarray, lead: np.ndarray, y: np.ndarray, n: int
) -> np.ndarray:
    """How far the curve goes with each original row, (o,) int64; -1 for rows that are always wrong.

    That is the number of novel rows that are right while the original row still is. Arguments are
    those of ``heights``, of which the sum is the same. Of two systems, the original rows that both
    have right among known classes are those where neither depth is -1.
    """
    right = np.sort(lead[:n][new[:n] == y[:n]])
    behind = len(right) - np.searchsorted(right, lead[n:], side="right")
    return np.where(known[n:] == y[n:], behind, -1)


def curve(heights: np.ndarray, n_original: int) -> tuple[np.ndarray, np.ndarray]:
    """Novel and original accuracy (k,) at the corners of the curve, a step function."""
    right = -np.sort(-heights[heights >= 0])
    return np.arange(1, len(right) + 1) / len(heights), right / n_original


def original_at(novel: np.ndarray, heights: np.ndarray, n_original: int) -> np.ndarray:
    """Original accuracy on the curve at novel accuracies (q,), NaN beyond its end."""
    at, original = curve(heights, n_original)
    return np.append(original, np.nan)[np.searchsorted(np.round(at, 12), np.round(novel, 12))]


def summary(heights: np.ndarray, n_original: int) -> dict[str, float]:
    """Summarise a curve by its area, ``ausuc``, and ``best_hm``.

    The area (*seen-unseen curve*) goes from novel accuracy 0 to the highest one: it is the share of
    pairs of a novel and an original row that one constant gets right together. ``best_hm`` is the
    best harmonic mean of both accuracies on the curve.
    """
    novel, original = curve(heights, n_original)
    means = harmonic_mean(novel, original)
    area = heights[heights >= 0].sum() / np.multiply(len(heights), n_original)
    return {"ausuc": float(area), "best_hm": float(means.max(initial=0.0))}


def share(heights: np.ndarray) -> float:
    """Area over foot, the curve's highest point: how well new requests are told from known ones.

    Of all pairs of a novel row and an original row that is right while no new class is answered, it
    is the share that one constant gets right together; NaN for a curve of no height.
    """
    # area = foot · share,  foot = max_i heights_i / o,  area = sum_i heights_i / (n o)
    foot = heights.max(initial=0)
    if foot <= 0:
        return np.nan
    return float(heights[heights >= 0].sum() / len(heights) / foot)


def common_share(depths: np.ndarray, other: np.ndarray, n_novel: int) -> float:
    """``share`` of a system on the original rows that another system has right, too.

    ``depths`` (o,) are its own, ``other`` (o,) those of the other system, ``n_novel`` the number of
    novel rows. A low start leaves the easier rows, and flatters ``share``; on common rows two
    systems compare. NaN if there is none.
    """
    both = (depths >= 0) & (other >= 0)
    if not both.any():
        return np.nan
    return float(depths[both].mean() / n_novel)


def harmonic_mean(novel: Any, original: Any) -> Any:
    """Harmonic mean of novel and original accuracies, two arrays or columns; 0 where both are."""
    # hm = 2 · novel · original / (novel + original)
    return 2 * novel * original / np.maximum(novel + original, 1e-300)


# Tables of checkpoints


def final(results: pd.DataFrame) -> pd.DataFrame:
    """The last checkpoint of every run."""
    return results.groupby(RUN, sort=False, observed=True).tail(1).reset_index(drop=True)


def corrections_to(results: pd.DataFrame, level: int) -> pd.Series:
    """Corrections at the first checkpoint with ``level`` % novel accuracy, by run.

    Runs that never reach it are left out.
    """
    reached = results[results["novel_acc"] >= level / 100]
    runs = reached.groupby(RUN, sort=False, observed=True)
    return runs["corrections"].first().rename(f"to_{level}")


def over_steps(runs: DataFrameGroupBy, column: str) -> list[float]:
    """Mean of a column of checkpoints over stream steps, for each group of ``runs``.

    It is the area under the column, by the trapezoidal rule, divided by the number of steps.
    """
    values = runs.obj[column].to_numpy()
    steps = runs.obj["step"].to_numpy()
    return [
        np.trapezoid(values[rows], steps[rows]) / steps[rows[-1]] for rows in runs.indices.values()
    ]


def summarise(results: pd.DataFrame, ddof: int = 0) -> pd.DataFrame:
    """Mean and spread over seeds of every (dataset, policy, system), in order of appearance.

    Standard deviations divide by n - ``ddof``: by default they are the population's, as in the
    paper; with 1 the sample's.
    ``to_N`` is the mean over the seeds that reached N %, ``to_N_reached`` how many did.
    """
    import pandas as pd  # slow to import, not needed to measure

    last = final(results)
    for level in LEVELS:
        last = last.join(corrections_to(results, level), on=RUN)
    groups = last.groupby(DATASET_POLICY_SYSTEM, sort=False, observed=True)
    columns: dict = {"seeds": groups.size()}
    for axis, name in AXES.items():
        if name in last:
            columns[axis] = groups[name].mean()
            columns[f"{axis}_std"] = groups[name].std(ddof=ddof)
    for name in ("corrections", "stored_entries", "storage_bytes"):
        columns[name] = groups[name].mean()
    for level in LEVELS:
        columns[f"to_{level}"] = groups[f"to_{level}"].mean()
        columns[f"to_{level}_reached"] = groups[f"to_{level}"].count()
    return pd.DataFrame(columns).reset_index()


def by_cell(results: pd.DataFrame) -> dict[str, dict[str, dict[str, dict]]]:
    """Summarise every cell in a nested dict: ``[dataset][policy][system]``.

    A cell holds means over seeds: ``novel``, ``original`` and their ``_std``, ``start_novel`` and
    ``start_original`` before the stream, ``corrections``, ``entries``, ``mb``, and ``to_N``, None
    where no seed reached N %.
    """
    kept = ["novel", "novel_std", "original", "original_std", "corrections", "seeds"]
    first = results[results["step"] == 0]
    start = (
        first.groupby(DATASET_POLICY_SYSTEM)[["novel_acc", "original_acc"]].mean().to_dict("index")
    )
    cells: dict = {}
    for row in summarise(results).to_dict("records"):
        dataset, policy, system = (row[name] for name in DATASET_POLICY_SYSTEM)
        at_start = start[dataset, policy, system]
        cell = {name: row[name] for name in kept}
        cell["entries"] = row["stored_entries"]
        cell["mb"] = row["storage_bytes"] / 1e6
        cell["start_novel"] = float(at_start["novel_acc"])
        cell["start_original"] = float(at_start["original_acc"])
        for level in LEVELS:
            reached = row[f"to_{level}_reached"] > 0
            cell[f"to_{level}"] = row[f"to_{level}"] if reached else None
        cells.setdefault(dataset, {}).setdefault(policy, {})[system] = cell
    return cells
