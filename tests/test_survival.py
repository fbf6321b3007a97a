"""Corrections to a level as censored data: textbook values, the plain median where nothing is censored."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib.metrics import RUN
from ocrrlib.statistics.survival import corrections_to_levels, median

# Remission of leukaemia in weeks (Freireich et al. 1963), the most used example of censored data.
TREATED = [6, 6, 6, 7, 10, 13, 16, 22, 23, 6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
RELAPSED = [True] * 9 + [False] * 12
PLACEBO = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]

times = st.lists(st.integers(0, 30), min_size=1, max_size=20)


def test_the_textbooks_medians():
    middle, low, high = median(TREATED, RELAPSED)
    assert (middle, low) == (23, 13) and np.isnan(high)
    assert median(PLACEBO, [True] * 21) == (8, 4, 11)


@given(times)
def test_without_censoring_it_is_the_plain_median_within_its_interval(values):
    middle, low, high = median(values, np.ones(len(values), bool))
    assert middle == np.median(values)
    assert not low > middle and not middle > high


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=20), st.randoms())
def test_the_order_of_runs_does_not_matter_and_bounds_enclose_the_median(runs, random):
    found = median(*zip(*runs))
    random.shuffle(runs)
    np.testing.assert_array_equal(median(*zip(*runs)), found)
    middle, low, high = found
    assert not low > middle and not middle > high


@given(times)
def test_runs_that_never_got_there_make_the_median_no_smaller(values):
    reached = np.ones(len(values), bool)
    plain = median(values, reached)[0]
    later = median([*values, 31], [*reached, False])[0]
    assert np.isnan(later) or later >= plain


def test_a_curve_that_never_falls_to_one_half_has_no_median():
    assert np.isnan(median([5, 9, 9], [True, False, False])[0])
    assert np.isnan(median([5, 9], [False, False])).all()
    assert median([5, 9], [True, False])[0] == 5  # exactly one half, and there it stays


def test_all_at_once_is_known_exactly_if_they_are_enough():
    assert median([7] * 20, [True] * 20) == (7, 7, 7)
    assert median([7] * 6, [True] * 6) == (7, 7, 7)  # of five, one in sixteen has all on one side of the median
    for n in (1, 5):
        middle, low, high = median([7] * n, [True] * n)
        assert middle == 7 and np.isnan([low, high]).all()


def test_one_run_that_outlasts_all_others_bounds_nothing():
    middle, low, high = median([2] * 19 + [50], [False] * 19 + [True])
    assert middle == 50 and np.isnan([low, high]).all()


def frame(*novel_by_seed):
    rows = [
        dict(zip(RUN, ("banking77", "encoder", "oracle", seed, "substrate")))
        | dict(step=50 * i, corrections=10 * i + seed * (i > 0), novel_acc=novel)
        for seed, accuracies in enumerate(novel_by_seed)
        for i, novel in enumerate(accuracies)
    ]
    return pd.DataFrame(rows)


def test_runs_are_censored_at_the_corrections_they_made_in_all():
    results = frame([0.0, 0.6, 0.6], [0.0, 0.1, 0.6], [0.0, 0.1, 0.2], [0.0, 0.9, 0.2])
    found = corrections_to_levels(results, (10, 50, 90)).set_index("to")
    assert found["seeds"].tolist() == [4, 4, 4] and found["reached"].tolist() == [4, 3, 1]
    assert found.loc[10, "median"] == np.median([10, 11, 12, 13])
    # 10, 13 and 21 corrections; one run had made 22 without getting there.
    assert found.loc[50, "median"] == (13 + 21) / 2
    assert np.isnan(found.loc[90, "median"])


def test_the_mean_over_those_that_got_there_would_say_less():
    quick = frame([0.9, 0.9], [0.0, 0.1], [0.0, 0.1])
    (found,) = corrections_to_levels(quick, (50,)).to_dict("records")
    assert found["reached"] == 1 and np.isnan(found["median"])


def test_each_cell_is_by_itself_in_order_of_appearance():
    one = frame([0.0, 0.6], [0.0, 0.7])
    both = pd.concat([one.assign(system="z"), one.assign(system="a", corrections=2 * one["corrections"])])
    found = corrections_to_levels(both, (50,))
    assert found["system"].tolist() == ["z", "a"] and found["median"].tolist() == [10.5, 21]
    assert corrections_to_levels(both.astype({"system": "category"}), (50,))["median"].tolist() == [10.5, 21]


@pytest.mark.parametrize("level, wider", [(0.8, 0.95), (0.5, 0.9)])
def test_more_confidence_is_wider(level, wider):
    _, low, high = median(PLACEBO, [True] * 21, level)
    _, lower, higher = median(PLACEBO, [True] * 21, wider)
    assert lower <= low and high <= higher
