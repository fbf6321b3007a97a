"""River: predictions in one matrix equal river's own, and the shared first pass stays as it was."""

import numpy as np
import pytest

from ocrrlib.scenario import make_scenario
from ocrrlib.systems.river_logreg import RiverLogReg, first_pass


def own_predictions(model, X):
    return [model.predict_one(dict(enumerate(x.tolist()))) for x in X]


@pytest.fixture(scope="module")
def scenario(tiny):
    return make_scenario(tiny, 0, held_out=4)


def fitted(s, **params):
    return RiverLogReg(seed=0, **params).fit(s.X_initial, s.y_initial, s.classes)


@pytest.mark.parametrize("lr", [0.01, 0.5])
def test_batch_predictions_equal_rivers_own_before_and_after_corrections(scenario, lr):
    s = scenario
    system = fitted(s, lr=lr)
    assert system.predict(s.queries).tolist() == own_predictions(system.model, s.queries)
    for i, (x, y) in enumerate(zip(s.X_stream[:60], s.y_stream[:60])):
        system.correct(x, y)
        if i % 12 == 0:
            assert system.predict(s.queries).tolist() == own_predictions(system.model, s.queries)
    assert system.predict(s.queries).tolist() == own_predictions(system.model, s.queries)
    assert len(set(system.predict(s.queries).tolist())) > 2  # more than one answer was compared


def test_first_pass_and_corrections_equal_a_plain_river_loop(scenario):
    from river import linear_model, multiclass, optim

    s, rows = scenario, 100
    system = fitted(s, rows=rows)
    model = multiclass.OneVsRestClassifier(linear_model.LogisticRegression(optim.SGD(0.01)))
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(s.y_initial), rows, replace=False)
    learnt = [(s.X_initial[row], s.y_initial[row]) for row in chosen[rng.permutation(rows)]]
    corrections = list(zip(s.X_stream[:30], s.y_stream[:30]))
    for x, y in corrections:
        system.correct(x, y)
    for x, y in learnt + corrections:
        model.learn_one(dict(enumerate(x.tolist())), int(y))
    assert system.predict(s.queries).tolist() == own_predictions(model, s.queries)


def test_corrections_of_one_system_do_not_change_the_shared_first_pass(scenario):
    s = scenario
    first, second = fitted(s), fitted(s)
    weights, answers = first.W.copy(), second.predict(s.queries)
    for x, y in zip(s.X_stream[:30], s.y_stream[:30]):
        first.correct(x, y)
    assert len(first.labels) > len(second.labels)
    np.testing.assert_array_equal(second.predict(s.queries), answers)
    np.testing.assert_array_equal(second.W, weights)
    np.testing.assert_array_equal(fitted(s).W, weights)
    shared = first_pass(s.X_initial, s.y_initial, 0, 0.01, 3000)
    assert set(shared.classifiers) == set(s.y_initial.tolist())


def test_unseen_class_gets_a_classifier_at_its_first_correction(scenario):
    s = scenario
    system = fitted(s)
    new = int(s.y_stream[0])
    assert new not in system.labels
    before = system.storage()
    system.correct(s.X_stream[0], new)
    assert new in system.labels
    assert system.storage().parameters == before.parameters + s.X_stream.shape[1] + 1
