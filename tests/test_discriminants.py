"""Class means, discriminants and ridge regression: running sums equal the formulas over all rows."""

import numpy as np
import pandas as pd
import pytest
from conftest import clusters, rows
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal

from ocrrlib.rivals.covariance import oas
from ocrrlib.rivals.discriminants import BLOCK, GROWTH, KLDA, NCM, SLDA, AveragedKLDA
from ocrrlib.rivals.features import (
    cosines_and_sines,
    draw_features,
    lift,
    orthogonal_frequencies,
    rectified,
)
from ocrrlib.rivals.ridge import RIDGES, RLS, RanPAC
from ocrrlib.systems.base import softmax

KNOWN, CLASSES, D = 5, 8, 12
X0, Y0 = clusters(KNOWN, 20, D, seed=3)
GROWN = int((GROWTH - 1) * len(Y0))  # corrections after which a covariance is inverted anew
NEW_X, NEW_Y = (
    rows(GROWN, D, 4),
    np.random.default_rng(5).integers(0, CLASSES, GROWN),
)  # known and new classes
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
    met = np.unique(y)
    means = [X[y == c].mean(axis=0) for c in met]
    for unit, metric in ((False, "euclidean"), (True, "cosine")):
        np.testing.assert_array_equal(
            taught(NCM(unit=unit)).predict(Q), met[cdist(Q, means, metric).argmin(axis=1)]
        )


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


@pytest.mark.parametrize("n", [0, 1, GROWN])
def test_ranpac_equals_batch_ridge_at_the_ridge_that_predicts_left_out_initial_rows_best(n):
    system = taught(RanPAC(features=20), n)
    X, y = everything(n)
    Z, T = rectified(X.astype(np.float32), system.projection), np.eye(CLASSES)[y]

    def weights_of(y):
        return 1 / np.bincount(y)[y]

    def fitted(ridge, part, w):
        weighed = Z[part] * w[part, None]
        return np.linalg.solve(weighed.T @ Z[part] + ridge * np.eye(20), weighed.T @ T[part]).T

    first, w = np.arange(len(Y0)), weights_of(Y0)

    def left_out(ridge):
        misses = [T[i] - fitted(ridge, first[first != i], w) @ Z[i] for i in first]
        return w @ np.square(misses).sum(axis=1)

    W = fitted(min(RIDGES, key=left_out), np.arange(len(y)), weights_of(y))
    np.testing.assert_allclose(system.W, W, rtol=1e-7, atol=1e-9)


def scatter(Z, y):
    """Of rows around the means of their classes."""
    centred = Z - pd.DataFrame(Z).groupby(y).transform("mean").to_numpy()
    return centred.T @ centred


@pytest.mark.parametrize(
    "system",
    [
        SLDA(shrinkage=1e-4),
        SLDA(shrinkage=0.1, target="variance"),
        SLDA(shrinkage=0.1, updated=False),
        SLDA(shrinkage=0.1, updated=False, target="variance"),
        KLDA(seed=2, features=30),
        KLDA(seed=2, features=30, shrinkage="oas", prior_rows=2.5),
    ],
    ids=["identity", "variance", "identity, frozen", "variance, frozen", "KLDA", "OAS, means held"],
)
@pytest.mark.parametrize("n", [0, 1, BLOCK - 1, BLOCK, GROWN - 1, GROWN])
def test_slda_and_klda_probabilities_are_those_of_gaussians_with_their_covariance(n, system):
    taught(system, n)
    X, y = everything(n)
    Z, own = (lift(part.astype(np.float32), *system.drawn) for part in (X, Q))
    whole, start, D = (scatter(Z, y), len(y)), (scatter(Z[: len(Y0)], Y0), len(Y0)), Z.shape[1]
    s = oas(start[0], len(Y0)) if system.shrinkage == "oas" else system.shrinkage
    S, rows_in = whole if system.updated else start
    shrunk, count = whole if system.updated and n == GROWN else start  # at the last inversion
    ridge = s * (count if system.target == "identity" else np.trace(shrunk) / D)
    covariance = ((1 - s) * S + ridge * np.eye(D)) / rows_in
    held = system.prior_rows * Z[: len(Y0)].mean(axis=0)
    means = [
        (Z[y == c].sum(axis=0) + held) / (np.sum(y == c) + system.prior_rows) for c in np.unique(y)
    ]
    logs = [multivariate_normal(mean, covariance).logpdf(own) for mean in means]
    expected = np.zeros((len(Q), CLASSES))
    expected[:, np.unique(y)] = softmax(np.column_stack(logs))
    np.testing.assert_allclose(system.predict_proba(Q), expected, atol=1e-9)


