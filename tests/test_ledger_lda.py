"""The proposed system: what the protocol writes, step by step, and what is promised of it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from ocrrlib.rivals.ledger_lda import likeliest_weights, shrunk_covariance
from ocrrlib.scenario import make_scenario
from ocrrlib.systems import make
from ocrrlib.systems.heads import train, with_bias
from ocrrlib.voting import softmax
from tests.samples import clusters, rows

HEAD = dict(epochs=30, fit_lr=1e-2, weight_decay=1e-4, batch=256)


@pytest.fixture
def s(tiny):
    return make_scenario(tiny, 0, held_out=4, cap=None)


def corrected(s, rows_of):
    """The system after so many corrections of each held-out class."""
    system = make("ledger_lda").fit(s.X_initial, s.y_initial, s.classes)
    for label, n in rows_of.items():
        for x in s.X_stream[s.y_stream == label][:n]:
            system.correct(x, label)
    return system


def discriminants(X, y, Q, fitted):
    """Scores of queries under held means of all rows; whitened and held by the first ``fitted``."""
    first = X[:fitted].astype(np.float64)
    own = y[:fitted]
    d = X.shape[1]
    labels, n = np.unique(own, return_counts=True)
    means = np.array([first[own == label].mean(axis=0) for label in labels])
    R = first - means[np.searchsorted(labels, own)]
    W = shrunk_covariance(R)
    # Squared distances of class means, in units of W, less their noise
    apart = means - means.mean(axis=0)
    b = np.einsum("cd,cd->", apart @ np.linalg.inv(W), apart) / (len(labels) - 1) / d
    held_by = 1 / max(b - np.mean(1 / n), 0.02)
    centre = first.mean(axis=0)
    labels = np.unique(y)
    sums = np.array([(X[y == label].astype(np.float64) - centre).sum(axis=0) for label in labels])
    M = sums / (np.array([np.sum(y == label) for label in labels]) + held_by)[:, None]
    right = np.linalg.solve(W, M.T)
    return labels, (Q - centre) @ right - np.einsum("cd,dc->c", M, right) / 2


def nearest(X, y, Q):
    cosines = Q.astype(np.float64) @ X.T.astype(np.float64)
    return np.array([cosines[:, y == label].max(axis=1) for label in np.unique(y)]).T


def likeliest(F, own):
    """The same weights by another search."""
    F = np.stack(F)
    n, K = F.shape[1:]
    target = np.full((n, K), 1 / (K - 1) / (n + 2))
    target[np.arange(n), own] = (n + 1) / (n + 2)

    def loss(w):
        return -np.mean((target * np.log(softmax(np.tensordot(w, F, 1)))).sum(axis=1))

    scale = 1 / np.abs(F - F.mean(axis=2, keepdims=True)).mean(axis=(1, 2))
    found = minimize(
        lambda w: loss(w * scale),
        np.ones(len(F)),
        method="SLSQP",
        jac="3-point",
        bounds=[(0, None)] * len(F),
        options=dict(ftol=1e-15, maxiter=1000),
    )
    return found.x * scale


def test_probabilities_are_those_that_the_protocol_writes(s):
    # Classes differ in number of rows; one has a single row
    known = np.unique(s.y_initial)
    dropped = [np.flatnonzero(s.y_initial == c)[n:] for c, n in zip(known, (1, 3, 5))]
    kept = np.setdiff1d(np.arange(len(s.y_initial)), np.concatenate(dropped))
    X = s.X_initial[kept] + 0.7 * rows(len(kept), s.X_initial.shape[1], 3)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    s = replace(s, X_initial=X.astype(np.float32), y_initial=s.y_initial[kept])
    once, twice = s.held_out[:2].tolist()
    system = corrected(s, {once: 1, twice: 3})
    # Each half of the initial rows, read by the other
    X = s.X_initial
    y = s.y_initial
    known, ranks = np.unique(y, return_inverse=True)
    more = ranks > 0
    rng = np.random.default_rng([0, 8])
    order = rng.permutation(more.sum())
    listed = order[np.argsort(ranks[more][order], kind="stable")]
    parts = []
    for side in (0, 1):
        A = X[more][listed[side::2]]
        own = ranks[more][listed[side::2]] - 1
        asked = rng.permutation(listed[1 - side :: 2])
        Q = X[more][asked]
        _, scores = discriminants(A, own, Q, len(A))
        theta = train(A, own, len(known) - 1, 0, **HEAD)
        parts.append((scores, nearest(A, own, Q), with_bias(Q) @ theta.T, ranks[more][asked] - 1))
    *F, own = map(np.concatenate, zip(*parts))
    np.testing.assert_allclose(system.apart, likeliest(F[:2], own), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(system.among, likeliest(F, own), rtol=1e-3, atol=1e-6)
    # What the ledger says now, with weight on every term
    system.apart = (system.apart[0], 5.0)
    system.among = (0.05, 4.0, 0.7)
    ledger = system.entries
    labels, scores = discriminants(ledger.X, ledger.y, s.queries, len(y))
    cosines = nearest(ledger.X, ledger.y, s.queries)
    a = np.full((len(s.queries), 12), -np.inf)
    a[:, labels] = system.apart[0] * scores + 5 * cosines
    a[:, [once, twice]] += np.log(8 / 2)  # eight known classes, two new ones
    head = train(X, ranks, len(known), 0, **HEAD)
    of_known = np.searchsorted(labels, known)
    b = 0.05 * scores[:, of_known] + 4 * cosines[:, of_known]
    b += 0.7 * with_bias(s.queries) @ head.T
    p = softmax(a)
    p[:, known] = p[:, known].sum(axis=1, keepdims=True) * softmax(b)
    stored = cosines.max(axis=1) > 1 - 1e-5
    p[np.ix_(stored, labels)] *= cosines[stored] > 1 - 1e-5
    p /= p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(system.predict_proba(s.queries), p, atol=1e-9)
    np.testing.assert_array_equal(system.predict(s.queries), p.argmax(axis=1))


def test_every_corrected_row_is_answered_as_corrected_ever_after(s):
    system = make("ledger_lda").fit(s.X_initial, s.y_initial, s.classes)
    for x, label in zip(s.X_stream, s.y_stream.tolist()):
        system.correct(x, label)
        assert system.predict(x[None])[0] == label
    np.testing.assert_array_equal(system.predict(s.X_stream), s.y_stream)


def test_watched_rows_have_the_probabilities_of_rows_that_are_asked_anew(s):
    system = make("ledger_lda").fit(s.X_initial, s.y_initial, s.classes)
    queries = system.watch(s.queries)
    everything = np.arange(len(s.queries))
    for x, label in zip(s.X_stream[:9], s.y_stream.tolist()):
        queries.answers(everything[:50])
        system.correct(x, label)
    np.testing.assert_allclose(
        queries.predict_proba(everything), system.predict_proba(s.queries), atol=1e-12
    )


def test_a_covariance_is_shrunk_as_by_ledoit_and_wolf():
    covariance = pytest.importorskip("sklearn.covariance")
    X, y = clusters(6, 30, 8, seed=3)
    R = X - np.array([X[y == c].mean(axis=0) for c in range(6)])[y]
    expected, _ = covariance.ledoit_wolf(R, assume_centered=True)
    np.testing.assert_allclose(shrunk_covariance(R), expected, rtol=1e-5)


def test_weights_are_those_under_which_classes_were_drawn():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(2, 6000, 5)) * [[[3.0]], [[0.2]]]
    p = softmax(0.5 * F[0] + 4 * F[1])
    own = (rng.random(6000)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    assert likeliest_weights(F, own) == pytest.approx((0.5, 4), rel=0.1)


def test_weights_are_finite_where_every_row_is_told_right():
    own = np.arange(40) % 4
    F = np.eye(4)[own]
    other = np.random.default_rng(0).normal(size=F.shape)
    right, noise = likeliest_weights(np.stack([F, other]), own)
    # (n + 1) / (n + 2) = e^w / (e^w + 3), were there no noise
    assert right == pytest.approx(np.log(3 * 41), rel=0.1)
    assert noise < right / 10


@pytest.mark.parametrize("per_class", [1, 2])
def test_classes_of_few_rows_can_be_fitted(per_class):
    X, y = clusters(3, per_class, 5, seed=0)
    system = make("ledger_lda").fit(X, y, range(4))
    np.testing.assert_array_equal(system.predict(X), y)
    assert np.isfinite(system.predict_proba(rows(4, 5, 1))).all()
