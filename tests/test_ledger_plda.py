"""Ledger, model, neighbours and head: each does its part, and none more than that."""

import pickle

import numpy as np
import pytest
from conftest import rows
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib.scenario import make_scenario
from ocrrlib.systems import SYSTEMS
from ocrrlib.systems.heads import softmax
from ocrrlib.systems.kernel_lda import KernelLDA
from ocrrlib.systems.ledger_plda import LedgerPLDA
from ocrrlib.systems.plda import PLDA
from ocrrlib.systems.substrate import Substrate

MODEL = dict(shrinkage=0.2, floor=0.3, prior_rows=50, power=0.5)
KERNEL = dict(features=64, bandwidth=0.7, shrinkage=0.1, prior_rows=2, rank=16)
USUAL = SYSTEMS["ledger_plda"].params | {"new_odds": 1.0, "kernel": KERNEL}
weight = st.floats(0, 1)


@pytest.fixture(scope="module")
def s(tiny):
    """Eight known classes, four new ones."""
    return make_scenario(tiny, 0, held_out=4, cap=None)


@pytest.fixture(scope="module")
def pairs(s):
    """Corrections: new rows, with known ones in between."""
    X, y = np.concatenate([s.X_stream, s.X_initial]), np.concatenate([s.y_stream, s.y_initial])
    chosen = np.random.default_rng(5).permutation(len(y))[:60]
    return list(zip(X[chosen], y[chosen].tolist()))


def fitted(s, cls=LedgerPLDA, **params):
    params = USUAL | params if cls is LedgerPLDA else params
    return cls(**params).fit(s.X_initial, s.y_initial, s.classes)


def taught(system, pairs):
    for x, y in pairs:
        system.correct(x, y)
    return system


def assert_same_models(first, second):
    for name in ("counts", "sums", "scatter", "precision", "weights", "offset", "changes"):
        np.testing.assert_array_equal(getattr(first.model, name), getattr(second.model, name))
    for name in ("counts", "sums", "weights", "offset", "changes"):
        np.testing.assert_array_equal(getattr(first.kernel, name), getattr(second.kernel, name))


def test_the_ledger_is_that_of_substrate_hash_by_hash(s, pairs):
    system, substrate = fitted(s), fitted(s, Substrate)
    for x, y in pairs:
        taught(system, [(x, y)]).predict(s.queries[:3])
        substrate.correct(x, y)
    assert system.entries.hashes == substrate.entries.hashes
    assert system.entries.previous == substrate.entries.previous and system.entries.ids == substrate.entries.ids
    assert system.entries.verify(head=substrate.entries.head) is None


@given(weight, weight, weight, st.tuples(st.floats(0.5, 20), st.floats(0.5, 20)))
def test_probabilities_sum_to_one_whatever_the_weights(s, pairs, neighbours, kernel, head, temperatures):
    own = dict(zip(("model_temperature", "kernel_temperature"), temperatures))
    own |= dict(neighbour_weight=neighbours, kernel_weight=(1 - neighbours) * kernel, head_weight=head)
    system = fitted(s, epochs=1, model=MODEL, **own)
    p = taught(system, pairs[:20]).probabilities(s.queries)
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel_weight", [0.0, 0.3, 1.0])
def test_without_head_and_neighbours_both_models_are_mixed(kernel_weight, s, pairs):
    own = dict(head_weight=0.0, neighbour_weight=0.0, model_temperature=3.0, kernel_temperature=7.0, model=MODEL)
    system = taught(fitted(s, kernel_weight=kernel_weight, **own), pairs)
    X, y = (np.array(part) for part in zip(*pairs))
    model = PLDA(s.X_initial, s.y_initial, len(s.classes), **MODEL)
    bent = KernelLDA(s.X_initial, s.y_initial, len(s.classes), **KERNEL)
    for one in (model, bent):
        for z, label in zip(one.project(X), y):
            one.add(z, label)
    Z = model.project(s.queries)
    first, second = (
        softmax(np.where(model.seen, scores, -np.inf))
        for scores in (model.scores(Z, Z**2) / 3.0, bent.scores(bent.project(s.queries)) / 7.0)
    )
    expected = (1 - kernel_weight) * first + kernel_weight * second
    np.testing.assert_allclose(system.probabilities(s.queries), expected, atol=1e-12)
    np.testing.assert_array_equal(system.predict(s.queries), expected.argmax(axis=1))


def test_neighbours_alone_give_each_class_what_its_nearest_entry_is_worth(s, pairs):
    system = taught(
        fitted(s, head_weight=0.0, kernel_weight=0.0, neighbour_weight=1.0, neighbour_temperature=0.07, k=30), pairs
    )
    X, y = system.entries.X.astype(np.float64), system.entries.y
    expected = np.zeros((len(s.queries), len(s.classes)))
    for row, cosines in zip(expected, s.queries.astype(np.float64) @ X.T):
        for near in np.argsort(-cosines, kind="stable")[:30]:
            row[y[near]] = max(row[y[near]], np.exp(cosines[near] / 0.07))
    expected /= expected.sum(axis=1, keepdims=True)
    assert np.count_nonzero(expected, axis=1).max() > 2  # neighbours are of several classes
    np.testing.assert_allclose(system.probabilities(s.queries), expected, atol=1e-12)