@pytest.mark.parametrize("n", [4, 40, 400])
def test_oas_is_where_the_estimate_of_the_oracle_shrinkage_converges(n):
    """The iteration of Chen et al. 2010, whose limit they give in closed form."""
    Z = np.random.default_rng(n).normal(size=(n, D)) * np.linspace(0.1, 2, D)
    S, shrunk = Z.T @ Z / n, np.eye(D)
    for _ in range(1000):
        product, square = np.trace(shrunk @ S), np.trace(shrunk) ** 2
        rho = ((1 - 2 / D) * product + square) / ((n + 1 - 2 / D) * product + (1 - n / D) * square)
        shrunk = (1 - rho) * S + rho * np.trace(S) / D * np.eye(D)
    assert oas(S, n) == pytest.approx(min(rho, 1), rel=1e-6)
    assert oas(np.eye(D), n) == oas(np.zeros((D, D)), n) == 1


def test_averaged_klda_answers_by_the_mean_of_systems_that_draw_other_features():
    system, alone = taught(AveragedKLDA(params=dict(features=30))), taught(KLDA(features=30))
    parts = np.array([member.predict_proba(Q) for member in system.members])
    np.testing.assert_array_equal(parts[0], alone.predict_proba(Q))
    assert len({part.tobytes() for part in parts}) == system.draws == 5
    np.testing.assert_allclose(system.predict_proba(Q), parts.mean(axis=0), atol=1e-12)
    np.testing.assert_array_equal(system.predict(Q), parts.mean(axis=0).argmax(axis=1))


@pytest.mark.parametrize(
    "make", [lambda: KLDA(features=60), lambda: SLDA(shrinkage=0.2, target="variance")]
)
def test_equal_rows_say_nothing_of_how_rows_vary(make):
    """Neither when it is fitted nor later: their scatter is rounding, not a variance to be shrunk towards."""
    X, y = np.repeat(X0[:6], 3, axis=0), np.repeat(np.arange(6), 3)
    at_once, later = make().fit(X, y, range(CLASSES)), make().fit(X[::3], y[::3], range(CLASSES))
    for x, label in zip(np.repeat(X[::3], 2, axis=0), np.repeat(np.arange(6), 2).tolist()):
        later.correct(x, label)
    for system in (at_once, later):
        assert system.ridge == 0.2 and system.predict(X).tolist() == y.tolist()
        np.testing.assert_allclose(system.inverse, np.eye(len(system.inverse)) / 0.2, atol=1e-9)


def test_random_features_approximate_the_rbf_kernel_and_may_be_orthogonal():
    W = orthogonal_frequencies(10_000, D, 0.8, 0)
    for F in (lift(Q, *draw_features(40_000, D, 0.8, seed=1)), cosines_and_sines(Q, W)):
        np.testing.assert_allclose(
            F @ F.T, np.exp(-cdist(Q, Q, "sqeuclidean") / (2 * 0.8**2)), atol=0.04
        )
    np.testing.assert_allclose(
        W[:, :D].T @ W[:, :D], np.diag((W[:, :D] ** 2).sum(axis=0)), atol=1e-9
    )


def test_classes_with_the_same_rows_tie_and_the_lower_id_wins_in_any_batch():
    X = np.repeat(rows(8, D, 11), 2, axis=0)
    for system in (NCM(), SLDA(shrinkage=0.1), RLS(), KLDA(features=50)):
        system.fit(X, np.arange(16), range(16))
        whole = system.predict(X)
        np.testing.assert_array_equal(whole, np.arange(16) // 2 * 2)
        assert [system.predict(x[None])[0] for x in X] == whole.tolist()
