"""Intervals agree with SciPy's, move and stretch with their values, and have no width where nothing varies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from ocrrlib.errors import InputError
from ocrrlib.statistics.intervals import intervals

BOUNDS = ["t_low", "t_high", "bca_low", "bca_high"]
# Accuracies as they are: so many of 400 test rows, often the same in two seeds.
accuracies = arrays(float, st.integers(3, 20), elements=st.integers(0, 400).map(lambda right: right / 400))


def few(values, **more):
    return intervals(values, resamples=499, **more)


def test_they_are_those_of_scipy():
    values = np.random.default_rng(0).beta(8, 2, 20)
    (found,) = intervals(values).to_dict("records")
    assert (found["mean"], found["sd"]) == (pytest.approx(values.mean()), pytest.approx(values.std(ddof=1)))
    t = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found["t_low"], found["t_high"]) == (pytest.approx(t.low), pytest.approx(t.high))
    rng = np.random.default_rng(0)
    bca = stats.bootstrap((values,), np.mean, confidence_level=0.95, method="BCa", rng=rng).confidence_interval
    assert (found["bca_low"], found["bca_high"]) == (pytest.approx(bca.low), pytest.approx(bca.high))


@given(accuracies)
def test_both_intervals_hold_the_mean(values):
    (found,) = few(values).to_dict("records")
    assert found["t_low"] <= found["mean"] <= found["t_high"]
    assert found["bca_low"] <= found["mean"] <= found["bca_high"]
    assert values.min() - 1e-12 <= found["bca_low"] and found["bca_high"] <= values.max() + 1e-12


@given(accuracies, st.floats(0.01, 100), st.floats(-10, 10))
def test_they_move_and_stretch_with_their_values(values, factor, shift):
    plain, moved = few(values), few(factor * values + shift)
    np.testing.assert_allclose(moved[BOUNDS], factor * plain[BOUNDS] + shift, rtol=1e-9, atol=1e-9)


@given(accuracies)
def test_what_is_turned_round_has_its_t_interval_turned_round(values):
    plain, turned = few(values), few(-values)
    np.testing.assert_allclose(turned[["t_low", "t_high"]], -plain[["t_high", "t_low"]])


@given(st.integers(0, 400), st.integers(2, 20))
def test_equal_values_have_intervals_of_no_width(right, n):
    (found,) = few(np.full(n, right / 400)).to_dict("records")
    assert found["sd"] == 0 and all(found[bound] == found["mean"] for bound in BOUNDS)


def test_values_that_differ_by_rounding_are_equal():
    assert few([0.1 + 0.2, 0.3, 0.3])["sd"].item() == 0


def test_rows_do_not_depend_on_each_other():
    values = np.random.default_rng(1).random((5, 8))
    values[2] = 0.5
    together = few(values)
    for i, row in enumerate(values):
        np.testing.assert_allclose(together.iloc[[i]], few(row), rtol=1e-12)


def test_the_same_values_give_the_same_interval_and_other_resamples_nearly_the_same():
    values = np.random.default_rng(2).random(20)
    one, same = (intervals(values)[BOUNDS].to_numpy() for _ in range(2))
    other = intervals(values, resamples=9_998)[BOUNDS].to_numpy()
    assert (one == same).all() and 0 < np.abs(one - other).max() < 0.01


def test_one_value_has_no_interval():
    (found,) = intervals([0.4]).to_dict("records")
    assert found.pop("mean") == 0.4 and np.isnan(list(found.values())).all()


@pytest.mark.parametrize("values", [[0.1, np.nan], [np.inf, 0.1], []])
def test_values_that_were_not_measured_are_refused(values):
    with pytest.raises(InputError, match="finite"):
        intervals(values)
