"""Which rows of one's own data are equal: by their bytes, so that no two have to be compared."""

import numpy as np
import pandas as pd


def equal_rows(X):
    """A number for each row, (n,) int64 in order of appearance; the same for exactly equal rows.

    Parameters
    ----------
    X : (n, d) numbers
        0.0 and -0.0 are equal.
    """
    rows = np.ascontiguousarray(X + X.dtype.type(0))  # of -0.0 it makes 0.0
    whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
    return pd.factorize(np.unique(whole, return_inverse=True)[1])[0]


def under_two_labels(which, labels):
    """Pairs of equal rows that have different labels: of each group the first row, and the first that differs.

    Parameters
    ----------
    which : (n,) int
        As ``equal_rows`` gives it.
    labels : (n,) int
        Class ids.
    """
    _, first = np.unique(which, return_index=True)
    other = np.flatnonzero(labels != labels[first[which]])
    _, place = np.unique(which[other], return_index=True)
    return sorted((int(first[which[row]]), int(row)) for row in other[place])


def on_both_sides(which, test):
    """Pairs of equal rows of which one is a training and one a test row, one pair for each group, sorted."""
    (one, first), (other, second) = (np.unique(which[part], return_index=True) for part in (~test, test))
    _, i, j = np.intersect1d(one, other, assume_unique=True, return_indices=True)
    return sorted(zip(np.flatnonzero(~test)[first[i]].tolist(), np.flatnonzero(test)[second[j]].tolist()))
