"""The even rule: new classes weigh as much as the known ones, once they have two rows."""

import numpy as np
import pytest

from ocrrlib.rivals.even import best_temperature, even_prior
from ocrrlib.scenario import make_scenario
from ocrrlib.systems.base import softmax_seen
from tests.samples import fitted, teach


def test_new_classes_of_two_rows_share_the_weight_of_all_known_ones():
    known = np.array([True, True, True, True, False, False, False])
    counts = np.array([9, 1, 5, 2, 1, 2, 0])
    np.testing.assert_array_equal(even_prior(counts, known), [1, 1, 1, 1, 1, 2, 1])


def test_without_new_classes_all_weigh_the_same():
    known = np.array([True, True, False])
    np.testing.assert_array_equal(even_prior(np.array([3, 4, 0]), known), [1, 1, 1])


@pytest.fixture
def s(tiny):
    return make_scenario(tiny, 0, held_out=4, cap=None)


def test_probabilities_are_tempered_ones_of_the_other_system_times_the_prior(s):
    even = fitted("slda_even", s)
    slda = fitted("slda", s)
    pairs = list(zip(s.X_stream[:20], s.y_stream[:20].tolist()))
    teach(even, pairs)
    teach(slda, pairs)
    prior = even_prior(
        np.bincount(np.append(s.y_initial, s.y_stream[:20]), minlength=12), even.known
    )
    p = softmax_seen(slda._scores(s.queries) / even.tempered_by, slda.seen) * prior
    expected = p / p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(even.predict_proba(s.queries), expected, rtol=1e-9, atol=1e-15)


def test_with_the_lookup_corrections_hold_and_rows_that_are_not_stored_are_answered_as_without(s):
    with_lookup = fitted("slda_even_lookup", s)
    without = fitted("slda_even", s)
    asked = with_lookup.watch(s.X_stream).answers
    labels = np.roll(s.y_stream, 1)  # which no model would hold
    for n, pair in enumerate(zip(s.X_stream, labels.tolist()), start=1):
        teach(with_lookup, [pair])
        teach(without, [pair])
        np.testing.assert_array_equal(asked(np.arange(n)), labels[:n])
        np.testing.assert_array_equal(with_lookup.predict(s.X_stream[:n]), labels[:n])
        rest = np.concatenate([s.X_stream[n:], s.X_novel])
        expected = without.predict_proba(rest)
        np.testing.assert_array_equal(with_lookup.predict_proba(rest), expected)
    assert np.mean(without.predict(s.X_stream) == labels) < 0.9
    assert with_lookup.storage().entries == len(s.X_initial) + len(s.X_stream)


def test_the_temperature_makes_held_back_rows_likeliest():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4_000, 5))
    p = softmax_seen(logits, np.ones(5, bool))
    own = (p.cumsum(axis=1) < rng.random((4_000, 1))).sum(axis=1)
    assert best_temperature(logits * 7, own, default=1.0) == pytest.approx(7, rel=0.1)
