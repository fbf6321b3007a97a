"""Quantiles and intervals as SciPy has them, without SciPy."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ocrrlib.errors import InputError
from ocrrlib.statistics.intervals import intervals
from ocrrlib.statistics.student import interval, quantile


@pytest.mark.parametrize("df", [*range(1, 60), 99, 100, 500, 1001])
def test_quantiles_are_scipys(df):
    for p in (0.5, 0.6, 0.9, 0.95, 0.975, 0.995, 0.9999):
        assert quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-9, abs=1e-15)
        assert quantile(1 - p, df) == pytest.approx(-quantile(p, df), rel=1e-9)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_intervals_are_those_of_the_published_statistics(values):
    own, published = interval(values), intervals(values, resamples=9).iloc[0]
    for name, other in {"mean": "mean", "sd": "sd", "low": "t_low", "high": "t_high"}.items():
        assert own[name] == pytest.approx(published[other], rel=1e-9, abs=1e-12)
    assert own["n"] == len(values)


def test_one_value_has_a_mean_and_no_interval():
    found = interval([0.25])
    assert found["mean"] == 0.25 and all(math.isnan(found[name]) for name in ("sd", "low", "high"))


def test_equal_values_have_an_interval_of_no_width():
    found = interval([0.1] * 7)
    assert found["sd"] == 0 and found["low"] == found["mean"] == found["high"]


@pytest.mark.parametrize("values", [[], [0.1, np.nan], [np.inf]])
def test_values_that_are_not_there_are_refused(values):
    with pytest.raises(InputError, match="all finite"):
        interval(values)


@pytest.mark.parametrize(
    "p, df, clue", [(0, 3, "probability"), (1, 3, "probability"), (0.9, 0, "1 up"), (0.9, 2.5, "1 up")]
)
def test_what_is_out_of_range_is_refused(p, df, clue):
    with pytest.raises(InputError, match=clue):
        quantile(p, df)


def test_it_needs_no_scipy():
    code = "import sys, ocrrlib.statistics.student; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
