"""At least equal within the margin: by the bound, not by the mean."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ocrrlib.errors import InputError
from ocrrlib.noninferiority import noninferiority


def runs(**systems):
    """Novel accuracies by seed; the original ones are the same throughout."""
    rows = [
        {"dataset": "banking77", "policy": "oracle", "seed": seed, "system": system, "novel": value, "original": 0.9}
        for system, values in systems.items()
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def novel(table):
    return table[table["metric"] == "novel"].set_index("system")


def test_a_system_behind_by_less_than_the_margin_is_at_least_equal_and_one_that_varies_is_not():
    base = np.array([0.70, 0.72, 0.68, 0.71])
    noisy = base - 0.005 + np.array([0.1, -0.1, 0.1, -0.1])
    found = novel(noninferiority(runs(mine=base, near=base + 0.005, far=base + 0.02, noisy=noisy), "mine"))
    assert found["at_least_equal"].to_dict() == {"near": True, "far": False, "noisy": False}
    assert found["plainly"].to_dict() == {"near": "behind", "far": "behind", "noisy": "ahead"}


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=20), st.floats(0, 0.2))
def test_the_verdict_is_that_of_a_one_sided_t_test(values, margin):
    mine, other = map(np.array, zip(*values))
    if np.ptp(mine - other) < 1e-6:
        return
    found = novel(noninferiority(runs(mine=mine, other=other), "mine", margin=margin)).loc["other"]
    low = stats.ttest_1samp(mine - other, 0, alternative="greater").confidence_interval(0.95).low
    assert found["low"] == pytest.approx(low, abs=1e-9) and found["low"] <= found["difference"]
    assert found["at_least_equal"] == (found["low"] > -margin)


def test_equal_systems_are_level_and_at_least_equal():
    found = noninferiority(runs(mine=[0.5, 0.6], other=[0.5, 0.6]), "mine")
    assert found["plainly"].tolist() == ["level", "level"] and found["at_least_equal"].all()
    assert noninferiority(runs(mine=[0.1, 0.2, 0.3], other=[0.2, 0.4, 0.0]), "mine")["plainly"].iloc[0] == "level"


def test_one_seed_or_an_unknown_candidate_is_refused():
    with pytest.raises(InputError, match="at least two"):
        noninferiority(runs(mine=[0.5], other=[0.5]), "mine")
    with pytest.raises(InputError, match="unknown system 'yours'"):
        noninferiority(runs(mine=[0.5, 0.6], other=[0.5, 0.6]), "yours")
