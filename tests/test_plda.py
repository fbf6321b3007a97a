"""PLDA: the basis whitens, running sums equal those over all rows, scores are the textbook's predictive densities."""

import numpy as np
import pytest
from conftest import clusters, rows
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm

from ocrrlib.systems.linear import softmax
from ocrrlib.systems.plda import LEAST, PLDA, basis

KNOWN, CLASSES, D = 6, 9, 8
X0, Y0 = clusters(KNOWN, 30, D, seed=3)
NEW_X, NEW_Y = rows(40, D, 4), np.random.default_rng(5).integers(0, CLASSES, 40)  # known and new classes
Q = rows(50, D, 6)


def taught(X=NEW_X, y=NEW_Y, **settings):
    model = PLDA(X0, Y0, CLASSES, **settings)
    for z, label in zip(model.project(X), y.tolist()):
        model.add(z, label)
    return model


def scores(model, X, **classes):
    Z = model.project(X)
    return model.scores(Z, Z**2, **classes)


def answers(model, X):
    return np.where(model.seen, scores(model, X), -np.inf).argmax(axis=1)


def statistics(Z, y):
    """Counts, sums and mean squares around class means, from all rows at once."""
    own = [Z[y == c] for c in range(CLASSES)]
    scatter = [((Zc - Zc.mean(axis=0)) ** 2).sum() / D if len(Zc) else 0.0 for Zc in own]
    return np.array([len(Zc) for Zc in own]), np.array([Zc.sum(axis=0) for Zc in own]), np.array(scatter)


def within(Z, y):
    centred = Z - np.array([Z[y == c].mean(axis=0) for c in range(KNOWN)])[y]
    return centred.T @ centred / (len(y) - KNOWN)


def test_rows_of_a_class_vary_by_one_in_every_direction():
    centre, P, _ = basis(X0, Y0, CLASSES, 0.0)
    np.testing.assert_allclose(within((X0 - centre) @ P, Y0), np.eye(D), atol=1e-9)


def test_class_means_vary_independently_and_by_what_is_not_due_to_few_rows():
    keep = np.flatnonzero((Y0 > 0) | (np.cumsum(Y0 == 0) <= 3))  # classes of unequal size
    X, y = X0[keep], Y0[keep]
    centre, P, between = basis(X, y, CLASSES, 0.0)
    means = np.array([((X - centre) @ P)[y == c].mean(axis=0) for c in range(KNOWN)])
    np.testing.assert_allclose(means.mean(axis=0), 0, atol=1e-9)
    expected = np.cov(means.T) - np.eye(D) * np.mean(1 / np.bincount(y))
    np.testing.assert_allclose(np.diag(between), expected, atol=1e-8)
    assert (np.diff(between) <= 0).all()


def test_full_shrinkage_only_turns_and_scales():
    _, P, _ = basis(X0, Y0, CLASSES, 1.0)
    variance = np.trace(within(X0.astype(np.float64), Y0)) / D
    np.testing.assert_allclose(P.T @ P, np.eye(D) / variance, atol=1e-8)


@given(st.permutations(range(len(NEW_Y))))
def test_rows_added_in_any_order_equal_sums_over_all_rows(order):
    model = taught(NEW_X[order], NEW_Y[order])
    Z = model.project(np.vstack([X0, NEW_X]))
    counts, sums, scatter = statistics(Z, np.append(Y0, NEW_Y))
    np.testing.assert_array_equal(model.counts, counts)
    np.testing.assert_allclose(model.sums, sums, atol=1e-9)
    np.testing.assert_allclose(model.scatter, scatter, atol=1e-9)
    assert model.changes == NEW_Y[order].tolist()


