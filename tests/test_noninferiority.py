"""At least equal within the margin: by the bound, not by the mean."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ocrrlib.errors import InputError
from ocrrlib.statistics.noninferiority import low_both, noninferiority
from ocrrlib.statistics.resampling import resampled_cells


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


def test_the_bound_with_rows_drawn_is_lower_where_rows_differ_and_no_bound_where_nothing_does():
    rng, n_rows = np.random.default_rng(0), 200
    table, rows = [], []
    for seed, luck in enumerate(rng.integers(60, 140, 20)):
        for system, right in (("mine", np.arange(n_rows) < luck), ("other", np.arange(n_rows) >= n_rows - luck)):
            names = {"dataset": "d", "policy": "oracle", "seed": seed, "system": system}
            table.append(names | {"novel": right.mean(), "original": right.mean()})
            both = np.concatenate([right, right])
            rows.append(names | {"n_novel": n_rows, "n_original": n_rows, "right": np.packbits(both).tobytes()})
    table, rows = pd.DataFrame(table), pd.DataFrame(rows)
    one_each = {("d", seed): tuple(np.arange(2 * n_rows).reshape(2, -1)) for seed in range(20)}
    plain = noninferiority(table, "mine").set_index(["metric", "system"])["low"]
    found = low_both(resampled_cells(table, rows, one_each), "mine").set_index(["metric", "system"])["low_both"]
    assert (found < plain - 0.02).all()
    # Twenty seeds whose answers are the same, row by row, for both systems: rows decide nothing.
    alike = rows.assign(right=rows["seed"].map(rows.groupby("seed")["right"].first()))
    means = table.assign(
        **{axis: table["seed"].map(table.groupby("seed")[axis].first()) for axis in ("novel", "original")}
    )
    level = low_both(resampled_cells(means, alike, one_each), "mine")["low_both"]
    np.testing.assert_allclose(level, 0, atol=1e-12)


def test_the_bound_with_rows_drawn_is_that_over_seeds_where_all_rows_of_a_seed_are_alike():
    table, rows, n = [], [], 4
    for seed, right in enumerate((True, True, False, True)):
        for system, answer in (("mine", right), ("other", not right)):
            names = {"dataset": "d", "policy": "oracle", "seed": seed, "system": system}
            table.append(names | {"novel": float(answer), "original": float(answer)})
            rows.append(names | {"n_novel": 8, "n_original": 8, "right": np.packbits([answer] * 16).tobytes()})
    table, places = pd.DataFrame(table), {("d", seed): tuple(np.arange(16).reshape(2, 8)) for seed in range(n)}
    plain = noninferiority(table, "mine")["low"].to_numpy()
    found = low_both(resampled_cells(table, pd.DataFrame(rows), places, resamples=40_000), "mine")[
        "low_both"
    ].to_numpy()
    np.testing.assert_allclose(0.5 - found, 0.5 - plain, rtol=0.02)  # the mean difference is 0.5
