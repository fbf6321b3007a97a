"""Covariances within and between classes, and how far to shrink them."""

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.systems.base import class_means, class_sums

LEAST_SCATTER = 1e-6  # squared distance to the class mean, relative, below which rows are copies
LEAST_VARIANCE = 1e-3  # of a direction within classes, as a share of the mean variance


def varies(scatter: float, dof: int, mean_square: float = 1.0) -> bool:
    """Whether rows of one class differ by more than rounding.

    ``scatter`` is the sum of the squared distances of rows to the mean of their class, ``dof`` its
    degrees of freedom (number of rows less number of classes), ``mean_square`` the mean squared
    length of the rows.
    """
    return scatter > LEAST_SCATTER * dof * mean_square


def ledoit_wolf_shrinkage(X: np.ndarray, y: np.ndarray, n_classes: int) -> float:
    """Shrinkage of the covariance within classes (Ledoit and Wolf 2004).

    An estimate of the weight lambda in ``(1 - lambda) S + lambda tr(S) / d I`` that has the least
    expected squared error. S is the covariance of rows X (n, d) around the means of their classes
    y (n,).
    """
    R = X - class_means(*class_sums(X, y, n_classes))[y]
    n, d = R.shape
    S = R.T @ R / n
    # lambda = b^2 / d^2, between 0 and 1, where over rows r
    #   b^2 = sum |r r^T - S|^2 / n^2 = (sum |r|^4 / n - |S|^2) / n
    #   d^2 = |S - tr(S) / d I|^2 = |S|^2 - tr(S)^2 / d
    square = (S**2).sum()
    b2 = ((np.einsum("nd,nd->n", R, R) ** 2).sum() / n - square) / n
    d2 = square - np.trace(S) ** 2 / d
    if d2 > 0:
        return float(np.clip(b2 / d2, 0, 1))
    return 1.0


def discriminant_basis(
    X: np.ndarray, y: np.ndarray, n_classes: int, shrinkage: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates in which covariances within and between classes are diagonal (Ioffe 2006).

    In ``z = P^T (x - mu)`` rows of one class vary by 1 in every direction, and class means
    independently. ``shrinkage`` is the weight lambda of the identity in the covariance within
    classes of the rows X (n, d) of classes y (n,).

    Returns the mean ``mu`` (d,) of the class means, ``P`` (d, d), and the variances (d,) of class
    means along the coordinates, highest first. They are unbiased estimates, so some may be
    negative. All are float64. If rows of one class do not vary, unit vectors at random are assumed
    to be their residuals: mu is 0, P sqrt(d) I, and the variances are 0.
    """
    d = X.shape[1]
    sums, counts = class_sums(X, y, n_classes)
    known = counts > 0
    dof = len(y) - int(np.count_nonzero(counts))
    R = X - class_means(sums, counts)[y]
    with threadpool_limits(1):  # so that sums are made in one order
        scatter = np.vdot(R, R)
        if not varies(scatter, dof, np.vdot(X, X) / len(X)):
            return np.zeros(d), np.sqrt(d) * np.eye(d), np.zeros(d)
        means = sums[known] / counts[known, None]
        mu = means.mean(axis=0)
        # W = (1 - lambda) S + lambda tr(S) / d I,  with S = R^T R / dof
        W = (1 - shrinkage) * (R.T @ R) / dof
        variance = scatter / dof / d
        W.flat[:: d + 1] += shrinkage * variance
        # W = V diag(values) V^T, so that rows vary by 1 along the columns of V diag(values^-1/2)
        values, vectors = np.linalg.eigh(W)
        whiten = vectors / np.sqrt(np.maximum(values, LEAST_VARIANCE * variance))
        # Covariance of class means, less what means of few rows vary by themselves: 1 / n_c
        C = (means - mu) @ whiten
        B = C.T @ C / max(len(means) - 1, 1) - np.eye(d) * np.mean(1 / counts[known])
        between, rotation = np.linalg.eigh(B)
    return mu, whiten @ rotation[:, ::-1], between[::-1]
