"""River: arrays learn and answer as river's own models do one by one, and the shared first pass stays as it was."""

import numpy as np
import pytest
from river import linear_model, multiclass, optim

from ocrrlib.scenario import make_scenario
from ocrrlib.systems.river import PassiveAggressive, RiverLogReg


def own_predictions(model, X):
    return [model.predict_one(dict(enumerate(x.tolist()))) for x in X]


@pytest.fixture(scope="module")
def scenario(tiny):
    return make_scenario(tiny, 0, held_out=4)


def fitted(s, **params):
    return RiverLogReg(seed=0, **params).fit(s.X_initial, s.y_initial, s.classes)


def plain(s, corrections, rows=3000, lr=0.01):
    """river's own one-vs-rest, fed row by row what the system is fed."""
    model = multiclass.OneVsRestClassifier(linear_model.LogisticRegression(optim.SGD(lr)))
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(s.y_initial), min(rows, len(s.y_initial)), replace=False)
    learnt = [(s.X_initial[row], s.y_initial[row]) for row in chosen[rng.permutation(len(chosen))]]
    for x, y in learnt + corrections:
        model.learn_one(dict(enumerate(x.tolist())), int(y))
    return model


@pytest.mark.parametrize("lr, rows", [(0.01, 3000), (0.5, 3000), (0.01, 100)])
@pytest.mark.parametrize("corrected", [0, 60])
def test_weights_and_answers_equal_a_plain_river_loop(scenario, lr, rows, corrected):
    s = scenario
    corrections = list(zip(s.X_stream[:corrected], s.y_stream[:corrected].tolist()))
    system, model = fitted(s, lr=lr, rows=rows), plain(s, corrections, rows, lr)
    for x, y in corrections:
        system.correct(x, y)
    assert system.model.labels == list(model.classifiers)
    weights = [[one.weights[i] for i in range(system.dim)] for one in model.classifiers.values()]
    np.testing.assert_allclose(system.model.weights, weights, atol=1e-12)
    np.testing.assert_allclose(
        system.model.intercept, [one.intercept for one in model.classifiers.values()], atol=1e-12
    )
    assert system.predict(s.queries).tolist() == own_predictions(model, s.queries)
    given = [list(model.predict_proba_one(dict(enumerate(x.tolist()))).values()) for x in s.queries[:20]]
    np.testing.assert_allclose(system.probabilities(s.queries[:20])[:, system.model.labels], given, atol=1e-12)
    assert len(set(system.predict(s.queries).tolist())) > 2 or not corrected  # more than one answer was compared


def test_passive_aggressive_equals_rivers_own(scenario):
    s = scenario
    system = PassiveAggressive(C=0.7).fit(s.X_initial, s.y_initial, s.classes)
    order = np.random.default_rng(0).permutation(len(s.y_initial))
    corrections = list(zip(s.X_stream[:20], s.y_stream[:20].tolist()))
    for x, y in corrections:
        system.correct(x, y)
    model = multiclass.OneVsRestClassifier(linear_model.PAClassifier(C=0.7, mode=1))
    for x, y in [*zip(s.X_initial[order], s.y_initial[order].tolist()), *corrections]:
        model.learn_one(dict(enumerate(x.tolist())), y)
    for label, one in model.classifiers.items():
        expected = [*(one.weights[i] for i in range(system.dim)), one.intercept]
        np.testing.assert_allclose(system.W[label], expected, rtol=1e-9, atol=1e-12)
    assert system.predict(s.queries).tolist() == own_predictions(model, s.queries)
