"""A drawn split has every row once, every class on both sides, the share that was asked for, and no text twice."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib.own_data.splits import split_rows, split_texts

shares, seeds = st.floats(0.01, 0.99), st.integers(0, 2**63)
labelled = st.lists(st.tuples(st.text("abcü ", max_size=3), st.integers(0, 4)), min_size=1, max_size=60)


def columns(pairs):
    texts, y = zip(*pairs)
    return np.array(texts, object), np.array(y)


def of_each_class(test, y):
    """Numbers of test rows and of all rows, by class."""
    return {id: (int(test[y == id].sum()), int((y == id).sum())) for id in np.unique(y).tolist()}


def assert_shares(counts, share):
    for tests, n in counts.values():
        wanted = min(max(np.floor(share * n + 0.5), 1), n - 1)
        assert tests == wanted and (n < 2 or 0 < tests < n)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=80), shares, seeds)
def test_each_class_has_its_share_of_rows_on_both_sides(y, share, seed):
    y = np.array(y)
    test = split_rows(y, share, seed, np.arange(len(y)))
    assert test.shape == y.shape and test.dtype == bool
    assert_shares(of_each_class(test, y), share)
    np.testing.assert_array_equal(split_rows(y, share, seed, np.arange(len(y))), test)


@given(labelled, shares, seeds)
def test_each_class_has_its_share_of_different_texts_and_equal_ones_stay_together(pairs, share, seed):
    texts, y = columns(pairs)
    test = split_texts(texts, y, share, seed)
    parts = {}
    for text, part in zip(texts, test):
        assert parts.setdefault(text, part) == part
    first = np.array([texts.tolist().index(text) for text in parts])  # a text counts for the class that it has first
    assert_shares(of_each_class(test[first], y[first]), share)


@given(labelled, shares, seeds, st.randoms(use_true_random=False))
def test_a_texts_part_does_not_depend_on_the_order_of_rows(pairs, share, seed, random):
    pairs = list({text: (text, id) for text, id in pairs}.values())  # one class for each text
    texts, y = columns(pairs)
    parts = dict(zip(texts, split_texts(texts, y, share, seed)))
    random.shuffle(pairs)
    texts, y = columns(pairs)
    assert dict(zip(texts, split_texts(texts, y, share, seed))) == parts


@given(labelled, shares, seeds)
def test_a_texts_part_does_not_depend_on_other_classes(pairs, share, seed):
    texts, y = columns(list({text: (text, id) for text, id in pairs}.values()))
    test = split_texts(texts, y, share, seed)
    for id in np.unique(y):
        alone = split_texts(texts[y == id], y[y == id], share, seed)
        np.testing.assert_array_equal(alone, test[y == id])


@given(st.lists(st.text(max_size=3), min_size=4, max_size=30, unique=True), seeds)
def test_more_test_texts_are_those_of_a_smaller_share_and_others(texts, seed):
    texts, y = np.array(texts, object), np.zeros(len(texts), int)
    small, large = (split_texts(texts, y, share, seed) for share in (0.25, 0.5))
    assert not (small & ~large).any()


def test_another_seed_gives_another_split():
    texts, y = np.array([f"text {i}" for i in range(100)], object), np.arange(100) % 4
    for split in (
        lambda seed: split_texts(texts, y, 0.5, seed),
        lambda seed: split_rows(y, 0.5, seed, np.arange(len(y))),
    ):
        assert len({split(seed).tobytes() for seed in range(5)}) == 5


def test_texts_are_drawn_as_they_always_were():
    texts, y = np.array([f"text {i}" for i in range(12)], object), np.arange(12) % 2
    assert np.flatnonzero(split_texts(texts, y, 0.25, 0)).tolist() == [2, 8, 9, 11]
