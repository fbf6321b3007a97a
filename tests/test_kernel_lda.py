"""Discriminants on random features: the features follow the kernel, scores are the textbook's, means run."""

import numpy as np
import pytest
from conftest import clusters, rows
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from ocrrlib.systems.fourier import Fourier, median_distance
from ocrrlib.systems.kernel_lda import KernelLDA, OrthogonalFourier

KNOWN, CLASSES, D = 6, 9, 8
X0, Y0 = clusters(KNOWN, 30, D, seed=3)
NEW_X, NEW_Y = rows(40, D, 4), np.random.default_rng(5).integers(0, CLASSES, 40)  # known and new classes
Q = rows(50, D, 6)
USUAL = dict(features=24, bandwidth=1.0, shrinkage=0.2, prior_rows=0, rank=24)


def taught(X=NEW_X, y=NEW_Y, **settings):
    model = KernelLDA(X0, Y0, CLASSES, **USUAL | settings)
    for z, label in zip(model.project(X), y.tolist()):
        model.add(z, label)
    return model


def kernel(X, bandwidth):
    squares = ((X[:, None].astype(np.float64) - X) ** 2).sum(axis=2)
    return np.exp(-squares / (2 * bandwidth**2))


@pytest.mark.parametrize("features", [16, 24, 40])
def test_frequencies_of_a_block_are_orthogonal_and_so_many_as_are_asked_for(features):
    lift = OrthogonalFourier(features, 0, D, 0.7)
    W = lift.draw()
    assert W.shape == (D, features // 2) and lift(Q).shape == (len(Q), features)
    for start in range(0, features // 2, D):
        block = W[:, start : start + D]
        products = block.T @ block
        np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-9)
    assert lift.nbytes == W.nbytes


def test_features_have_unit_length_and_their_products_are_those_of_the_kernel():
    F = OrthogonalFourier(20_000, 0, D, 0.8)(Q)
    np.testing.assert_allclose(np.einsum("nd,nd->n", F, F), 1)
    np.testing.assert_allclose(F @ F.T, kernel(Q, 0.8), atol=0.03)


def test_they_follow_the_kernel_more_closely_than_features_drawn_one_by_one():
    errors = {OrthogonalFourier: [], Fourier: []}
    for kind, found in errors.items():
        for seed in range(20):
            F = kind(4 * D, seed, D, 0.8)(Q)
            found.append(np.mean((F @ F.T - kernel(Q, 0.8)) ** 2))
    assert np.mean(errors[OrthogonalFourier]) < 0.6 * np.mean(errors[Fourier])


@pytest.mark.parametrize("shrinkage", [0.05, 0.2, 1.0])
def test_with_all_directions_scores_are_the_log_densities_of_gaussians_with_one_covariance(shrinkage):
    model = taught(shrinkage=shrinkage)
    F, own = model.lift(X0), model.lift(Q)
    centred = F - np.array([F[Y0 == c].mean(axis=0) for c in range(KNOWN)])[Y0]
    within = centred.T @ centred / (len(Y0) - KNOWN)
    covariance = (1 - shrinkage) * within + shrinkage * np.trace(within) / len(within) * np.eye(len(within))
    both, labels = np.vstack([F, model.lift(NEW_X)]), np.append(Y0, NEW_Y)
    expected = np.column_stack(
        [multivariate_normal(both[labels == c].mean(axis=0), covariance).logpdf(own) for c in range(CLASSES)]
    )
    found = model.scores(own)
    np.testing.assert_allclose(found - found[:, :1], expected - expected[:, :1], atol=1e-6)


@pytest.mark.parametrize("prior_rows", [1, 3.5])
def test_means_are_those_of_the_rows_and_of_so_many_more_that_lie_at_the_mean_of_the_first_rows(prior_rows):
    model, plain = taught(prior_rows=prior_rows), taught()
    first = model.lift(X0).mean(axis=0)
    counts = model.counts[:, None]
    expected = (counts * plain.means() + prior_rows * first) / (counts + prior_rows)
    np.testing.assert_allclose(model.means(), expected, atol=1e-12)
    known = KernelLDA(X0, Y0, CLASSES, **USUAL | dict(prior_rows=prior_rows))
    for one in (model, known):
        G = one.base * np.eye(24) + (one.U * one.gains) @ one.U.T
        np.testing.assert_allclose(one.weights[:KNOWN], (one.means() @ G)[:KNOWN], atol=1e-8)
        offset = np.einsum("cd,cd->c", one.means(), one.means() @ G) / -2
        np.testing.assert_allclose(one.offset[:KNOWN], offset[:KNOWN], atol=1e-8)


def test_a_class_of_one_row_is_likelier_for_rows_near_it_where_its_mean_is_held_to_all_rows():
    """The mean of one row is off by as much as rows vary, and a class would be charged for that."""
    X, y = clusters(CLASSES, 60, D, seed=8)
    new = y >= KNOWN
    places = [int(np.flatnonzero(y == label)[0]) for label in range(KNOWN, CLASSES)]
    asked = np.setdiff1d(np.flatnonzero(new), places)

    def right(prior_rows):
        model = KernelLDA(X[~new], y[~new], CLASSES, **USUAL | dict(prior_rows=prior_rows))
        for place in places:
            model.add(model.project(X[place : place + 1])[0], int(y[place]))
        return np.mean(model.scores(model.project(X[asked])).argmax(axis=1) == y[asked])

    assert right(2) > right(0)


def test_beyond_the_rank_all_directions_vary_by_their_mean():
    whole, part = taught(), taught(rank=5)
    G = whole.base * np.eye(24) + (whole.U * whole.gains) @ whole.U.T
    values, vectors = np.linalg.eigh(np.linalg.inv(G))
    values[:-5] = values[:-5].mean()
    expected = (vectors / values) @ vectors.T
    np.testing.assert_allclose(part.base * np.eye(24) + (part.U * part.gains) @ part.U.T, expected, atol=1e-8)
    assert part.U.shape == (24, 5) and part.nbytes < whole.nbytes


def test_few_rows_or_many_the_covariance_is_that_of_the_rows():
    for n in (20, 23, 24, 25, 40):
        model = KernelLDA(X0[:n], Y0[:n], CLASSES, **USUAL)
        F, own = model.lift(X0[:n]), Y0[:n]
        F = F - (model.sums / np.maximum(model.counts, 1)[:, None])[own]
        within = F.T @ F / (n - np.count_nonzero(model.counts))
        covariance = 0.8 * within + 0.2 * np.trace(within) / 24 * np.eye(24)
        G = model.base * np.eye(24) + (model.U * model.gains) @ model.U.T
        np.testing.assert_allclose(G @ covariance, np.eye(24), atol=1e-7)


@given(st.permutations(range(len(NEW_Y))))
def test_rows_added_in_any_order_equal_means_over_all_rows(order):
    model = taught(NEW_X[order], NEW_Y[order])
    F, y = model.lift(np.vstack([X0, NEW_X])), np.append(Y0, NEW_Y)
    np.testing.assert_array_equal(model.counts, np.bincount(y, minlength=CLASSES))
    means = np.array([F[y == c].mean(axis=0) for c in range(CLASSES)])
    np.testing.assert_allclose(model.sums / model.counts[:, None], means, atol=1e-9)
    np.testing.assert_allclose(model.weights, taught().weights, atol=1e-6)
    assert model.changes == NEW_Y[order].tolist()


def test_scores_of_some_classes_are_those_columns_of_all():
    model = taught()
    np.testing.assert_allclose(model.scores(model.project(Q), [2, 7]), model.scores(model.project(Q))[:, [2, 7]])


def test_models_of_the_same_rows_share_what_the_rows_decide_and_nothing_else():
    first, second = taught(), KernelLDA(X0, Y0, CLASSES, **USUAL)
    assert first.counts.sum() == len(Y0) + len(NEW_Y) and second.counts.sum() == len(Y0)
    np.testing.assert_array_equal(first.project_often(Q), second.project(Q))


@pytest.mark.parametrize("n", [0, 1, 3])
def test_where_nothing_says_how_rows_vary_the_nearest_mean_is_likeliest(n):
    X, y = X0[:n], np.arange(n)
    model = KernelLDA(X, y, CLASSES, **USUAL)
    for x, label in zip(model.project(X0[n : n + 3]), range(3, 6)):
        model.add(x, label)
    assert model.seen.tolist() == [label < n or 3 <= label < 6 for label in range(CLASSES)]
    F, means = model.project(Q), model.sums[model.seen]
    distances = ((F[:, None] - means) ** 2).sum(axis=2)
    np.testing.assert_array_equal(model.scores(F, model.seen).argmax(axis=1), distances.argmin(axis=1))


@given(st.integers(2, 4), st.floats(0, 1e-4))
def test_copies_and_rounding_between_them_are_taken_to_say_nothing_of_how_rows_vary(copies, off):
    X, y = np.repeat(X0[:5], copies, axis=0), np.repeat(np.arange(5), copies)
    model = KernelLDA(X + np.float32(off) * rows(len(X), D, 7), y, CLASSES, **USUAL)
    assert model.base == pytest.approx(USUAL["features"]) and model.U.shape[1] == 0


def test_the_bandwidth_is_in_median_distances():
    assert taught(bandwidth=0.5).lift.bandwidth == 0.5 * median_distance(X0, 0)
