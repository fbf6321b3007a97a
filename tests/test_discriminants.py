"""Class means, discriminants and ridge regression: running sums equal the formulas over all rows."""

import numpy as np
import pytest
from conftest import clusters, rows
from scipy.stats import multivariate_normal

from ocrrlib.systems.base import softmax
from ocrrlib.systems.discriminants import BLOCK, GROWTH, KLDA, NCM, SLDA
from ocrrlib.systems.features import draw_features, lift
from ocrrlib.systems.ridge import RLS

KNOWN, CLASSES, D = 5, 8, 12
X0, Y0 = clusters(KNOWN, 20, D, seed=3)
GROWN = int((GROWTH - 1) * len(Y0))  # corrections after which a covariance is inverted anew
NEW_X, NEW_Y = rows(GROWN, D, 4), np.random.default_rng(5).integers(0, CLASSES, GROWN)  # known and new classes
Q = rows(60, D, 6)


def taught(system, n=GROWN):
    system.fit(X0, Y0, range(CLASSES))
    for row, label in zip(NEW_X[:n], NEW_Y[:n].tolist()):
        system.correct(row, label)
    return system


def everything(n=GROWN):
    return np.vstack([X0, NEW_X[:n]]).astype(np.float64), np.append(Y0, NEW_Y[:n])


def test_ncm_answers_the_nearest_of_the_plain_means():
    X, y = everything()
    means = np.array([X[y == c].mean(axis=0) if (y == c).any() else np.full(D, np.inf) for c in range(CLASSES)])
    distances = np.linalg.norm(Q[:, None] - means, axis=2)
    np.testing.assert_array_equal(taught(NCM()).predict(Q), distances.argmin(axis=1))
    lengths = np.linalg.norm(means, axis=1)
    cosines = np.where(np.isfinite(lengths), Q @ np.nan_to_num(means / lengths[:, None]).T, -np.inf)
    np.testing.assert_array_equal(taught(NCM(unit=True)).predict(Q), cosines.argmax(axis=1))


@pytest.mark.parametrize("ridge", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("n", [0, 1, GROWN])
def test_rls_equals_batch_ridge_on_the_same_rows(ridge, n):
    X, y = everything(n)
    W = np.linalg.solve(X.T @ X + ridge * np.eye(D), X.T @ np.eye(CLASSES)[y]).T
    system = taught(RLS(ridge=ridge), n)
    np.testing.assert_allclose(system.W, W, rtol=1e-8, atol=1e-10)
    scores = Q @ W.T
    scores[:, ~np.isin(np.arange(CLASSES), y)] = -np.inf
    np.testing.assert_array_equal(system.predict(Q), scores.argmax(axis=1))


def scatter(Z, y):
    centred = Z - np.array([Z[y == c].mean(axis=0) if (y == c).any() else 0 * Z[0] for c in range(CLASSES)])[y]
    return centred.T @ centred


@pytest.mark.parametrize(
    "system",
    [
        SLDA(shrinkage=1e-4),
        SLDA(shrinkage=0.1, target="variance"),
        SLDA(shrinkage=0.1, updated=False),
        SLDA(shrinkage=0.1, updated=False, target="variance"),
        KLDA(seed=2, features=30),
    ],
    ids=["identity", "variance", "identity, frozen", "variance, frozen", "KLDA"],
)
@pytest.mark.parametrize("n", [0, 1, BLOCK - 1, BLOCK, GROWN - 1, GROWN])
def test_slda_and_klda_probabilities_are_those_of_gaussians_with_their_covariance(n, system):
    taught(system, n)
    X, y = everything(n)
    Z, own = (lift(part.astype(np.float32), *system.drawn) for part in (X, Q))
    whole, start, D = (scatter(Z, y), len(y)), (scatter(Z[: len(Y0)], Y0), len(Y0)), Z.shape[1]
    S, rows_in = whole if system.updated else start
    shrunk, count = whole if system.updated and n == GROWN else start  # at the last inversion
    ridge = system.shrinkage * (count if system.target == "identity" else np.trace(shrunk) / D)
    covariance = ((1 - system.shrinkage) * S + ridge * np.eye(D)) / rows_in
    logs = [multivariate_normal(Z[y == c].mean(axis=0), covariance).logpdf(own) for c in np.unique(y)]
    expected = np.zeros((len(Q), CLASSES))
    expected[:, np.unique(y)] = softmax(np.column_stack(logs))
    np.testing.assert_allclose(system.probabilities(Q), expected, atol=1e-9)


@pytest.mark.parametrize("make", [lambda: KLDA(features=60), lambda: SLDA(shrinkage=0.2, target="variance")])
def test_equal_rows_say_nothing_of_how_rows_vary(make):
    """Neither when it is fitted nor later: their scatter is rounding, not a variance to be shrunk towards."""
    X, y = np.repeat(X0[:6], 3, axis=0), np.repeat(np.arange(6), 3)
    at_once, later = make().fit(X, y, range(CLASSES)), make().fit(X[::3], y[::3], range(CLASSES))
    for x, label in zip(np.repeat(X[::3], 2, axis=0), np.repeat(np.arange(6), 2).tolist()):
        later.correct(x, label)
    for system in (at_once, later):
        assert system.ridge == 0.2 and system.predict(X).tolist() == y.tolist()
        np.testing.assert_allclose(system.inverse, np.eye(len(system.inverse)) / 0.2, atol=1e-9)


def test_fourier_features_approximate_the_rbf_kernel():
    F = lift(Q, *draw_features(40000, D, 0.8, seed=1))
    squares = ((Q[:, None] - Q) ** 2).sum(axis=2)
    np.testing.assert_allclose(F @ F.T, np.exp(-squares / (2 * 0.8**2)), atol=0.04)


def test_classes_with_the_same_rows_tie_and_the_lower_id_wins_in_any_batch():
    X = np.repeat(rows(8, D, 11), 2, axis=0)
    for system in (NCM(), SLDA(shrinkage=0.1), RLS(), KLDA(features=50)):
        system.fit(X, np.arange(16), range(16))
        whole = system.predict(X)
        np.testing.assert_array_equal(whole, np.arange(16) // 2 * 2)
        assert [system.predict(x[None])[0] for x in X] == whole.tolist()
