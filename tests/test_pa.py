"""Passive-aggressive: the matrix answers as river does, and learns by Crammer's formula."""

import numpy as np
from conftest import rows
from river import linear_model, multiclass

from ocrrlib.scenario import make_scenario
from ocrrlib.systems.pa import OneVsRest, PassiveAggressive, first_pass


def test_weights_and_predictions_equal_rivers_own_and_the_shared_first_pass_stays(tiny):
    s = make_scenario(tiny, 0, held_out=4, cap=None)
    system = PassiveAggressive(rows=100).fit(s.X_initial, s.y_initial, s.classes)
    corrections = list(zip(s.X_stream[:20], s.y_stream[:20].tolist()))
    for x, y in corrections:
        system.correct(x, y)
    plain = multiclass.OneVsRestClassifier(linear_model.PAClassifier(C=1.0, mode=1))
    first = [
        (s.X_initial[row], int(s.y_initial[row])) for row in np.random.default_rng(0).permutation(len(s.y_initial))
    ]
    for x, y in first[:100] + corrections:
        plain.learn_one(dict(enumerate(x.tolist())), y)
    for label, one in plain.classifiers.items():
        assert system.model.W[label].tolist() == [one.weights[i] for i in range(system.dim)]
        assert system.model.b[label] == one.intercept
    own = [plain.predict_one(dict(enumerate(x.tolist()))) for x in s.queries]
    np.testing.assert_array_equal(system.predict(s.queries), own)
    shared = first_pass(s.X_initial, s.y_initial, len(s.classes), 0, 1.0, 100)
    assert set(shared.classifiers) == set(s.y_initial.tolist())


def test_all_initial_rows_are_learnt_unless_fewer_are_asked_for(tiny, monkeypatch):
    s, learnt, learn = make_scenario(tiny, 0, held_out=4, cap=None), [], OneVsRest.learn_one
    monkeypatch.setattr(OneVsRest, "learn_one", lambda self, x, y: learnt.append(x.tobytes()) or learn(self, x, y))
    every = {x.astype(np.float64).tobytes() for x in s.X_initial}
    for most, count in ((None, len(s.y_initial)), (30, 30)):
        first_pass.forget()
        learnt.clear()
        PassiveAggressive(rows=most).fit(s.X_initial, s.y_initial, s.classes)
        assert len(learnt) == len(set(learnt)) == count and set(learnt) <= every


def test_weights_are_those_of_crammers_first_variant():
    X, y = rows(30, 6, 0), np.random.default_rng(1).integers(0, 3, 30)
    system = PassiveAggressive(C=0.7).fit(X[:0], y[:0], range(3))
    W, b, seen = np.zeros((3, 6)), np.zeros(3), set()
    for x, label in zip(X, y.tolist()):
        system.correct(x, label)
        seen.add(label)
        x = x.astype(np.float64)
        for c in seen:
            sign = 1 if c == label else -1
            step = sign * min(0.7, max(0, 1 - sign * (W[c] @ x + b[c])) / (x @ x))
            W[c] += step * x
            b[c] += step
    np.testing.assert_allclose(system.model.W, W, atol=1e-12)
    np.testing.assert_allclose(system.model.b, b, atol=1e-12)
