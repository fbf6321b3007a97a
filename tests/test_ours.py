"""The system proposed before: Gaussian models are the textbook's; ledger, neighbours and head each do their part."""

import numpy as np
import pytest
from conftest import clusters, rows
from scipy.stats import multivariate_normal, norm
from test_discriminants import scatter
from test_systems import corrections, teach

from ocrrlib.rivals.covariance import basis
from ocrrlib.rivals.gaussians import PLDA, KernelLDA
from ocrrlib.rivals.ledger_plda import LedgerPLDA
from ocrrlib.scenario import make_scenario
from ocrrlib.systems import SYSTEMS, make
from ocrrlib.systems.base import softmax
from ocrrlib.systems.neighbours import Substrate

KNOWN, CLASSES, D = 6, 9, 8
X0, Y0 = clusters(KNOWN, 30, D, seed=3)
NEW_X, NEW_Y = (
    rows(40, D, 4),
    np.random.default_rng(5).integers(0, CLASSES, 40),
)  # known and new classes
ALL_X, ALL_Y = np.vstack([X0, NEW_X]), np.append(Y0, NEW_Y)
Q = rows(50, D, 6)
FEATURES = dict(features=24, bandwidth=1.0, shrinkage=0.2, prior_rows=0, rank=24)


def learnt(model, X=NEW_X, y=NEW_Y):
    for x, label in zip(X, y.tolist()):
        model.learn(x, label)
    return model


def scores(model, X):
    return model.scores(model.project(X))


def within(Z, y):
    """Covariance of rows of one class."""
    return scatter(Z, y) / (len(y) - len(np.unique(y)))


# --- PLDA


