"""River: arrays learn and answer as river's own models do one by one."""

import numpy as np
import pytest
from river import linear_model, multiclass, optim

from ocrrlib.rivals.passive_aggressive import PassiveAggressive
from ocrrlib.scenario import make_scenario
from ocrrlib.systems.river import RiverLogReg
from tests.samples import corrections, teach


@pytest.fixture(scope="module")
def s(tiny):
    return make_scenario(tiny, 0, held_out=4)


def plain(model, s, order, n):
    """river's own one-vs-rest, fed row by row: initial rows in some order, then n corrections."""
    model = multiclass.OneVsRestClassifier(model)
    for x, y in [*zip(s.X_initial[order], s.y_initial[order]), *corrections(s, n)]:
        model.learn_one(dict(enumerate(x.tolist())), int(y))
    return model


def assert_same(system, W, model, s):
    """Weights (c, d + 1), with the intercept last, in the order of the classes, and answers."""
    expected = [
        [*map(one.weights.get, range(system.dim)), one.intercept]
        for one in model.classifiers.values()
    ]
    np.testing.assert_allclose(W, expected, rtol=1e-9, atol=1e-12)
    answers = system.predict(s.queries).tolist()
    assert (
        answers == [model.predict_one(dict(enumerate(x.tolist()))) for x in s.queries]
        and len(set(answers)) > 2
    )


@pytest.mark.parametrize("lr, rows", [(0.1, 3000), (0.5, 100)])
@pytest.mark.parametrize("n", [0, 60])
def test_logistic_regression_equals_rivers_own(s, lr, rows, n):
    rng = np.random.default_rng(0)
    known = len(s.y_initial)
    chosen = rng.choice(known, min(rows, known), replace=False)
    model = plain(
        linear_model.LogisticRegression(optim.SGD(lr)), s, chosen[rng.permutation(len(chosen))], n
    )
    system = teach(
        RiverLogReg(lr=lr, rows=rows).fit(s.X_initial, s.y_initial, s.classes), corrections(s, n)
    )
    assert system.model.labels == list(model.classifiers)
    assert_same(system, np.column_stack([system.model.weights, system.model.intercept]), model, s)
    given = [
        list(model.predict_proba_one(dict(enumerate(x.tolist()))).values()) for x in s.queries[:20]
    ]
    np.testing.assert_allclose(
        system.predict_proba(s.queries[:20])[:, system.model.labels], given, atol=1e-12
    )


def test_passive_aggressive_equals_rivers_own(s):
    system = teach(
        PassiveAggressive(C=0.7).fit(s.X_initial, s.y_initial, s.classes), corrections(s, 20)
    )
    order = np.random.default_rng(0).permutation(len(s.y_initial))
    model = plain(linear_model.PAClassifier(C=0.7, mode=1), s, order, 20)
    assert_same(system, system.W[list(model.classifiers)], model, s)
