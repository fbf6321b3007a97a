"""Class means, discriminants and ridge regression: running sums equal the formulas over all rows."""

import numpy as np
import pytest
from conftest import clusters, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from ocrrlib.systems.base import softmax
from ocrrlib.systems.discriminants import BLOCK, GROWTH, KLDA, NCM, RLS, SLDA, draw_features, lift

KNOWN, CLASSES, D = 5, 8, 12
X0, Y0 = clusters(KNOWN, 20, D, seed=3)
NEW_X, NEW_Y = rows(49, D, 4), np.random.default_rng(5).integers(0, CLASSES, 49)  # known and new classes
Q = rows(60, D, 6)


def taught(system, X=NEW_X, y=NEW_Y):
    system.fit(X0, Y0, range(CLASSES))
    for row, label in zip(X, y.tolist()):
        system.correct(row, label)
    return system


def everything(n=len(NEW_Y)):
    return np.vstack([X0, NEW_X[:n]]).astype(np.float64), np.append(Y0, NEW_Y[:n])


def batch_lda(Z, y, A_of):
    """Weights and offsets from all rows at once."""
    means = np.array([Z[y == c].mean(axis=0) if (y == c).any() else np.zeros(Z.shape[1]) for c in range(CLASSES)])
    centred = Z - means[y]
    W = means @ np.linalg.inv(A_of(centred.T @ centred))
    return W, -0.5 * np.einsum("cd,cd->c", means, W)


def test_ncm_answers_the_nearest_of_the_plain_means():
    X, y = everything()
    means = np.array([X[y == c].mean(axis=0) if (y == c).any() else np.full(D, np.inf) for c in range(CLASSES)])
    distances = np.linalg.norm(Q[:, None] - means, axis=2)
    np.testing.assert_array_equal(taught(NCM()).predict(Q), distances.argmin(axis=1))
    lengths = np.linalg.norm(means, axis=1)
    cosines = np.where(np.isfinite(lengths), Q @ np.nan_to_num(means / lengths[:, None]).T, -np.inf)
    np.testing.assert_array_equal(taught(NCM(unit=True)).predict(Q), cosines.argmax(axis=1))


@given(st.permutations(range(20)))
@settings(max_examples=30)
def test_order_of_corrections_does_not_matter_to_rls_and_slda(order):
    for make in (RLS, lambda: SLDA(shrinkage=1e-2)):
        first, second = taught(make(), NEW_X[:20], NEW_Y[:20]), taught(make(), NEW_X[order], NEW_Y[order])
        np.testing.assert_allclose(first.W, second.W, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("ridge", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("n", [0, 1, len(NEW_Y)])
def test_rls_equals_batch_ridge_on_the_same_rows(ridge, n):
    X, y = everything(n)
    W = np.linalg.solve(X.T @ X + ridge * np.eye(D), X.T @ np.eye(CLASSES)[y]).T
    system = taught(RLS(ridge=ridge), NEW_X[:n], NEW_Y[:n])
    np.testing.assert_allclose(system.W, W, rtol=1e-8, atol=1e-10)
    scores = Q @ W.T
    scores[:, ~np.isin(np.arange(CLASSES), y)] = -np.inf
    np.testing.assert_array_equal(system.predict(Q), scores.argmax(axis=1))


def clusters_scatter():
    X = X0.astype(np.float64)
    centred = X - np.array([X[Y0 == c].mean(axis=0) for c in range(KNOWN)])[Y0]
    return centred.T @ centred


@pytest.mark.parametrize("target", ["identity", "variance"])
def test_slda_with_half_as_many_rows_again_is_shrunk_as_its_rows_say(target):
    n = int((GROWTH - 1) * len(Y0))
    X, y = rows(n, D, 8), np.random.default_rng(9).integers(0, CLASSES, n)
    system = taught(SLDA(shrinkage=0.1, target=target), X, y)
    Z, labels = np.vstack([X0, X]).astype(np.float64), np.append(Y0, y)

    def shrunk(S):
        return 0.9 * S + 0.1 * np.eye(D) * (len(labels) if target == "identity" else np.trace(S) / D)

    np.testing.assert_allclose(system.W, batch_lda(Z, labels, shrunk)[0], rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("target", ["identity", "variance"])
@pytest.mark.parametrize("updated", [True, False])
@pytest.mark.parametrize("shrinkage", [1e-4, 0.1])
@pytest.mark.parametrize("n", [0, 1, BLOCK - 1, BLOCK, len(NEW_Y)])
def test_slda_probabilities_are_those_of_gaussians_with_its_covariance(n, shrinkage, updated, target):
    assert n < (GROWTH - 1) * len(Y0)  # so that the shrinkage's weight is that of the initial rows
    system = taught(SLDA(shrinkage=shrinkage, target=target, updated=updated), NEW_X[:n], NEW_Y[:n])
    (X, y), start = everything(n), clusters_scatter()
    means = np.array([X[y == c].mean(axis=0) for c in np.unique(y)])
    centred = X - means[np.searchsorted(np.unique(y), y)]
    S, rows_in = (centred.T @ centred, len(y)) if updated else (start, len(Y0))
    ridge = shrinkage * (len(Y0) if target == "identity" else np.trace(start) / D)
    covariance = ((1 - shrinkage) * S + ridge * np.eye(D)) / rows_in
    expected = np.zeros((len(Q), CLASSES))
    logs = [multivariate_normal(mean, covariance).logpdf(Q) for mean in means]
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


def test_klda_is_slda_on_the_features():
    system = taught(KLDA(seed=2, features=30))
    Z, y = everything()
    Z = lift(Z.astype(np.float32), *system.drawn)
    start = Z[: len(Y0)] - np.array([Z[: len(Y0)][Y0 == c].mean(axis=0) for c in range(KNOWN)])[Y0]
    ridge = 0.2 * np.vdot(start, start) / 30
    W, b = batch_lda(Z, y, lambda S: 0.8 * S + ridge * np.eye(30))
    np.testing.assert_allclose(system.W, W, rtol=1e-7, atol=1e-10)
    seen = np.isin(np.arange(CLASSES), y)
    np.testing.assert_array_equal(
        system.predict(Q), np.where(seen, lift(Q, *system.drawn) @ W.T + b, -np.inf).argmax(axis=1)
    )


def test_classes_with_the_same_rows_tie_and_the_lower_id_wins_in_any_batch():
    X = np.repeat(rows(8, D, 11), 2, axis=0)
    for system in (NCM(), SLDA(shrinkage=0.1), RLS(), KLDA(features=50)):
        system.fit(X, np.arange(16), range(16))
        whole = system.predict(X)
        np.testing.assert_array_equal(whole, np.arange(16) // 2 * 2)
        assert [system.predict(x[None])[0] for x in X] == whole.tolist()
