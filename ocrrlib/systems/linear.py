"""What classifiers with one linear score per class have in common: the best class among those seen."""

import numpy as np

DECIMALS = 9  # scores this close are equal: BLAS rounds differently in batches of different size


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
    np.round(scores, DECIMALS, out=scores)
    scores[:, ~seen] = -np.inf
    return scores.argmax(axis=1)
