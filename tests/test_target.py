"""Fronts, non-inferiority and the target: by definition, by SciPy's tests, and on runs with known winners."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ocrrlib.experiments import OURS
from ocrrlib.files import InputError
from studies.statistics import accuracies, measure, resampled_cells
from studies.target import DROP, against_rivals, front_frequency, low_both, means, noninferiority, on_front, target
from tests.test_statistics import answered, checkpoints

SYSTEMS = {"static_linear": (0.0, 0.9), "substrate": (0.8, 0.88), "klda": (0.85, 0.9), OURS: (0.9, 0.905)}


def runs(seeds=2, **systems):
    """Final accuracies by system: a number for all seeds, or one for each."""
    rows = [
        dict(dataset="banking77", policy="oracle", seed=seed, system=system)
        | {axis: np.broadcast_to(value, seeds)[seed] for axis, value in zip(("novel", "original"), both)}
        for system, both in systems.items()
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows)


def results(systems=SYSTEMS, seeds=12, memory=1.0):
    """Checkpoints of runs in which systems share the luck of a seed."""
    rng, found = np.random.default_rng(0), []
    for seed in range(seeds):
        luck = rng.normal(scale=0.01)
        for system, (novel, original) in systems.items():
            own = luck + rng.normal(scale=0.002)
            curve = [0.0, 0.7 * novel + own * (novel > 0), novel + own * (novel > 0)]
            run = checkpoints([0, 50, 400], [0, 5, 8], curve, original + own / 9, seed=seed, system=system)
            found.append(run.assign(storage_bytes=memory if system == OURS else 1.0))
    return pd.concat(found, ignore_index=True)


def judged(rows, time=5.0):
    found = measure(rows)
    return target(against_rivals(found), accuracies(found, resamples=99), rows, {"banking77": time}).iloc[0]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8))
def test_the_front_is_what_no_other_dominates(points):
    novel, original = np.array(points, float).T
    expected = [not any(a >= x and b >= y and (a > x or b > y) for a, b in points) for x, y in points]
    assert on_front(np.stack([novel, original]), np.stack([original, novel])).tolist() == [expected, expected]
    assert on_front(novel + 1e-14 * np.arange(len(novel)), original).tolist() == expected  # rounding is no difference


def test_shares_on_the_front_are_those_of_the_resamples():
    found = front_frequency(resampled_cells(runs(best=(0.9, 0.95), worst=(0.1, 0.3)))).set_index("system")
    assert found["front"].tolist() == [True, False] and found["front_seeds"].tolist() == [1, 0]
    novel = [1.0, 1.0, 0.0, 0.0]  # two seeds of four favour a: it is on the front if half of the drawn ones do
    even = runs(4, a=(novel, 0.5), b=([0.0, 0.0, 1.0, 1.0], 0.5))
    found = front_frequency(resampled_cells(even))
    np.testing.assert_allclose(found["front_seeds"], 11 / 16, atol=0.03)
    assert list(found) == ["dataset", "policy", "system", "novel", "original", "front", "front_seeds"]


def test_a_system_has_collapsed_if_it_is_more_than_the_drop_below_the_frozen_head():
    table = means(runs(static_linear=(0, 0.9), at=(0.5, 0.9 - DROP), below=(0.5, 0.849), above=(0.5, 0.95)))
    assert table["collapsed"].tolist() == [False, False, True, False]
    with pytest.raises(InputError, match="unknown system in banking77, oracle 'static_linear'"):
        means(runs(at=(0.5, 0.5)))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=20), st.floats(0, 0.2))
def test_the_bound_is_that_of_a_one_sided_t_test(pairs, margin):
    mine, other = map(np.array, zip(*pairs))
    found = noninferiority(runs(len(mine), mine=(mine, 0.9), other=(other, 0.9)), "mine", margin).iloc[0]
    if np.ptp(mine - other) > 1e-6:
        low = stats.ttest_1samp(mine - other, 0, alternative="greater").confidence_interval(0.95).low
        assert found["low"] == pytest.approx(low, abs=1e-9)
    assert found["at_least_equal"] == (found["low"] > -margin) and found["low"] <= found["difference"]


@pytest.mark.parametrize(
    "rival, equal, plainly", [(0.7, True, "level"), (0.709, True, "behind"), (0.71, False, "behind")]
)
def test_without_any_spread_the_margin_itself_is_too_much(rival, equal, plainly):
    compared = against_rivals(runs(static_linear=(0, 0.9), klda=(rival, 0.9), **{OURS: (0.7, 0.9)}))
    row = compared[(compared["system"] == "klda") & (compared["metric"] == "novel")].iloc[0]
    assert (row["at_least_equal"], row["plainly"], row["own"], row["other"]) == (equal, plainly, 0.7, rival)
    assert row["low"] == pytest.approx(0.7 - rival)


def test_collapsed_systems_are_no_rivals_however_much_they_learn():
    compared = against_rivals(
        runs(static_linear=(0, 0.9), online_linear=(1.0, 0.1), klda=(0.8, 0.9), **{OURS: (0.85, 0.9)})
    )
    assert set(compared["system"]) == {"static_linear", "klda"} and compared["at_least_equal"].all()


def test_the_bound_with_rows_drawn_is_lower_where_rows_differ_and_that_over_seeds_where_they_are_alike():
    rights = np.random.default_rng(0).integers(60, 140, 20)
    mine = np.stack([np.stack([np.arange(200) < right] * 2) for right in rights])
    frames = answered({"mine": mine, "other": mine[:, :, ::-1]}, [np.arange(400).reshape(2, 200)] * 20)
    plain = noninferiority(frames[0], "mine")["low"].to_numpy()
    assert (low_both(resampled_cells(*frames), "mine")["low_both"] < plain - 0.02).all()
    alike = np.array([1, 1, 0, 1], bool)[:, None, None] & np.ones((4, 2, 8), bool)
    frames = answered({"mine": alike, "other": ~alike}, [np.arange(16).reshape(2, 8)] * 4)
    plain = noninferiority(frames[0], "mine")["low"].to_numpy()
    found = low_both(resampled_cells(*frames, resamples=20_000), "mine")["low_both"].to_numpy()
    np.testing.assert_allclose(0.5 - found, 0.5 - plain, rtol=0.02)  # the mean difference is 0.5


def test_a_clear_winner_meets_the_whole_target():
    found = judged(results(memory=2.0))
    assert found["all"] and found["anytime"] and found["original_kept"] and found["novel_short"] == ()
    assert (found["memory"], found["time"]) == (2, 5)


@pytest.mark.parametrize(
    "part, rows, time",
    [
        ("affordable", dict(memory=2.1), 5.0),
        ("affordable", {}, 5.1),
        ("anytime", dict(seeds=3), 5.0),  # three seeds cannot be sure
        ("anytime", dict(systems=SYSTEMS | {"substrate": (0.905, 0.88)}), 5.0),  # surely worse
        ("original_equal", dict(systems=SYSTEMS | {"klda": (0.85, 0.93)}), 5.0),
        ("original_kept", dict(systems=SYSTEMS | {"substrate": (0.8, 0.906)}), 5.0),
        ("novel_equal", dict(systems=SYSTEMS | {"klda": (0.95, 0.9)}), 5.0),
    ],
)
def test_each_part_of_the_target_can_fail_and_then_the_whole_does(part, rows, time):
    found = judged(results(**rows), time)
    parts = ("novel_equal", "original_equal", "anytime", "original_kept", "affordable")
    assert [name for name in parts if not found[name]] == [part] and not found["all"]
    short = {name: found[f"{name.removesuffix('_equal')}_short"] for name in parts[:2]}
    assert short == {name: ("klda",) if name == part else () for name in parts[:2]}


def test_rivals_that_are_not_surely_matched_with_rows_drawn_are_listed():
    rows = results()
    found = measure(rows)
    compared = against_rivals(found)
    drawn = compared.assign(low_both=np.where(compared["system"] == "klda", -0.01, 0.0))
    reached = target(drawn, accuracies(found, resamples=99), rows, {"banking77": 1.0})
    assert reached["rows_short"].tolist() == [("klda",)] and reached["all"].all()
