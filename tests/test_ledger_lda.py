"""The proposed system: what the protocol writes, step by step, and what is promised of it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from ocrrlib.rivals.covariance import ledoit_wolf_shrinkage
from ocrrlib.rivals.ledger_lda import likeliest_weights
from ocrrlib.runs import published
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
    """Scores of queries under the means of all rows; whitened by the first rows ``fitted``."""
    first = X[:fitted].astype(np.float64)
    own = y[:fitted]
    means = {label: first[own == label].mean(axis=0) for label in np.unique(own)}
    R = first - np.array([means[label] for label in own])
    S = R.T @ R / (fitted - len(means))
    share = ledoit_wolf_shrinkage(first, own, y.max() + 1)
    W = (1 - share) * S + share * np.trace(S) / len(S) * np.eye(len(S))
    centre = np.mean(list(means.values()), axis=0)
    labels = np.unique(y)
    M = np.array([X[y == label].astype(np.float64).mean(axis=0) for label in labels]) - centre
    right = np.linalg.solve(W, M.T)
    return labels, (Q - centre) @ right - np.einsum("cd,dc->c", M, right) / 2


def excess(X, y, Q, fitted):
    """Scores that come with the spread of each class, by distances; all rows are ``fitted``."""
    d = X.shape[1]
    labels = np.unique(y)
    own = [X[y == label].astype(np.float64) for label in labels]
    R = np.concatenate([rows - rows.mean(axis=0) for rows in own])
    S = R.T @ R / (fitted - len(labels))
    share = ledoit_wolf_shrinkage(X, y, y.max() + 1)
    W = (1 - share) * S + share * np.trace(S) / d * np.eye(d)
    columns = []
    for rows_of_class in own:
        mean = rows_of_class.mean(axis=0)
        far = [((A @ np.linalg.inv(W)) * A).sum(axis=1) for A in (rows_of_class - mean, Q - mean)]
        spread = far[0].sum() / d / (len(rows_of_class) - 1)
        columns.append((spread - 1) * (far[1] - d) / 2)
    return np.array(columns).T


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
    # Classes differ in number and spread of rows
    known = np.unique(s.y_initial)
    kept = np.concatenate([np.flatnonzero(s.y_initial == c)[2 * i :] for i, c in enumerate(known)])
    y = s.y_initial[kept]
    noise = np.where(y == known[0], 1.0, 0.7)[:, None] * rows(len(y), s.X_initial.shape[1], 3)
    X = s.X_initial[kept] + noise
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    s = replace(s, X_initial=X.astype(np.float32), y_initial=y)
    once, twice, thrice = s.held_out[:3].tolist()
    system = corrected(s, {once: 1, twice: 2, thrice: 3})
    # Each half of the initial rows, read by the other
    X = s.X_initial
    y = s.y_initial
    known, ranks = np.unique(y, return_inverse=True)
    order = np.random.default_rng([0, 8]).permutation(len(y))
    half = np.empty(len(y), int)
    half[order[np.argsort(y[order], kind="stable")]] = np.arange(len(y)) % 2
    parts = []
    for side in (0, 1):
        A = half != side
        asked = order[half[order] == side]
        _, scores = discriminants(X[A], ranks[A], X[asked], A.sum())
        theta = train(X[A], ranks[A], len(known), 0, **HEAD)
        cosines = nearest(X[A], ranks[A], X[asked])
        frequency = np.log(np.bincount(ranks[A])) * np.ones(scores.shape)
        extra = excess(X[A], ranks[A], X[asked], A.sum())
        logits = with_bias(X[asked]) @ theta.T
        parts.append((scores, cosines, logits, frequency, extra, ranks[asked]))
    scores, cosines, logits, frequency, extra, own = map(np.concatenate, zip(*parts))
    alpha, beta = likeliest([scores, cosines], own)
    weights = likeliest([alpha * scores + beta * cosines, logits, frequency, extra], own)
    found = system.alpha, system.beta, system.rho, system.eta, system.phi, system.psi
    np.testing.assert_allclose(found, (alpha, beta, *weights), rtol=1e-3, atol=1e-6)
    # What the ledger says now, with weight on every term
    system.beta = 5.0
    system.phi = 0.7
    ledger = system.entries
    labels, scores = discriminants(ledger.X, ledger.y, s.queries, len(y))
    a = np.full((len(s.queries), 12), -np.inf)
    cosines = nearest(ledger.X, ledger.y, s.queries)
    a[:, labels] = system.alpha * scores + system.beta * cosines
    a[:, [twice, thrice]] += np.log(8 / 3)  # eight known classes, three new ones
    head = train(X, ranks, len(known), 0, **HEAD)
    b = system.rho * a[:, known] + system.eta * with_bias(s.queries) @ head.T
    b += system.phi * np.log(np.bincount(ranks))
    b += system.psi * excess(X, ranks, s.queries, len(y))
    shares = softmax(b)
    p = softmax(a)
    p[:, known] = p[:, known].sum(axis=1, keepdims=True) * shares
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


def test_weights_are_those_under_which_classes_were_drawn():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(2, 6000, 5)) * [[[3.0]], [[0.2]]]
    p = softmax(0.5 * F[0] + 4 * F[1])
    own = (rng.random(6000)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    assert likeliest_weights(list(F), own, (0.1, 10.0)) == pytest.approx((0.5, 4), rel=0.1)


def test_weights_are_finite_where_every_row_is_told_right():
    own = np.arange(40) % 4
    F = np.eye(4)[own]
    other = np.random.default_rng(0).normal(size=F.shape)
    right, noise = likeliest_weights([F, other], own, (1.0, 1.0))
    # (n + 1) / (n + 2) = e^w / (e^w + 3), were there no noise
    assert right == pytest.approx(np.log(3 * 41), rel=0.1)
    assert noise < right / 10


@pytest.mark.parametrize("per_class", [1, 2])
def test_classes_of_few_rows_can_be_fitted(per_class):
    X, y = clusters(3, per_class, 5, seed=0)
    system = make("ledger_lda").fit(X, y, range(4))
    np.testing.assert_array_equal(system.predict(X), y)
    assert np.isfinite(system.predict_proba(rows(4, 5, 1))).all()


def test_means_that_tell_nothing_have_no_weight_beside_a_class_of_one_row():
    X, y = clusters(6, 10, 8, seed=0)
    system = make("ledger_lda").fit(X[5:15], y[5:15], range(6))
    assert system.alpha == 0 and np.bincount(y[5:15]).min() == 1
    assert np.isfinite(system.predict_proba(X)).all()


def test_a_factor_of_one_on_new_classes_changes_nothing_that_is_published():
    usual = (
        published("beyond")
        .query("system == 'ledger_lda' and policy == 'random10'")
        .groupby(["dataset", "seed"])
        .last()
    )
    same = (
        published("boldness")
        .query("factor == 1")
        .set_index(["dataset", "seed"])
        .drop(columns="factor")
    )
    pd.testing.assert_frame_equal(same.sort_index(), usual[same.columns])