def mean_given(model, own):
    """Mean and variance of each coordinate of the class mean, by conditioning its joint Gaussian with the rows."""
    n, posterior = len(own), []
    for d in range(D):
        b = model.between[d]
        joint = b + np.diag([0.0] + [1.0] * n)  # the class mean, then its rows
        gain = joint[0, 1:] @ np.linalg.inv(joint[1:, 1:])
        posterior.append((gain @ own[:, d], b - gain @ joint[1:, 0]))
    return np.array(posterior).T


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_score_is_the_density_of_a_row_given_the_rows_of_the_class(power):
    model, known = taught(power=power, prior_rows=20), np.append(Y0, NEW_Y)
    Z = model.project(np.vstack([X0, NEW_X]))
    got = scores(model, Q[:5]) - D / 2 * np.log(2 * np.pi)
    for label in range(CLASSES):
        own = Z[known == label]
        mean, variance = mean_given(model, own)
        spread = ((20 + ((own - own.mean(axis=0)) ** 2).sum() / D) / (20 + len(own) - 1)) ** power
        density = norm(mean, np.sqrt(spread + variance)).logpdf(model.project(Q[:5])).sum(axis=1)
        np.testing.assert_allclose(got[:, label], density, rtol=1e-8)


def test_difference_of_two_scores_is_the_log_ratio_of_joint_densities():
    model, y = taught(power=0.0), np.append(Y0, NEW_Y)
    Z, z = model.project(np.vstack([X0, NEW_X])), model.project(Q[:1])

    def evidence(own):
        """Log-density of all these rows together, their common mean unknown."""
        n = len(own)
        return sum(
            multivariate_normal(np.zeros(n), np.eye(n) + b).logpdf(own[:, d]) for d, b in enumerate(model.between)
        )

    def gain(label):
        return evidence(np.vstack([Z[y == label], z])) - evidence(Z[y == label])

    got = scores(model, Q[:1])[0]
    assert np.count_nonzero(y == 0) > 30 > 10 > np.count_nonzero(y == CLASSES - 1)
    np.testing.assert_allclose(got[0] - got[CLASSES - 1], gain(0) - gain(CLASSES - 1), rtol=1e-7)


@given(st.lists(st.integers(0, CLASSES - 1), unique=True, max_size=CLASSES))
def test_scores_under_some_classes_are_columns_of_those_under_all(chosen):
    model, chosen = taught(), np.array(chosen, int)
    np.testing.assert_allclose(scores(model, Q, classes=chosen), scores(model, Q)[:, chosen], atol=1e-10)


FEW = {
    "no row": (X0[:0], Y0[:0]),
    "one row": (X0[:1], Y0[:1]),
    "one class": (X0[Y0 == 2], Y0[Y0 == 2]),
    "one class of equal rows": (X0[[0] * 5], Y0[[0] * 5]),
    "equal rows in each class": (np.repeat(X0[:5], 3, axis=0), np.repeat(np.arange(5), 3)),
    "one row a class": (rows(CLASSES - 2, D, 8), np.arange(CLASSES - 2)),
    "fewer rows than dimensions": (X0[:5], Y0[:5] % 2),
}


@pytest.mark.parametrize("X, y", FEW.values(), ids=FEW)
def test_few_rows_are_coped_with_and_what_was_learnt_is_known(X, y):
    model = PLDA(X, y, CLASSES)
    np.testing.assert_array_equal(model.seen, np.isin(np.arange(CLASSES), y))
    assert np.isfinite(scores(model, Q)).all() and np.isfinite(model.P).all()
    new = rows(2, D, 9)
    for z, label in zip(model.project(np.repeat(new, 20, axis=0)), np.repeat([CLASSES - 2, CLASSES - 1], 20).tolist()):
        model.add(z, label)
        assert np.isfinite(scores(model, Q)).all()
    assert answers(model, new).tolist() == [CLASSES - 2, CLASSES - 1]


def test_directions_in_which_rows_do_not_vary_are_stretched_no_further_than_the_least():
    X, y = X0[:5], Y0[:5] % 2
    _, P, _ = basis(X, y, 2, 0.0)
    centred = X - np.array([X[y == c].mean(axis=0) for c in (0, 1)])[y]
    least = LEAST * np.vdot(centred, centred) / 3 / D
    np.testing.assert_allclose(np.linalg.norm(P, 2), 1 / np.sqrt(least), rtol=1e-6)