def test_many_entries_do_not_make_a_class_likelier_for_its_neighbours():
    X = np.eye(3, dtype=np.float32)
    system = LedgerPLDA(**USUAL | dict(neighbour_weight=1.0, kernel_weight=0.0, head_weight=0.0)).fit(
        X[[0, 0, 0, 1]], [0, 0, 0, 1], "abc"
    )
    middle = np.array([[0.6, 0.6, 0.0]], np.float32) / np.float32(np.sqrt(0.72))
    p = system.probabilities(middle)[0]
    assert p[0] == pytest.approx(0.5) and p[1] == pytest.approx(0.5)


@pytest.mark.parametrize("head_weight", [0.3, 1.0])
def test_the_head_hands_out_the_mass_of_known_classes_anew_and_takes_none_from_new_ones(head_weight, s, pairs):
    with_head, without = (
        taught(fitted(s, head_weight=w, neighbour_weight=0.5, kernel_weight=0.2, model_temperature=5.0), pairs)
        for w in (head_weight, 0.0)
    )
    p, q = with_head.probabilities(s.queries), without.probabilities(s.queries)
    new = s.held_out
    assert q[:, new].max() > 0.5 and 0.5 < q[:, with_head.known].max()
    np.testing.assert_allclose(p[:, new], q[:, new], atol=1e-12)
    mass = q[:, with_head.known].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(p[:, with_head.known].sum(axis=1, keepdims=True), mass, atol=1e-12)
    head = softmax(s.queries @ with_head.W.T + with_head.b)
    expected = (1 - head_weight) * q[:, with_head.known] + head_weight * mass * head
    np.testing.assert_allclose(p[:, with_head.known], expected, atol=1e-12)


def test_reading_at_once_or_late_gives_the_same_model(s, pairs):
    eager, watched, late = fitted(s), fitted(s), fitted(s)
    watch, everything = watched.watch_probabilities(s.queries), np.arange(len(s.queries))
    for pair in pairs:
        for system in (eager, watched, late):
            system.correct(*pair)
        eager.predict(s.queries[:2])
        watch(everything[:2])
    assert not late.model.changes and not late.kernel.changes  # nothing was read so far
    np.testing.assert_array_equal(late.probabilities(s.queries), eager.probabilities(s.queries))
    np.testing.assert_allclose(watch(everything), late.probabilities(s.queries), rtol=1e-9, atol=1e-12)
    for system in (eager, watched):
        assert_same_models(system, late)


@pytest.mark.parametrize("read_before", [True, False])
def test_a_pickled_system_reads_on_where_it_stopped(read_before, s, pairs):
    system = taught(fitted(s), pairs[:30])
    if read_before:
        system.predict(s.queries)
    copy = pickle.loads(pickle.dumps(system))
    for one in (system, copy):
        taught(one, pairs[30:])
    np.testing.assert_array_equal(copy.probabilities(s.queries), system.probabilities(s.queries))
    assert_same_models(copy, system)
    assert copy.entries.hashes == system.entries.hashes


def test_every_entry_is_read_once(s, pairs):
    system = taught(fitted(s), pairs)
    for _ in range(3):
        system.predict(s.queries)
    for model in (system.model, system.kernel):
        assert model.changes == [y for _, y in pairs]
        assert model.counts.sum() == system.entries.size


def test_fitted_again_on_no_class_it_forgets_the_head(s):
    system = fitted(s).fit(s.X_initial[:0], s.y_initial[:0], s.classes)
    system.correct(s.X_stream[0], int(s.y_stream[0]))
    assert set(system.predict(rows(9, 16, 1)).tolist()) == {int(s.y_stream[0])}


def test_bytes_are_those_of_ledger_models_and_the_head_in_float32_as_of_all_heads(s, pairs):
    system = taught(fitted(s), pairs)
    system.predict(s.queries)
    ledger, head = taught(fitted(s, Substrate), pairs).storage().bytes, 4 * (system.W.size + system.b.size)
    assert system.storage().bytes == ledger + system.model.nbytes + system.kernel.nbytes + head


def test_on_banking77_it_takes_less_than_twice_the_memory_of_substrate(banking):
    s = make_scenario(banking, 0)
    system = fitted(s, epochs=1, kernel=SYSTEMS["ledger_plda"].params["kernel"])
    substrate = fitted(s, Substrate)
    assert system.storage().bytes < 2 * substrate.storage().bytes
