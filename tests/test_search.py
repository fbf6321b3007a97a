"""Exact search: cosines to the bit, ties to the newest, standing queries always up to date."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocrrlib import search
from ocrrlib.search import (
    DEPTH,
    GROUPS,
    QUERIES_AT_ONCE,
    Buffer,
    Entries,
    StandingClasses,
    StandingQueries,
    class_cosines,
    nearest_cosines,
    top_k,
)
from tests.samples import clusters, rows

UNIT = 2.0**-24


def brute_force(Q, X, born, k):
    """All cosines as integers in units of 2**-48, then one full sort per query."""
    products = (Q.astype(np.float64) / UNIT).astype(np.int64) @ (
        X.astype(np.float64) / UNIT
    ).astype(np.int64).T
    order = np.lexsort((np.broadcast_to(-born, products.shape), -products))[:, :k]
    padding = [(0, 0), (0, k - order.shape[1])]
    sims = np.pad(
        np.take_along_axis(products, order, axis=1) * UNIT**2, padding, constant_values=-np.inf
    )
    return sims, np.pad(order, padding, constant_values=-1)


def pool(d, seed):
    """A few rows and neighbours of theirs that differ by less than float32 products can tell."""
    base = rows(4, d, seed)
    nudged = base.astype(np.float64)
    nudged += np.random.default_rng(seed).integers(-2, 3, base.shape) * UNIT
    return np.concatenate([base, nudged.astype(np.float32), -base[:1]])


def assert_same(found, expected):
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(found[0], expected[0])


seeds = st.integers(0, 999)
sizes = st.one_of(st.integers(0, 40), st.integers(2 * GROUPS - 2, 2 * GROUPS + 130))


@given(
    n=sizes, d=st.integers(1, 9), k=st.sampled_from([1, 3, 5, 20, GROUPS, GROUPS + 20]), seed=seeds
)
@settings(max_examples=60)
def test_top_k_equals_a_full_sort_with_ties_to_the_newest(n, d, k, seed):
    rng = np.random.default_rng(seed)
    some = pool(d, seed)
    X = some[rng.integers(0, len(some), n)]
    Q = np.concatenate([some[:6], rows(2, d, seed + 1)])
    born = rng.permutation(3 * n)[:n]
    expected = brute_force(Q, X, born, k)
    assert_same(top_k(Q, X, born, k), expected)
    # One query is searched otherwise where the entries do not fit a cache.
    for cached in (
        0,
        X.nbytes,
    ):
        with mock.patch.object(search, "CACHED", cached):
            assert_same(top_k(Q[:1], X, born, k), [part[:1] for part in expected])


steps = st.tuples(
    st.sampled_from(["append", "overwrite", "ask"]), st.integers(0, 8), st.integers(0, 2**9 - 1)
)


@given(
    st.integers(0, 12),
    st.lists(steps, max_size=25),
    st.booleans(),
    st.integers(1, 6),
    st.integers(0, 9),
    seeds,
)
@settings(max_examples=200)
def test_standing_queries_equal_top_k_after_any_writes(n, history, overwrites, k, spare, seed):
    some = pool(5, seed)
    entries = Buffer(some[np.random.default_rng(seed).integers(0, len(some), n)], np.zeros(n))
    standing = StandingQueries(some, entries, k, spare)
    for kind, row, number in [*history, ("ask", 0, 2**9 - 1)]:
        if kind == "ask":
            ids = np.flatnonzero([number >> bit & 1 for bit in range(len(some))])
            expected = brute_force(some[ids], entries.X, entries.born, k)
            assert_same(top_k(some[ids], entries.X, entries.born, k), expected)
            assert_same(standing.neighbours(ids), expected)
        elif kind == "append" or not (overwrites and entries.size):
            entries.append(some[row], 0)
        else:
            entries.overwrite(number % entries.size, some[row], 0)


@given(st.integers(0, 12), st.lists(steps, max_size=25), st.booleans(), seeds)
@settings(max_examples=100)
def test_standing_classes_have_the_nearest_entry_of_each_class_after_any_writes(
    n, history, overwrites, seed
):
    rng = np.random.default_rng(seed)
    some = pool(5, seed)
    entries = Buffer(some[rng.integers(0, len(some), n)], rng.integers(0, 4, n))
    standing = StandingClasses(some, entries, 4)
    for kind, row, number in [*history, ("ask", 0, 2**9 - 1)]:
        if kind == "ask":
            ids = np.flatnonzero([number >> bit & 1 for bit in range(len(some))])
            sims, slots = brute_force(some[ids], entries.X, entries.born, max(entries.size, 1))
            labels = np.where(slots < 0, -1, np.append(entries.y, -1)[slots])
            for label in range(4):
                own = np.where(labels == label, sims, -np.inf).max(axis=1)
                np.testing.assert_array_equal(standing.cosines(ids)[:, label], own)
        elif kind == "append" or not (overwrites and entries.size):
            entries.append(some[row], number % 4)
        else:
            entries.overwrite(number % entries.size, some[row], number // 16 % 4)


@pytest.mark.parametrize("k, spare", [(1, 0), (5, 3), (5, 15), (DEPTH + 7, 0)])
@pytest.mark.parametrize("overwritten", [False, True])
def test_standing_queries_hold_through_hundreds_of_writes(k, spare, overwritten):
    entries = Buffer(rows(2 * GROUPS, 6, 0), np.zeros(2 * GROUPS))
    Q = rows(30, 6, 1)
    rng = np.random.default_rng(3)
    standing = StandingQueries(Q, entries, k, spare)
    for x in rows(400, 6, 2):
        entries.overwrite(rng.integers(entries.size), x, 0) if overwritten else entries.append(x, 0)
        ids = np.flatnonzero(rng.random(len(Q)) < 0.1)
        assert_same(standing.neighbours(ids), brute_force(Q[ids], entries.X, entries.born, k))


def test_cosines_of_sentences_are_exact_whatever_the_batch(banking):
    Q = banking.X_test[: QUERIES_AT_ONCE + 9]
    X = banking.X_train[:1500]
    expected = brute_force(Q, X, born := np.arange(len(X)), 5)
    assert_same(top_k(Q, X, born, 5), expected)
    assert_same(StandingQueries(Q, Entries(X, born), 5).neighbours(np.arange(len(Q))), expected)


def test_few_queries_find_the_cosines_of_many():
    X, y = clusters(7, 90, 24, seed=1)
    Q = rows(5, 24, 2)
    found = nearest_cosines(Q, Entries(X, y), 8)
    np.testing.assert_array_equal(found, class_cosines(Q, X, y, 8))
