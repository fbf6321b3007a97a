"""Ridge regression: running weights equal the formulas over all rows."""

import numpy as np
import pytest

from ocrrlib.rivals.features import rectified
from ocrrlib.rivals.ridge import RIDGES, RLS, RanPAC
from tests.samples import clusters, rows

KNOWN = 5
CLASSES = 8
D = 12
LEARNT = 50
X0, Y0 = clusters(KNOWN, 20, D, seed=3)
NEW_X = rows(LEARNT, D, 4)
NEW_Y = np.random.default_rng(5).integers(0, CLASSES, LEARNT)  # known and new classes
Q = rows(60, D, 6)


def taught(system, n):
    system.fit(X0, Y0, range(CLASSES))
    for x, label in zip(NEW_X[:n], NEW_Y[:n].tolist()):
        system.correct(x, label)
    return system


def everything(n):
    return np.vstack([X0, NEW_X[:n]]), np.append(Y0, NEW_Y[:n])


@pytest.mark.parametrize("ridge", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("n", [0, 1, LEARNT])
def test_rls_equals_batch_ridge_on_the_same_rows(ridge, n):
    X, y = everything(n)
    X = X.astype(np.float64)
    W = np.linalg.solve(X.T @ X + ridge * np.eye(D), X.T @ np.eye(CLASSES)[y]).T
    system = taught(RLS(ridge=ridge), n)
    np.testing.assert_allclose(system.W, W, rtol=1e-8, atol=1e-10)
    scores = Q @ W.T
    scores[:, ~np.isin(np.arange(CLASSES), y)] = -np.inf
    np.testing.assert_array_equal(system.predict(Q), scores.argmax(axis=1))


@pytest.mark.parametrize("n", [0, 1, LEARNT])
def test_ranpac_equals_batch_ridge_at_the_ridge_that_predicts_left_out_initial_rows_best(n):
    system = taught(RanPAC(features=20), n)
    X, y = everything(n)
    Z = rectified(X, system.projection)
    T = np.eye(CLASSES)[y]

    def weights_of(y):
        return 1 / np.bincount(y)[y]

    def fitted(ridge, part, w):
        weighed = Z[part] * w[part, None]
        return np.linalg.solve(weighed.T @ Z[part] + ridge * np.eye(20), weighed.T @ T[part]).T

    first = np.arange(len(Y0))
    w = weights_of(Y0)

    def left_out(ridge):
        misses = [T[i] - fitted(ridge, first[first != i], w) @ Z[i] for i in first]
        return w @ np.square(misses).sum(axis=1)

    best = min(RIDGES, key=left_out)
    W = fitted(best, np.arange(len(y)), weights_of(y))
    np.testing.assert_allclose(system.W, W, rtol=1e-7, atol=1e-9)
