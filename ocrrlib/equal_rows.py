"""Which rows of one's own data are equal: found by a hash of each, so that no two have to be compared for it."""

import numpy as np
import pandas as pd

ROWS = 2**12  # hashed at once: they stay in the processor's cache
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd; 2**64 / golden ratio


def equal_rows(X):
    """A number for each row, (n,) int64 in order of appearance; the same for exactly equal rows.

    Parameters
    ----------
    X : (n, d) numbers
        0.0 and -0.0 are equal.
    """
    codes, hashes = pd.factorize(_hashes(X))
    first = np.full(len(hashes), len(codes))
    np.minimum.at(first, codes, np.arange(len(codes)))
    later = np.flatnonzero(first[codes] != np.arange(len(codes)))
    for start in range(0, len(later), ROWS):
        rows = later[start : start + ROWS]
        chance = rows[(X[rows] != X[first[codes[rows]]]).any(axis=1)]
        codes[chance] = len(hashes) + chance  # the same hash only
    return pd.factorize(codes)[0]


def _hashes(X):
    """(n,) uint64, equal for equal rows."""
    found = np.empty(len(X), np.uint64)
    for start in range(0, len(X), ROWS):
        rows = X[start : start + ROWS]
        rows = rows.astype(np.float64) if rows.itemsize > 8 else rows
        rows = np.ascontiguousarray(rows + rows.dtype.type(0))  # of -0.0 it makes 0.0
        words = rows.view(f"u{rows.itemsize}").astype(np.uint64)
        if rows.itemsize == 4 and words.shape[1] % 2 == 0:
            words = rows.view(np.uint64)  # two numbers at once
        mixed = np.zeros(len(rows), np.uint64)
        for word in words.T:
            mixed = (mixed ^ word) * _MIX
            mixed ^= mixed >> np.uint64(32)
        found[start : start + ROWS] = mixed
    return found


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