def test_the_mean_of_a_class_is_known_the_better_the_more_rows_it_has():
    X = np.repeat(X0[:1], 1000, axis=0)
    model = PLDA(X0, Y0, CLASSES, floor=0.5, power=0.0)
    left = []
    for label, n in ((KNOWN, 1), (KNOWN + 1, 1000)):
        for z in model.project(X[:n]):
            model.add(z, label)
        left.append(1 / model.precision[label] - 1)
    np.testing.assert_allclose(left[0], model.between / (model.between + 1))
    np.testing.assert_allclose(left[1], model.between / (1000 * model.between + 1))


def test_classes_of_one_row_and_of_a_thousand_are_compared_fairly():
    pairs, d, asked = 120, 4, 20
    rng, few = np.random.default_rng(0), np.arange(2 * pairs) % 2 == 0
    means = rng.normal(0, 1.5, (2 * pairs, d))
    y = np.repeat(np.arange(2 * pairs), np.where(few, 1, 1000))
    model = PLDA(means[y] + rng.normal(size=(len(y), d)), y, 2 * pairs, shrinkage=0.0)
    own = np.repeat(np.arange(2 * pairs), asked)  # half the queries are of the class of one row
    Z = model.project(means[own] + rng.normal(size=(len(own), d)))
    two = own[:, None] // 2 * 2 + [0, 1]

    def given_to_few(logits):
        return softmax(np.take_along_axis(logits, two, axis=1))[:, 0].mean()

    plain = model.sums / model.counts[:, None]
    assert abs(given_to_few(model.scores(Z, Z**2)) - 0.5) < 0.02
    assert given_to_few(Z @ plain.T - (plain**2).sum(axis=1) / 2) < 0.46  # what a plain mean would give


def test_a_wide_class_has_a_wide_spread_and_power_zero_gives_all_the_same():
    rng, y = np.random.default_rng(1), np.repeat(np.arange(3), 200)
    X = rng.normal(size=(600, D)) * np.array([1, 1, 2])[y, None]
    spread = 1 / PLDA(X, y, 3, prior_rows=10, power=1.0).precision.mean(axis=1)
    assert spread[2] > 2 * max(spread[:2])
    np.testing.assert_allclose(np.ptp(PLDA(X, y, 3, power=0.0).precision, axis=0), 0, atol=1e-12)


def test_without_prior_rows_a_class_of_one_row_is_as_wide_as_all():
    model = PLDA(X0, Y0, CLASSES, prior_rows=0, power=1.0)
    model.add(model.project(NEW_X[:1])[0], KNOWN)
    np.testing.assert_allclose(model.precision[KNOWN], 1 / (1 + model.between / (model.between + 1)))
    assert np.isfinite(scores(model, Q)).all()


@given(st.integers(2, 4), st.floats(0, 1e-4))
def test_copies_and_rounding_between_them_are_taken_to_say_nothing_of_how_rows_vary(copies, off):
    X, y = np.repeat(X0[:5], copies, axis=0), np.repeat(np.arange(5), copies)
    _, P, between = basis(X + off * rows(len(X), D, 7), y, CLASSES, 0.1)
    np.testing.assert_array_equal(P, np.sqrt(D) * np.eye(D))
    assert not between.any()


@given(st.permutations(range(len(Y0))))
def test_order_of_initial_rows_does_not_change_predictions(order):
    first, second = PLDA(X0, Y0, CLASSES), PLDA(X0[order], Y0[order], CLASSES)
    np.testing.assert_array_equal(answers(first, Q), answers(second, Q))
    np.testing.assert_allclose(scores(second, Q), scores(first, Q), rtol=1e-6, atol=1e-6)


def test_models_with_one_shared_basis_do_not_move_each_other():
    first, second = PLDA(X0, Y0, CLASSES), PLDA(X0, Y0, CLASSES)
    before = scores(second, Q)
    for z, label in zip(first.project(NEW_X), NEW_Y.tolist()):
        first.add(z, label)
    np.testing.assert_array_equal(scores(second, Q), before)


def test_bytes_are_those_of_every_array_that_is_kept():
    model = taught()
    assert model.nbytes == sum(part.nbytes for part in vars(model).values() if isinstance(part, np.ndarray))
