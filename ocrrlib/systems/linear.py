"""What classifiers with one score per class have in common: the best class among those seen, and probabilities."""

import numpy as np

TEMPERATURE = 0.1  # of a softmax over cosines and scores of their size, as in ``knn_lm``
DECIMALS = 9  # scores this close are equal: BLAS rounds differently in batches of different size


def class_sums(X, y, n_classes):
    """Rows (n, d) added up by their classes (n,): (n_classes, d) float64."""
    sums = np.zeros((n_classes, X.shape[1]))
    for label in np.unique(y):
        sums[label] = X[y == label].sum(axis=0, dtype=np.float64)
    return sums


def softmax(logits):
    """Probabilities along the last axis."""
    powers = logits - logits.max(axis=-1, keepdims=True)
    np.exp(powers, out=powers)
    powers /= powers.sum(axis=-1, keepdims=True)
    return powers


def softmax_seen(scores, seen):
    """Softmax over the classes seen only, (m, C); zero for the others.

    Parameters
    ----------
    scores : (m, C) float64
        Used up.
    seen : (C,) bool
        Classes that may be answered.
    """
    scores[:, ~seen] = -np.inf if seen.any() else 0
    return softmax(scores) if seen.any() else scores


def best_seen(scores, seen):
    """The class with the highest score of each row, the lowest id of equal ones; -1 where none was seen.

    Parameters
    ----------
    scores : (m, C) float64
        Used up.
    seen : (C,) bool
        Classes that may be answered.
    """
    if not seen.any():
        return np.full(len(scores), -1)
    np.rint(np.multiply(scores, 10.0**DECIMALS, out=scores), out=scores)
    if not seen.all():
        scores[:, ~seen] = -np.inf
    return scores.argmax(axis=1)