@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 1.0])
def test_rows_of_a_class_vary_by_one_and_class_means_by_what_is_not_due_to_few_rows(shrinkage):
    keep = np.flatnonzero((Y0 > 0) | (np.cumsum(Y0 == 0) <= 3))  # classes of unequal size
    X, y = X0[keep], Y0[keep]
    centre, P, between = basis(X, y, CLASSES, shrinkage)
    Z, W = (X - centre) @ P, within(X.astype(np.float64), y)
    shrunk = (1 - shrinkage) * W + shrinkage * np.trace(W) / D * np.eye(D)
    np.testing.assert_allclose(P.T @ shrunk @ P, np.eye(D), atol=1e-8)
    means = np.array([Z[y == c].mean(axis=0) for c in range(KNOWN)])
    np.testing.assert_allclose(means.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(
        np.diag(between), np.cov(means.T) - np.eye(D) * np.mean(1 / np.bincount(y)), atol=1e-8
    )
    assert (np.diff(between) <= 0).all()


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_score_is_the_density_of_a_row_given_the_rows_of_the_class(power):
    model = learnt(PLDA(X0, Y0, CLASSES, power=power, prior_rows=20))
    Z, asked = (model.project(X)[:, :D] for X in (ALL_X, Q[:5]))
    got = scores(model, Q[:5]) - D / 2 * np.log(2 * np.pi)
    for label in range(CLASSES):
        own = Z[ALL_Y == label]
        # Joint Gaussian of the mean and its rows, conditioned on the rows, coordinate by
        # coordinate.
        gains = [b * np.linalg.inv(b + np.eye(len(own))).sum(axis=0) for b in model.between]
        mean = np.einsum("dn,nd->d", gains, own)
        variance = model.between * (1 - np.sum(gains, axis=1))
        spread = ((20 + ((own - own.mean(axis=0)) ** 2).sum() / D) / (20 + len(own) - 1)) ** power
        density = norm(mean, np.sqrt(spread + variance)).logpdf(asked).sum(axis=1)
        np.testing.assert_allclose(got[:, label], density, rtol=1e-8)


# --- discriminants on kernel features


@pytest.mark.parametrize("shrinkage, rank, prior_rows", [(0.05, 24, 0), (0.2, 5, 0), (0.1, 5, 3.5)])
def test_scores_are_log_densities_of_gaussians_with_one_covariance(shrinkage, rank, prior_rows):
    """Beyond the rank all directions vary by their mean; class means are held to that of the first rows."""
    how = FEATURES | dict(shrinkage=shrinkage, rank=rank, prior_rows=prior_rows)
    taught = (NEW_Y == 0) | (NEW_Y >= KNOWN)  # the other known classes stay as they are at first
    model = learnt(KernelLDA(X0, Y0, CLASSES, **how), NEW_X[taught], NEW_Y[taught])
    first, F, own = (model.project(X) for X in (X0, np.vstack([X0, NEW_X[taught]]), Q))
    y = np.append(Y0, NEW_Y[taught])
    S = within(first, Y0)
    values, vectors = np.linalg.eigh(
        (1 - shrinkage) * S + shrinkage * np.trace(S) / 24 * np.eye(24)
    )
    values[: max(24 - rank, 1)] = values[: max(24 - rank, 1)].mean()
    covariance, logs = (vectors * values) @ vectors.T, []
    for c in range(CLASSES):
        rows_of = F[y == c]
        mean = (rows_of.sum(axis=0) + prior_rows * first.mean(axis=0)) / (len(rows_of) + prior_rows)
        logs.append(multivariate_normal(mean, covariance).logpdf(own))
    found, expected = scores(model, Q), np.column_stack(logs)
    np.testing.assert_allclose(found - found[:, :1], expected - expected[:, :1], atol=1e-6)


# --- the whole system

USUAL = SYSTEMS["ledger_plda"].params | {"kernel": dict(FEATURES, prior_rows=2, rank=16)}
ALONE = dict(kernel_weight=0.0, neighbour_weight=0.0, head_weight=0.0)
MIXTURES = {
    "as registered": {},
    "PLDA alone": ALONE | {"model": dict(shrinkage=0.2, floor=0.3, prior_rows=50, power=0.5)},
    "neighbours alone": ALONE | dict(neighbour_weight=1.0, neighbour_temperature=0.07, k=30),
    "known classes by the head alone": dict(head_weight=1.0, model_temperature=5.0),
}


@pytest.fixture(scope="module")
def s(tiny):
    """Eight known classes, four new ones."""
    return make_scenario(tiny, 0, held_out=4, cap=None)


def fitted(s, **params):
    """After 60 corrections."""
    return teach(
        LedgerPLDA(**USUAL | params).fit(s.X_initial, s.y_initial, s.classes), corrections(s, 60)
    )


@pytest.mark.parametrize("params", MIXTURES.values(), ids=MIXTURES)
def test_probabilities_are_the_mixture_that_the_protocol_writes(params, s):
    system, known = fitted(s, **params), np.isin(np.arange(len(s.classes)), s.y_initial)
    data, X, y = (s.X_initial, s.y_initial, len(s.classes)), system.entries.X, system.entries.y
    models = PLDA(*data, **system.model), KernelLDA(*data, **system.kernel)
    parts, near = [], np.zeros((len(s.queries), len(s.classes)))
    for model, temperature in zip(models, (system.model_temperature, system.kernel_temperature)):
        learnt(model, X[len(s.y_initial) :], y[len(s.y_initial) :])
        parts.append(
            softmax(np.where(model.counts, scores(model, s.queries) / temperature, -np.inf))
        )
    for row, cosines in zip(near, s.queries.astype(np.float64) @ X.T.astype(np.float64)):
        for slot in np.argsort(-cosines, kind="stable")[: system.k]:
            row[y[slot]] = max(row[y[slot]], np.exp(cosines[slot] / system.neighbour_temperature))
    near /= near.sum(axis=1, keepdims=True)
    w = system.kernel_weight, system.neighbour_weight
    p = (1 - sum(w)) * parts[0] + w[0] * parts[1] + w[1] * near
    head = make("static_linear").fit(s.X_initial, s.y_initial, s.classes).predict_proba(s.queries)
    given = system.head_weight * p[:, known].sum(axis=1, keepdims=True) * head
    p = given + np.where(known, 1 - system.head_weight, system.new_odds) * p
    np.testing.assert_allclose(
        system.predict_proba(s.queries), p / p.sum(axis=1, keepdims=True), atol=1e-12
    )
    np.testing.assert_array_equal(system.predict(s.queries), p.argmax(axis=1))


def test_ledger_is_that_of_substrate_and_storage_is_all_that_is_held(s):
    system = fitted(s)
    substrate = teach(Substrate().fit(s.X_initial, s.y_initial, s.classes), corrections(s, 60))
    assert system.entries.hashes == substrate.entries.hashes
    held = sum(model.nbytes for model in system.models) + system.head.storage().bytes
    assert system.storage().bytes == substrate.storage().bytes + held
