"""The proposed system: estimates, densities and the mixture of readers are the paper's."""

import numpy as np
import pandas as pd
import pytest
from conftest import clusters, rows
from scipy.stats import norm

from ocrrlib.rivals.ledger_lda import BayesLDA, best_temperature
from ocrrlib.runs import published
from ocrrlib.scenario import make_scenario
from ocrrlib.systems import make
from ocrrlib.systems.base import class_sums, softmax

KNOWN = 6
CLASSES = 8
D = 5
X, Y = clusters(CLASSES, 10, D, seed=3)


def test_temperature_is_that_under_which_classes_were_drawn():
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 20, (4000, 5))
    own = (rng.random(4000)[:, None] > softmax(scores / 7).cumsum(axis=1)).sum(axis=1)
    assert best_temperature(scores, own, 10.0) == pytest.approx(7, rel=0.05)


def test_score_is_the_density_of_a_row_at_the_expected_mean_of_its_class():
    rng = np.random.default_rng(1)
    P, _ = np.linalg.qr(rng.normal(size=(D, D)))
    psi = rng.uniform(0.1, 3, D)
    s = rng.uniform(0.5, 2, CLASSES)
    first = Y < KNOWN
    sums, counts = class_sums((X[first] - 0.1) @ P, Y[first], CLASSES)
    model = BayesLDA(np.full(D, 0.1), P, psi, s, counts, sums)
    for x, y in zip(X[~first], Y[~first].tolist()):
        model.learn(x, y)
    Z = (X - 0.1) @ P
    asked = rows(9, D, 4)
    got = model.scores(model.project(asked)) - D / 2 * np.log(2 * np.pi)
    for label in range(CLASSES):
        own = Z[Y == label]
        # Joint Gaussian of the mean and its rows, conditioned on the rows, coordinate by
        # coordinate.
        mean = [
            b * np.linalg.solve(b + np.eye(len(own)), own[:, d]).sum() for d, b in enumerate(psi)
        ]
        density = norm(mean, np.sqrt(s[label])).logpdf((asked - 0.1) @ P).sum(axis=1)
        np.testing.assert_allclose(got[:, label], density)


def test_readers_are_averaged_and_new_classes_expected_from_their_second_row(tiny):
    s = make_scenario(tiny, 0, held_out=4, cap=None)
    system = make("ledger_lda").fit(s.X_initial, s.y_initial, s.classes)
    once, twice, thrice = s.held_out[:3]
    for label, n in ((once, 1), (twice, 2), (thrice, 3)):
        for x in s.X_stream[s.y_stream == label][:n]:
            system.correct(x, int(label))
    seen = np.isin(np.arange(12), [*s.y_initial, once, twice, thrice])
    got = system.predict_proba(s.queries)  # its model has read the ledger now
    scores = system.model.scores(system.model.project(s.queries)) / system.density_temperature
    cosines = s.queries.astype(np.float64) @ system.entries.X.T.astype(np.float64)
    near = np.zeros_like(scores)
    for row, own in zip(near, cosines):
        for slot in np.argsort(-own, kind="stable")[: system.k]:
            label = system.entries.y[slot]
            row[label] = max(row[label], np.exp(own[slot] / system.cosine_temperature))
    p = (softmax(np.where(seen, scores, -np.inf)) + near / near.sum(axis=1, keepdims=True)) / 2
    p[:, [twice, thrice]] *= 8 / 3  # eight known classes, all of one size, and three new ones
    known = np.isin(np.arange(12), s.y_initial)
    head = make("static_linear").fit(s.X_initial, s.y_initial, s.classes).predict_proba(s.queries)
    p = np.where(known, p * 2 / 3 + p[:, known].sum(axis=1, keepdims=True) / 3 * head, p)
    np.testing.assert_allclose(got, p / p.sum(axis=1, keepdims=True), atol=1e-12)
    np.testing.assert_array_equal(system.predict(s.queries), p.argmax(axis=1))


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
