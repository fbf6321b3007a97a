"""Fronts and the target: by definition, by SciPy, on runs with known winners."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ocrrlib.experiments import BEFORE, OURS
from studies.statistics import accuracies
from studies.target import against, means, on_front, target

ROWS = 100  # on either axis


def runs(seeds=2, **systems):
    """Runs by system: both accuracies and area, each a number for all seeds or one for each."""
    rows = [
        dict(
            dataset="banking77",
            policy="oracle",
            seed=seed,
            system=system,
            hm=0.9,
            best_hm=0.905,
            storage_bytes=1.0,
        )
        | {
            name: np.broadcast_to(one, seeds)[seed]
            for name, one in zip(("novel", "original", "ausuc"), values)
        }
        for system, values in systems.items()
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows)


def heights(seeds, original, novel):
    """Rows of ours whose curve is level at ``original`` up to ``novel``."""
    right = np.repeat([original, -1], [novel, ROWS - novel]).astype("<i4").tobytes()
    row = dict(dataset="banking77", policy="oracle", system=OURS, heights=right, n_original=ROWS)
    return pd.DataFrame([row | {"seed": seed} for seed in range(seeds)])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8))
def test_the_front_is_what_no_other_dominates(points):
    novel, original = np.array(points, float).T
    expected = [
        not any(a >= x and b >= y and (a > x or b > y) for a, b in points) for x, y in points
    ]
    assert on_front(np.stack([novel, original]), np.stack([original, novel])).tolist() == [
        expected,
        expected,
    ]
    # Rounding is no difference.
    assert on_front(novel + 1e-14 * np.arange(len(novel)), original).tolist() == expected


def test_shares_on_the_front_are_those_of_drawn_seeds():
    # Two seeds of four favour a: it is on the front if half of the drawn ones do.
    novel = [
        1.0,
        1.0,
        0.0,
        0.0,
    ]
    even = runs(4, static_linear=(0, 0.4, 0), a=(novel, 0.5, 0), b=(novel[::-1], 0.5, 0))
    found = means(even).set_index("system")
    assert (
        found["front"].tolist() == [False, True, True]
        and found["front_seeds"]["static_linear"] == 0
    )
    np.testing.assert_allclose(found["front_seeds"][["a", "b"]], 11 / 16, atol=0.04)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=20))
def test_the_bound_is_that_of_a_one_sided_t_test(pairs):
    mine, other = map(np.array, zip(*pairs))
    rows = runs(len(mine), other=(0.5, 0.5, other), **{OURS: (0.5, 0.5, mine)})
    (found,) = against(rows, heights(len(mine), 90, 80)).to_dict("records")
    assert found["area"] == pytest.approx(np.mean(mine - other)) and found["low"] <= found["area"]
    if np.ptp(mine - other) > 1e-6:
        low = (
            stats.ttest_1samp(mine - other, 0, alternative="greater").confidence_interval(0.95).low
        )
        assert found["low"] == pytest.approx(low, abs=1e-9)


def test_a_point_is_compared_with_the_curve_at_its_own_novel_accuracy_in_each_seed():
    rows = runs(
        2, other=([0.5, 0.8], [0.95, 0.85], 0), far=([0.8, 0.81], 0.2, 0), **{OURS: (0.5, 0.5, 0)}
    )
    found = against(rows, heights(2, 90, 80)).set_index("system")["curve"]
    assert found["other"] == pytest.approx(0)  # 5 points below in one seed, above in the other
    # The curve does not get there in the second seed.
    assert found["far"] == pytest.approx((0.7 - 0.2) / 2)


def judged(seeds=12, time=2.0, memory=2.0, gap=0.01, curve=90, **rivals):
    """The target for ours at an area of 0.8 with a spread shared by all systems."""
    luck = np.random.default_rng(0).normal(scale=0.01, size=seeds)
    systems = {
        "substrate": (0.5, 0.9, 0.7),
        BEFORE: (0.5, 0.9, 0.8),
        OURS: (0.6, 0.9, 0.8),
    } | rivals
    rows = runs(seeds, **{name: (*point, luck + area) for name, (*point, area) in systems.items()})
    ours = rows["system"] == OURS
    rows = rows.assign(storage_bytes=np.where(ours, memory, 1.0), best_hm=rows["hm"] + gap)
    compared = against(rows, heights(seeds, curve, 80))
    return target(compared, accuracies(rows, resamples=99), rows, {"banking77": time}).iloc[0]


def test_a_clear_winner_meets_the_whole_target():
    found = judged(klda=(0.5, 0.91, 0.804))
    assert found["all"] and found["area"] and found["curve"] and found["area_short"] == ()
    assert found[["memory", "time"]].tolist() == [2, 2] and found["over"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    "part, changed",
    [
        ("area_rivals", dict(klda=(0.5, 0.9, 0.806))),
        ("curve_rivals", dict(klda=(0.5, 0.92, 0.8))),
        ("curve_rivals", dict(klda=(0.9, 0.02, 0.8))),  # beyond the end of the curve
        ("above_substrate", dict(seeds=3)),  # three seeds cannot be sure
        ("near", dict(gap=0.011)),
        ("affordable", dict(memory=2.1)),
        ("affordable", dict(time=np.nan)),  # it is not known
    ],
)
def test_each_part_of_the_target_can_fail_and_then_the_whole_does(part, changed):
    found = judged(**changed)
    parts = ("area_rivals", "curve_rivals", "above_substrate", "near", "affordable")
    assert [name for name in parts if not found[name]] == [part] and not found["all"]
    short = {name: found[f"{name.removesuffix('_rivals')}_short"] for name in parts[:2]}
    assert short == {name: ("klda",) if name == part else () for name in parts[:2]}


def test_the_system_that_ours_replaces_is_told_apart_from_rivals():
    found = judged(**{BEFORE: (0.5, 0.95, 0.9)})
    assert found["all"] and not found["area"] and not found["curve"]
    assert found["area_short"] == found["curve_short"] == (BEFORE,)
