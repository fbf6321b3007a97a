"""Metrics: final accuracies and corrections to reach N % (paper, section 3.2), and the novel-original curve.

The curve says how much a system knows of new classes, however boldly it answers them. A constant,
added to the log-probabilities of all new classes, trades novel for original accuracy (calibrated
stacking; Chao, Changpinyo, Gong and Sha 2016, in generalised zero-shot learning). From -inf to +inf
it draws the curve.
"""

import numpy as np
import pandas as pd

RUN = ["dataset", "encoder", "policy", "seed", "system"]
CELL = ["dataset", "policy", "system"]
LEVELS = (10, 30, 50, 70, 90)
AXES = {
    "novel": "novel_acc",
    "original": "original_acc",
    "ausuc": "ausuc",
}  # the paper's results lack the last one
DECIMALS = 9  # log-odds this close are equal: BLAS rounds differently in batches of different size


def final(results):
    """The last checkpoint of every run."""
    return results.groupby(RUN, sort=False, observed=True).tail(1).reset_index(drop=True)


def corrections_to(results, level):
    """Corrections at the first checkpoint with ``level`` % novel accuracy: a Series by run, of those that have one."""
    reached = results[results["novel_acc"] >= level / 100]
    return (
        reached.groupby(RUN, sort=False, observed=True)["corrections"].first().rename(f"to_{level}")
    )


def summarise(results):
    """Mean and spread over seeds of every (dataset, policy, system), in order of appearance.

    Standard deviations are the population's (division by n), as in the paper.
    ``to_N`` is the mean over the seeds that reached N %, ``to_N_reached`` how many did.
    """
    last = final(results)
    for level in LEVELS:
        last = last.join(corrections_to(results, level), on=RUN)
    groups = last.groupby(CELL, sort=False, observed=True)
    columns = {"seeds": groups.size()}
    for axis, name in AXES.items():
        if name in last:
            columns |= {axis: groups[name].mean(), f"{axis}_std": groups[name].std(ddof=0)}
    columns |= {
        name: groups[name].mean() for name in ("corrections", "stored_entries", "storage_bytes")
    }
    for level in LEVELS:
        columns[f"to_{level}"] = groups[f"to_{level}"].mean()
        columns[f"to_{level}_reached"] = groups[f"to_{level}"].count()
    return pd.DataFrame(columns).reset_index()


def by_cell(results):
    """Summary of every cell as a nested dict: ``[dataset][policy][system]``.

    A cell holds means over seeds: ``novel``, ``original`` and their ``_std``, ``start_novel`` and
    ``start_original`` before the stream, ``corrections``, ``entries``, ``mb``, and ``to_N``, None
    where no seed reached N %.
    """
    start = results[results["step"] == 0].groupby(CELL)[["novel_acc", "original_acc"]].mean()
    found = {}
    for row in summarise(results).to_dict("records"):
        dataset, policy, system = place = tuple(row[name] for name in CELL)
        cell = {
            key: row[key]
            for key in ("novel", "novel_std", "original", "original_std", "corrections", "seeds")
        }
        cell |= {"entries": row["stored_entries"], "mb": row["storage_bytes"] / 1e6}
        cell |= dict(zip(("start_novel", "start_original"), start.loc[place].tolist()))
        cell |= {f"to_{n}": row[f"to_{n}"] if row[f"to_{n}_reached"] else None for n in LEVELS}
        found.setdefault(dataset, {}).setdefault(policy, {})[system] = cell
    return found


def rivals(scores, new, seen=True, labels=None, log=False):
    """The best known and the best new class of each row, and how far the new one leads: all that the curve asks for.

    ``scores`` (m, C) are log-probabilities, but for a constant of each row and a factor of all, or,
    with ``log``, probabilities; ``new`` (C,) bool are the new classes, ``seen`` (C,) bool those
    that can be answered. Where few classes have a probability, ``scores`` (m, k) may be theirs
    alone, and ``labels`` (m, k) say which these are.

    Returns class ids (m,) twice, -1 where no such class has a probability, the first of equal ones,
    and leads (m,).
    """
    rows, labels, found = (
        np.arange(len(scores)),
        np.arange(len(new)) if labels is None else labels,
        [],
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        for group in (~new & seen, new & seen):
            own = np.where(group[labels], scores, 0.0 if log else -np.inf)
            place = own.argmax(axis=1)
            value = np.log(own[rows, place]) if log else own[rows, place]
            found += [
                np.where(value > -np.inf, np.broadcast_to(labels, own.shape)[rows, place], -1),
                value,
            ]
        known, first, other, second = found
        return known, other, np.round(second - first, DECIMALS)


def heights(known, new, lead, y, n):
    """The curve's height over each novel row, (n,) int64, -1 for rows that no constant makes right.

    That is the number of original rows that are right where the constant is just high enough for
    the novel row to be. ``known``, ``new`` and ``lead`` (m,) are those of ``rivals``, ``y`` (m,)
    the classes of the rows, the first ``n`` of them novel. The k-th highest is the curve's height
    where k novel rows are right.
    """
    right = np.sort(lead[n:][known[n:] == y[n:]])
    return np.where(new[:n] == y[:n], np.searchsorted(right, lead[:n]), -1)


def curve(heights, n_original):
    """Novel and original accuracy (k,) at the corners of the curve, a step function, from left to right."""
    right = -np.sort(-heights[heights >= 0])
    return np.arange(1, len(right) + 1) / len(heights), right / n_original


def original_at(novel, heights, n_original):
    """Original accuracy on the curve at novel accuracies (q,), NaN beyond its end."""
    at, original = curve(heights, n_original)
    return np.append(original, np.nan)[np.searchsorted(np.round(at, 12), np.round(novel, 12))]


def summary(heights, n_original):
    """``ausuc``, the area under the curve, and ``best_hm``, the best harmonic mean of both accuracies on it.

    The area (*seen–unseen curve*) goes from novel accuracy 0 to the highest one: it is the share of
    pairs of a novel and an original row that one constant gets right together.
    """
    novel, original = curve(heights, n_original)
    means = 2 * novel * original / np.maximum(novel + original, 1e-300)
    area = heights[heights >= 0].sum() / np.multiply(len(heights), n_original)
    return {"ausuc": float(area), "best_hm": float(means.max(initial=0.0))}
