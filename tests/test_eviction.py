"""Evictions: the reservoir is Algorithm R draw for draw, FIFO keeps the newest, budgets hold."""

import numpy as np
import pytest
from conftest import rows
from hypothesis import given, settings
from hypothesis import strategies as st

from ocrrlib.errors import InputError
from ocrrlib.systems.bounded import EVICTIONS, FIFO, Bounded, Reservoir


def kept(eviction, writes):
    """Numbers of the writes that an eviction keeps, by slot."""
    held = {}
    for write in range(writes):
        slot = eviction.slot()
        if slot is not None:
            held[slot] = write
    return [held[slot] for slot in range(len(held))]


def algorithm_r(budget, seed, writes):
    """The published reservoir, written out."""
    rng, held = np.random.default_rng(seed), []
    for seen in range(writes):
        if len(held) < budget:
            held.append(seen)
        else:
            place = rng.integers(0, seen + 1)
            if place < budget:
                held[place] = seen
    return held


@given(budget=st.integers(1, 40), seed=st.integers(0, 10**6), writes=st.integers(0, 200))
def test_reservoir_equals_algorithm_r_draw_for_draw(budget, seed, writes):
    assert kept(Reservoir(budget, seed), writes) == algorithm_r(budget, seed, writes)


def test_reservoir_keeps_every_write_equally_often():
    budget, writes, seeds = 8, 40, 3000
    counts = np.zeros(writes)
    for seed in range(seeds):
        counts[kept(Reservoir(budget, seed), writes)] += 1
    expected = seeds * budget / writes
    # Kept writes are drawn without replacement, which makes the variance smaller by this factor.
    chi_square = ((counts - expected) ** 2 / (expected * (1 - budget / writes))).sum() * (writes - 1) / writes
    assert chi_square < 39 + 5 * np.sqrt(2 * 39)  # 39 degrees of freedom
    assert np.abs(counts / seeds - budget / writes).max() < 0.035


@given(budget=st.integers(1, 40), writes=st.integers(0, 200))
def test_fifo_keeps_exactly_the_newest_in_order(budget, writes):
    system = Bounded(budget=budget, eviction="fifo").fit(rows(0, 3, 0), np.zeros(0, np.int64), range(writes + 1))
    for write, x in enumerate(rows(writes, 3, 1)):
        system.correct(x, write)
    oldest_first = system.entries.y[np.argsort(system.entries.born)]
    assert oldest_first.tolist() == list(range(writes))[-budget:]


def test_fifo_overwrites_the_oldest():
    eviction = FIFO(3, seed=0)
    assert [eviction.slot() for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize("eviction", EVICTIONS)
@given(budget=st.integers(1, 30), initial=st.integers(0, 60), writes=st.integers(0, 60), seed=st.integers(0, 99))
@settings(max_examples=50)
def test_initial_rows_and_corrections_stream_through_the_eviction_alike(eviction, budget, initial, writes, seed):
    X, y = rows(initial + writes, 3, seed), np.arange(initial + writes)
    at_once, one_by_one = (Bounded(seed, budget=budget, eviction=eviction) for _ in range(2))
    at_once.fit(X[:initial], y[:initial], range(len(y) + 1))
    one_by_one.fit(X[:0], y[:0], range(len(y) + 1))
    for row in range(initial):
        one_by_one.correct(X[row], row)
    for step in range(initial, initial + writes + 1):
        assert at_once.storage().entries == one_by_one.storage().entries == min(budget, step)
        np.testing.assert_array_equal(at_once.entries.y, one_by_one.entries.y)
        np.testing.assert_array_equal(at_once.entries.X, X[at_once.entries.y])
        np.testing.assert_array_equal(one_by_one.entries.X, X[at_once.entries.y])
        for system in (at_once, one_by_one):  # a row's number is its age here
            np.testing.assert_array_equal(np.argsort(system.entries.born), np.argsort(system.entries.y))
        if step < initial + writes:
            at_once.correct(X[step], step)
            one_by_one.correct(X[step], step)


@pytest.mark.parametrize("eviction", EVICTIONS)
@pytest.mark.parametrize("budget", [0, -1])
def test_budgets_below_one_are_refused(eviction, budget):
    with pytest.raises(InputError, match="budget"):
        Bounded(budget=budget, eviction=eviction)


def test_unknown_eviction_is_refused_with_those_there_are():
    with pytest.raises(InputError, match="reservoir, fifo"):
        Bounded(eviction="lru")
