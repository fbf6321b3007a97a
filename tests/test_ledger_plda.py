"""The system proposed before: ledger, models, neighbours and head each do their part."""

import numpy as np
import pytest

from ocrrlib.rivals.gaussians import PLDA, KernelLDA
from ocrrlib.rivals.ledger_plda import LedgerPLDA
from ocrrlib.scenario import make_scenario
from ocrrlib.systems import SYSTEMS, make
from ocrrlib.systems.neighbours import Substrate
from ocrrlib.voting import softmax
from tests.samples import corrections, teach

KERNEL = dict(features=24, bandwidth=1.0, shrinkage=0.2, prior_rows=2, rank=16)
USUAL = SYSTEMS["ledger_plda"].params | {"kernel": KERNEL}
ALONE = dict(kernel_weight=0.0, neighbour_weight=0.0, head_weight=0.0)
MIXTURES = {
    "as registered": {},
    "PLDA alone": ALONE | {"model": dict(shrinkage=0.2, floor=0.3, prior_rows=50, power=0.5)},
    "neighbours alone": ALONE | dict(neighbour_weight=1.0, neighbour_temperature=0.07, k=30),
    "known classes by the head alone": dict(head_weight=1.0, model_temperature=5.0),
}


@pytest.fixture(scope="module")
def s(tiny):
    """Eight known classes, four new ones."""
    return make_scenario(tiny, 0, held_out=4, cap=None)


def fitted(s, **params):
    """After 60 corrections."""
    system = LedgerPLDA(**USUAL | params).fit(s.X_initial, s.y_initial, s.classes)
    return teach(system, corrections(s, 60))


@pytest.mark.parametrize("params", MIXTURES.values(), ids=MIXTURES)
def test_probabilities_are_the_mixture_that_the_protocol_writes(params, s):
    system = fitted(s, **params)
    known = np.isin(np.arange(len(s.classes)), s.y_initial)
    X = system.entries.X
    y = system.entries.y
    plda = PLDA(s.X_initial, s.y_initial, len(s.classes), **system.model)
    kernel_lda = KernelLDA(s.X_initial, s.y_initial, len(s.classes), **system.kernel)

    def distribution(model, temperature):
        for x, label in zip(X[len(s.y_initial) :], y[len(s.y_initial) :].tolist()):
            model.learn(x, label)
        scores = model.scores(model.project(s.queries))
        return softmax(np.where(model.counts, scores / temperature, -np.inf))

    near = np.zeros((len(s.queries), len(s.classes)))
    for row, cosines in zip(near, s.queries.astype(np.float64) @ X.T.astype(np.float64)):
        for slot in np.argsort(-cosines, kind="stable")[: system.k]:
            row[y[slot]] = max(row[y[slot]], np.exp(cosines[slot] / system.neighbour_temperature))
    near /= near.sum(axis=1, keepdims=True)
    p = (
        (1 - system.kernel_weight - system.neighbour_weight)
        * distribution(plda, system.model_temperature)
        + system.kernel_weight * distribution(kernel_lda, system.kernel_temperature)
        + system.neighbour_weight * near
    )
    head = make("static_linear").fit(s.X_initial, s.y_initial, s.classes).predict_proba(s.queries)
    given = system.head_weight * p[:, known].sum(axis=1, keepdims=True) * head
    p = given + np.where(known, 1 - system.head_weight, system.new_odds) * p
    np.testing.assert_allclose(
        system.predict_proba(s.queries), p / p.sum(axis=1, keepdims=True), atol=1e-12
    )
    np.testing.assert_array_equal(system.predict(s.queries), p.argmax(axis=1))


def test_ledger_is_that_of_substrate_and_storage_is_all_that_is_held(s):
    system = fitted(s)
    substrate = teach(Substrate().fit(s.X_initial, s.y_initial, s.classes), corrections(s, 60))
    assert system.entries.hashes == substrate.entries.hashes
    held = sum(model.nbytes for model in system.models) + system.head.storage().bytes
    assert system.storage().bytes == substrate.storage().bytes + held
