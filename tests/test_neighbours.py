"""Neighbours: evictions draw for draw, shares of classes, approximate search."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocrrlib.search import top_k
from ocrrlib.systems import make
from ocrrlib.systems.neighbours import EVICTIONS, KNNLM, Bounded, SubstrateHNSW
from tests.samples import rows


def algorithm_r(budget, seed, writes):
    """The published reservoir, written out: numbers of the writes kept, by slot."""
    rng = np.random.default_rng(seed)
    held = []
    for seen in range(writes):
        if len(held) < budget:
            held.append(seen)
        else:
            place = rng.integers(0, seen + 1)
            if place < budget:
                held[place] = seen
    return held


@pytest.mark.parametrize("eviction", EVICTIONS)
@given(
    budget=st.integers(1, 30),
    initial=st.integers(1, 60),
    writes=st.integers(0, 60),
    seed=st.integers(0, 99),
)
@settings(max_examples=30)
def test_initial_rows_and_corrections_stream_through_the_eviction_alike(
    eviction, budget, initial, writes, seed
):
    n = initial + writes
    X = rows(n, 3, seed)
    y = np.arange(n)
    system = Bounded(seed, budget=budget, eviction=eviction).fit(
        X[:initial], y[:initial], range(n + 1)
    )
    for row in range(initial, n):
        system.correct(X[row], row)
    kept = algorithm_r(budget, seed, n) if eviction == "reservoir" else [*range(n)][-budget:]
    found = system.entries.y if eviction == "reservoir" else np.sort(system.entries.y)
    assert found.tolist() == kept
    np.testing.assert_array_equal(system.entries.X, X[system.entries.y])
    # Numbers are ages.
    np.testing.assert_array_equal(np.argsort(system.entries.born), np.argsort(system.entries.y))


def test_share_of_a_class_is_that_of_its_neighbours():
    X = np.eye(4, dtype=np.float32)
    p = make("substrate").fit(X[:3], np.array([2, 0, 2]), "abcd").predict_proba(X[:1])
    e = np.exp([10, 0, 0])
    np.testing.assert_allclose(p, [[e[1] / e.sum(), 0, (e[0] + e[2]) / e.sum(), 0]])


def test_knn_lm_mixes_the_softmax_of_its_head_with_that_of_its_neighbours():
    X = rows(30, 6, 0)
    y = np.arange(30) % 4
    Q = rows(20, 6, 1)
    system = KNNLM(weight=0.3, temperature=0.2, k=3, epochs=2).fit(X, y, range(4))
    expected = np.exp(Q @ system.theta[:, :-1].T + system.theta[:, -1])
    expected *= 0.7 / expected.sum(axis=1, keepdims=True)
    for p, cosines in zip(expected, Q.astype(np.float64) @ X.T.astype(np.float64)):
        near = np.argsort(-cosines)[:3]
        np.add.at(p, y[near], 0.3 * np.exp(cosines[near] / 0.2) / np.exp(cosines[near] / 0.2).sum())
    np.testing.assert_allclose(system.predict_proba(Q), expected, rtol=1e-6)
    np.testing.assert_array_equal(system.predict(Q), expected.argmax(axis=1))


def test_approximate_search_finds_nearly_all_neighbours_and_repeats_for_the_same_seed():
    X = rows(900, 16, 0)
    Q = rows(100, 16, 1)
    system, again = (
        SubstrateHNSW(seed=3).fit(X[:300], np.arange(300) % 7, range(7)) for _ in range(2)
    )
    for one in (system, again):
        for row in range(300, 900):
            one.correct(X[row], row % 7)
    (sims, slots) = system._evidence(Q)
    (_, repeated) = again._evidence(Q)
    exact = top_k(Q, X, np.arange(900), 5)[1]
    assert np.mean([len(set(a) & set(b)) / 5 for a, b in zip(slots, exact)]) > 0.97
    np.testing.assert_array_equal(slots, repeated)
    np.testing.assert_allclose(sims, np.einsum("qd,qkd->qk", Q, X[slots]), atol=1e-5)
    assert (np.diff(sims) <= 0).all()
    assert system.storage().bytes > system.entries.nbytes


@pytest.mark.parametrize("copies_first", [True, False])
def test_approximate_search_finds_every_entry_beside_many_copies_of_one(copies_first):
    copies = np.repeat(rows(1, 16, 0), 100, axis=0)
    others = rows(60, 16, 1)
    parts = [copies, others] if copies_first else [others, copies]
    X = np.concatenate(parts)
    y = np.arange(len(X)) % 7
    system = SubstrateHNSW(seed=3).fit(X[:110], y[:110], range(7))
    for row in range(110, len(X)):
        system.correct(X[row], y[row])
    sims, slots = system._evidence(X)
    exact_sims, exact_slots = top_k(X, X, np.arange(len(X)), 5)
    np.testing.assert_allclose(sims, exact_sims, atol=1e-6)
    np.testing.assert_array_equal(slots, exact_slots)


def test_blind_answers_the_most_frequent_initial_class_then_that_of_the_last_correction():
    X = np.eye(5, dtype=np.float32)
    system = make("blind").fit(X, np.array([3, 1, 1, 2, 2]), "abcde")
    assert system.predict(X).tolist() == [1] * 5
    system.correct(X[0], 4)
    assert system.predict(X[:3]).tolist() == [4] * 3
