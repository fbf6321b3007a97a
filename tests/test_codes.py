"""Search with int8 codes: the answers of a search without, while entries come and go."""

import importlib.util
import pickle
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocrrlib import codes, search
from ocrrlib.search import Buffer, Entries, top_k
from tests.samples import rows
from tests.test_search import UNIT, assert_same, brute_force, pool


class Integers:
    """Products of codes by NumPy: what numkong computes, on any processor."""

    def __init__(self):
        self.packed = []  # rows of each block

    def dots_pack(self, block):
        self.packed.append(len(block))
        return block.astype(np.int32)

    def dots_packed(self, queries, block):
        return queries.astype(np.int32) @ block.T


def numkong():
    if importlib.util.find_spec("numkong") is None:
        pytest.skip("numkong is not installed")
    import numkong

    return numkong


@contextmanager
def coding(library, after=1, many=1):
    """Code entries by a library, few of them too, once ``after`` queries were asked."""
    with ExitStack() as patches:
        for module in (search, codes):
            patches.enter_context(mock.patch.object(module, "library", lambda: library))
        for name, value in (("CODED", 2 * codes.GROUPS), ("CODED_AFTER", after)):
            patches.enter_context(mock.patch.object(search, name, value))
        for name, value in (("BLOCK", 512), ("PRODUCTS", 512), ("MANY", many)):
            patches.enter_context(mock.patch.object(codes, name, value))
        yield


def twins(d, seed):
    """Unit rows of equal codes that differ by nearly a step of them in each value, and copies."""
    rng = np.random.default_rng(seed)
    middle = rng.integers(-126, 127, (5, d)).astype(np.float64)
    middle[:, 0] = 127
    half = np.where(rng.random((5, d)) < 0.5, -0.49, 0.49)
    half[:, 0] = 0
    both = np.concatenate([middle + half, middle - half, middle])
    both /= np.linalg.norm(both, axis=1, keepdims=True)
    return (np.round(both / UNIT) * UNIT).astype(np.float32)


@given(
    n=st.integers(2 * codes.GROUPS, 1600),
    d=st.integers(1, 40),
    k=st.sampled_from([1, 5, 31]),
    distinct=st.sampled_from([0, 30, 1000]),
    changes=st.lists(st.tuples(st.booleans(), st.integers(0, 9999)), max_size=3),
    seed=st.integers(0, 999),
)
@settings(max_examples=100)
@pytest.mark.parametrize("library", [numkong, Integers, lambda: None])
def test_search_equals_a_full_sort_after_any_writes(library, n, d, k, distinct, changes, seed):
    rng = np.random.default_rng(seed)
    some = np.concatenate([twins(d, seed), pool(d, seed), rows(distinct, d, seed + 1)])
    entries = Buffer(some[rng.integers(0, len(some), n)], np.zeros(n))
    Q = np.concatenate([some[rng.integers(0, len(some), 6)], rows(2, d, seed + 2)])
    with coding(library()):
        for overwrites, number in [(False, 0), *changes, (False, 300)]:
            if overwrites:
                for slot in rng.integers(0, entries.size, number % 9):
                    entries.overwrite(slot, some[rng.integers(len(some))], 0)
            else:
                new = rng.integers(0, len(some), number % 600)
                entries.extend(some[new], np.zeros(len(new)))
            expected = brute_force(Q, entries.X, entries.born, k)
            assert_same(entries.nearest(Q, k), expected)
            assert_same(entries.nearest(Q[:1], k), [part[:1] for part in expected])


@given(st.integers(0, 999), st.integers(1, 3))
@pytest.mark.parametrize("library", [numkong, Integers])
def test_the_nearest_entry_is_found_though_codes_err_as_much_as_they_can(library, seed, k):
    """Its code is too far from the query by half a step in each value, those of others too near."""
    d = 16
    rng = np.random.default_rng(seed)
    q = rng.choice([-1, 1], d)
    middle = rng.integers(-20, 21, d)
    other = middle - 0.49 * q
    nearest = middle - q + 0.49 * q
    first = rng.integers(d)
    nearest[first] += q[first]  # nearer than the others, by a quarter of what the codes err
    assert nearest @ q > other @ q
    X = np.zeros((768, d + 1))
    X[1:, :d] = other / 127  # a step, as the first row is 1 in one value
    X[rng.integers(1, 768), :d] = nearest / 127
    X[:, d] = np.sqrt(1 - (X**2).sum(axis=1))
    X = (np.round(X / UNIT) * UNIT).astype(np.float32)
    Q = np.append(q / 4, 0)[None].astype(np.float32)
    entries = Entries(X, np.zeros(len(X)))
    with coding(library()):
        assert_same(entries.nearest(Q, k), brute_force(Q, X, entries.born, k))


@pytest.mark.parametrize("library", [numkong, Integers, lambda: None])
def test_values_of_any_kind_have_the_cosines_of_a_search_without_codes(library):
    """Rows that are no multiples of 2**-24: sums depend on their order."""
    X = np.random.default_rng(0).standard_normal((3000, 48), np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X[1000:] = np.round(X[1000:], 2) + X[1000:] * 1e-3  # other norms by a little
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    entries = Entries(X[300:], np.zeros(2700))
    with coding(library()):
        for Q in (X[:300], X[7:8], -X[290:310]):
            assert_same(entries.nearest(Q, 5), top_k(Q, entries.X, entries.born, 5))


def test_few_searches_code_nothing_and_later_ones_only_what_is_new():
    library = Integers()
    X = rows(1600, 8, 0)
    X = X[np.argsort(-np.abs(X).max(axis=1))]  # the first has the largest value
    entries = Entries(X[:1100], np.zeros(1100))
    with coding(library, after=3 * search.ALONE):
        for _ in range(2):
            entries.nearest(X[:1], 5)
        assert library.packed == []
        for _ in range(9):
            entries.nearest(X[:1], 5)
        assert library.packed == [512, 512]
        entries.extend(X[1100:], np.zeros(500))
        for _ in range(9):
            entries.nearest(X[:1], 5)
        assert library.packed == [512, 512, 512]
        entries.extend(np.repeat(np.eye(8, dtype=np.float32), 32, axis=0), np.zeros(256))
        for _ in range(9):
            entries.nearest(X[:1], 5)
        assert library.packed[3:] == [512, 512, 512, 256]  # the scale of the others was too small


def test_a_copy_searches_as_the_original_does():
    X = rows(700, 8, 0)
    entries = Entries(X, np.zeros(700))
    with coding(numkong()):
        found = entries.nearest(X[:9], 5)
        copied = pickle.loads(pickle.dumps(entries))
        assert_same(copied.nearest(X[:9], 5), found)


def test_entries_of_which_most_are_near_are_left_to_float32():
    X = rows(9, 8, 0)[np.arange(2000) % 9]
    entries = Entries(X, np.zeros(2000))
    with coding(Integers(), many=1 / 32):
        found = entries.nearest(X[:9], 5)
    assert_same(found, brute_force(X[:9], X, entries.born, 5))
