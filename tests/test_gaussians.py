"""Gaussian class models: scores are the textbook's densities, given the rows so far."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from ocrrlib.rivals.gaussians import PLDA, KernelLDA
from tests.samples import clusters, rows, within

KNOWN = 6
CLASSES = 9
D = 8
X0, Y0 = clusters(KNOWN, 30, D, seed=3)
NEW_X = rows(40, D, 4)
NEW_Y = np.random.default_rng(5).integers(0, CLASSES, 40)  # known and new classes
Q = rows(50, D, 6)
FEATURES = dict(features=24, bandwidth=1.0, shrinkage=0.2, prior_rows=0, rank=24)


def learnt(model, X=NEW_X, y=NEW_Y):
    for x, label in zip(X, y.tolist()):
        model.learn(x, label)
    return model


def scores(model, X):
    return model.scores(model.project(X))


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_score_is_the_density_of_a_row_given_the_rows_of_the_class(power):
    model = learnt(PLDA(X0, Y0, CLASSES, power=power, prior_rows=20))
    Z = model.project(np.vstack([X0, NEW_X]))[:, :D]
    y = np.append(Y0, NEW_Y)
    asked = model.project(Q[:5])[:, :D]
    got = scores(model, Q[:5]) - D / 2 * np.log(2 * np.pi)
    for label in range(CLASSES):
        own = Z[y == label]
        # Joint Gaussian of the mean and its rows, conditioned on the rows, coordinate by
        # coordinate.
        gains = [b * np.linalg.inv(b + np.eye(len(own))).sum(axis=0) for b in model.psi]
        mean = np.einsum("dn,nd->d", gains, own)
        variance = model.psi * (1 - np.sum(gains, axis=1))
        spread = ((20 + ((own - own.mean(axis=0)) ** 2).sum() / D) / (20 + len(own) - 1)) ** power
        density = norm(mean, np.sqrt(spread + variance)).logpdf(asked).sum(axis=1)
        np.testing.assert_allclose(got[:, label], density, rtol=1e-8)


@pytest.mark.parametrize("shrinkage, rank, prior_rows", [(0.05, 24, 0), (0.2, 5, 0), (0.1, 5, 3.5)])
def test_scores_are_log_densities_of_gaussians_with_one_covariance(shrinkage, rank, prior_rows):
    """Beyond the rank all directions vary by their mean; class means are held to a common one."""
    how = FEATURES | dict(shrinkage=shrinkage, rank=rank, prior_rows=prior_rows)
    taught = (NEW_Y == 0) | (NEW_Y >= KNOWN)  # the other known classes stay as they are at first
    model = learnt(KernelLDA(X0, Y0, CLASSES, **how), NEW_X[taught], NEW_Y[taught])
    first = model.project(X0)
    F = model.project(np.vstack([X0, NEW_X[taught]]))
    y = np.append(Y0, NEW_Y[taught])
    S = within(first, Y0)
    values, vectors = np.linalg.eigh(
        (1 - shrinkage) * S + shrinkage * np.trace(S) / 24 * np.eye(24)
    )
    values[: max(24 - rank, 1)] = values[: max(24 - rank, 1)].mean()
    covariance = (vectors * values) @ vectors.T
    logs = []
    for c in range(CLASSES):
        rows_of = F[y == c]
        mean = (rows_of.sum(axis=0) + prior_rows * first.mean(axis=0)) / (len(rows_of) + prior_rows)
        logs.append(multivariate_normal(mean, covariance).logpdf(model.project(Q)))
    found = scores(model, Q)
    expected = np.column_stack(logs)
    np.testing.assert_allclose(found - found[:, :1], expected - expected[:, :1], atol=1e-6)
