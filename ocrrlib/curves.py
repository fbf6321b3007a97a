"""The novel–original curve: how much a system knows of new classes, however boldly it answers them.

A constant, added to the log-probabilities of all new classes, trades novel for original accuracy (calibrated stacking;
Chao, Changpinyo, Gong and Sha 2016, in generalised zero-shot learning). From -inf to +inf it draws the curve.
"""

import numpy as np

DECIMALS = 9  # log-odds this close are equal: BLAS rounds differently in batches of different size


def rivals(scores, new, seen=True, labels=None, log=False):
    """The best known and the best new class of each row, and how far the new one leads: all that the curve asks for.

    ``scores`` (m, C) are log-probabilities, but for a constant of each row and a factor of all, or, with ``log``,
    probabilities; ``new`` (C,) bool are the new classes, ``seen`` (C,) bool those that can be answered. Where few
    classes have a probability, ``scores`` (m, k) may be theirs alone, and ``labels`` (m, k) say which these are.

    Returns class ids (m,) twice, -1 where no such class has a probability, the first of equal ones, and leads (m,).
    """
    rows, labels, found = np.arange(len(scores)), np.arange(len(new)) if labels is None else labels, []
    with np.errstate(divide="ignore", invalid="ignore"):
        for group in (~new & seen, new & seen):
            own = np.where(group[labels], scores, 0.0 if log else -np.inf)
            place = own.argmax(axis=1)
            value = np.log(own[rows, place]) if log else own[rows, place]
            found += [np.where(value > -np.inf, np.broadcast_to(labels, own.shape)[rows, place], -1), value]
        known, first, other, second = found
        return known, other, np.round(second - first, DECIMALS)


def heights(known, new, lead, y, n):
    """The curve's height over each novel row, (n,) int64, -1 for rows that no constant makes right.

    That is the number of original rows that are right where the constant is just high enough for the novel row to be.
    ``known``, ``new`` and ``lead`` (m,) are those of ``rivals``, ``y`` (m,) the classes of the rows, the first ``n`` of
    them novel. The k-th highest is the curve's height where k novel rows are right.
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

    The area (*seen–unseen curve*) goes from novel accuracy 0 to the highest one: it is the share of pairs of a novel
    and an original row that one constant gets right together.
    """
    novel, original = curve(heights, n_original)
    means = 2 * novel * original / np.maximum(novel + original, 1e-300)
    area = heights[heights >= 0].sum() / np.multiply(len(heights), n_original)
    return {"ausuc": float(area), "best_hm": float(means.max(initial=0.0))}
