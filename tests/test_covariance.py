"""Covariances: bases and shrinkage are the textbook's."""

import numpy as np
import pytest

from ocrrlib.rivals.covariance import discriminant_basis, ledoit_wolf_shrinkage
from ocrrlib.systems.base import class_means, class_sums
from tests.samples import clusters, within

KNOWN = 6
CLASSES = 9
D = 8
X, Y = clusters(KNOWN, 30, D, seed=3)


@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 1.0])
def test_rows_of_a_class_vary_by_one_and_class_means_by_what_is_not_due_to_few_rows(shrinkage):
    keep = np.flatnonzero((Y > 0) | (np.cumsum(Y == 0) <= 3))  # classes of unequal size
    rows = X[keep]
    y = Y[keep]
    mu, P, between = discriminant_basis(rows, y, CLASSES, shrinkage)
    W = within(rows.astype(np.float64), y)
    shrunk = (1 - shrinkage) * W + shrinkage * np.trace(W) / D * np.eye(D)
    np.testing.assert_allclose(P.T @ shrunk @ P, np.eye(D), atol=1e-8)
    Z = (rows - mu) @ P
    means = np.array([Z[y == c].mean(axis=0) for c in range(KNOWN)])
    np.testing.assert_allclose(means.mean(axis=0), 0, atol=1e-9)
    expected = np.cov(means.T) - np.eye(D) * np.mean(1 / np.bincount(y))
    np.testing.assert_allclose(np.diag(between), expected, atol=1e-8)
    assert (np.diff(between) <= 0).all()


def test_shrinkage_is_that_of_ledoit_and_wolf():
    covariance = pytest.importorskip("sklearn.covariance")
    centred = X.astype(np.float64) - class_means(*class_sums(X, Y, CLASSES))[Y]
    _, expected = covariance.ledoit_wolf(centred, assume_centered=True)
    assert ledoit_wolf_shrinkage(X, Y, CLASSES) == pytest.approx(expected)
