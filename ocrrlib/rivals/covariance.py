"""Covariances within and between classes, estimated from the initial rows, and how far to shrink them."""

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.systems.base import class_means, class_sums

LEAST_SCATTER = (
    1e-6  # rows of a class that differ by less than a thousandth of their length count as copies
)
LEAST_VARIANCE = 1e-3  # of a direction within classes, as a share of the mean variance


def is_known(scatter, free, square=1.0):
    """Whether rows of one class are known to vary, beyond rounding.

    ``scatter`` is the sum of squared distances of rows to the mean of their class, ``free`` its
    degrees of freedom (rows, less the classes that have any), ``square`` the mean squared length of
    the rows.
    """
    return scatter > LEAST_SCATTER * free * square


def oas(S, n):
    """Oracle approximating shrinkage of a covariance (D, D), at any scale, of n rows (Chen et al. 2010, eq. 23).

    Towards a multiple of the identity, by an estimate of what has the least squared error if rows
    are Gaussian.
    """
    D, square, trace = len(S), float(np.vdot(S, S)), float(np.trace(S))
    off = (n + 1 - 2 / D) * (square - trace**2 / D)
    return min(((1 - 2 / D) * square + trace**2) / off, 1.0) if off > 0 else 1.0


def shrinkage_within(X, y, n_classes):
    """Share of the identity in the covariance within classes that is closest to the true one (Ledoit and Wolf 2004)."""
    R = X - class_means(*class_sums(X, y, n_classes))[y]
    n, d = R.shape
    S = R.T @ R / n
    off, spread = (
        (S**2).sum() - np.trace(S) ** 2 / d,
        (np.einsum("nd,nd->n", R, R) ** 2).sum() / n - (S**2).sum(),
    )
    return float(np.clip(spread / n / off, 0, 1)) if off > 0 else 1.0


def basis(X, y, n_classes, shrinkage):
    """Coordinates in which rows of one class vary by 1 in every direction, and class means independently.

    Where rows of one class are not known to vary, they are taken to vary like unit vectors at
    random.

    Returns the mean of the class means (d,), a projection P (d, d), so that rows are ``(X - centre)
    @ P``, and the variance of class means along each coordinate (d,), highest first; it may be
    negative. All are float64.
    """
    d = X.shape[1]
    sums, counts = class_sums(X, y, n_classes)
    known, free = counts > 0, len(y) - np.count_nonzero(counts)
    R = X - class_means(sums, counts)[y]
    with threadpool_limits(1):  # so that sums are made in one order
        scatter = np.vdot(R, R)
        if not is_known(scatter, free, np.vdot(X, X) / len(X)):
            return np.zeros(d), np.sqrt(d) * np.eye(d), np.zeros(d)
        means = sums[known] / counts[known, None]
        centre = means.mean(axis=0)
        W = (1 - shrinkage) * (R.T @ R) / free
        variance = scatter / free / d
        W.flat[:: d + 1] += shrinkage * variance
        values, vectors = np.linalg.eigh(W)
        whiten = vectors / np.sqrt(np.maximum(values, LEAST_VARIANCE * variance))
        C = (means - centre) @ whiten
        # Means of few rows vary by themselves, too: by 1 / rows, in these coordinates.
        B = C.T @ C / max(len(means) - 1, 1) - np.eye(d) * np.mean(1 / counts[known])
        between, rotation = np.linalg.eigh(B)
    return centre, whiten @ rotation[:, ::-1], between[::-1]
