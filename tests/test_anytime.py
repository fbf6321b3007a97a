"""Areas under a run's curves: worked by hand, between the curve's extremes, whoever else is in the frame."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib.errors import InputError
from ocrrlib.metrics import RUN
from ocrrlib.policies import POLICIES
from ocrrlib.statistics.anytime import allowed, anytime

AREAS = [f"{axis}_over_{over}" for over in ("steps", "corrections") for axis in ("novel", "original")]


def run(steps, corrections, novel, original=0.5, policy="oracle", seed=0, system="substrate"):
    """Checkpoints of one run."""
    about = dict(zip(RUN, ("banking77", "encoder", policy, seed, system)))
    curves = dict(step=steps, corrections=corrections, novel_acc=novel, original_acc=original)
    return pd.DataFrame(about | curves | dict(stored_entries=1, storage_bytes=8))


@st.composite
def runs(draw, accuracies=st.floats(0, 1)):
    """One run: checkpoints at rising steps, no more corrections than its coins allow."""
    policy, seed = draw(st.sampled_from(list(POLICIES))), draw(st.integers(0, 3))
    steps = np.cumsum([0, *draw(st.lists(st.integers(1, 60), max_size=6))])
    coins = np.concatenate([[0], np.cumsum(POLICIES[policy].draws(seed, steps[-1]))])
    made = (coins[steps] * draw(st.floats(0, 1))).astype(int)
    curves = [draw(st.lists(accuracies, min_size=len(steps), max_size=len(steps))) for _ in range(2)]
    return run(steps, made, *curves, policy=policy, seed=seed)


def test_areas_worked_by_hand():
    (found,) = anytime(run([0, 50, 70], [0, 30, 30], [0.0, 0.4, 0.6], [1.0, 0.9, 0.9])).to_dict("records")
    assert found["allowed"] == 70  # each of 70 steps may be corrected
    assert found["novel_over_steps"] == pytest.approx((50 * 0.2 + 20 * 0.5) / 70)
    assert found["original_over_steps"] == pytest.approx((50 * 0.95 + 20 * 0.9) / 70)
    # 30 corrections bring it to 0.4, no further one to 0.6, and there it stays for the other 40.
    assert found["novel_over_corrections"] == pytest.approx((30 * 0.2 + 40 * 0.6) / 70)


@given(runs())
def test_an_area_lies_between_the_least_and_the_most_of_its_curve(checkpoints):
    (found,) = anytime(checkpoints).to_dict("records")
    for area in AREAS:
        curve = checkpoints[f"{area.split('_')[0]}_acc"]
        assert curve.min() - 1e-12 <= found[area] <= curve.max() + 1e-12


@given(runs(), st.floats(0, 1))
def test_a_curve_that_stays_has_its_height_as_area(checkpoints, height):
    found = anytime(checkpoints.assign(novel_acc=height, original_acc=height))
    np.testing.assert_allclose(found[AREAS].to_numpy(), height, rtol=1e-12)


def test_the_horizon_is_what_the_policy_allows_in_that_run():
    for policy, entry in POLICIES.items():
        assert allowed(policy, 7, 500) == entry.draws(7, 500).sum()
    assert allowed("oracle", 7, 500) == 500 and 0 < allowed("random10", 7, 500) < allowed("random50", 7, 500) < 500


def test_a_run_has_the_same_areas_whoever_else_is_in_the_frame_and_however_rows_are_mixed():
    few = run([0, 50, 100], [0, 1, 2], [0.0, 0.2, 0.3], system="few")
    many = run([0, 50, 100], [0, 40, 90], [0.0, 0.5, 0.9], system="many")
    alone = pd.concat([anytime(few), anytime(many)], ignore_index=True)
    pd.testing.assert_frame_equal(anytime(pd.concat([few, many])), alone)
    mixed = pd.concat([few, many]).sort_values("step", kind="stable")
    pd.testing.assert_frame_equal(anytime(mixed), alone)
    named = pd.concat([few, many]).astype(dict.fromkeys(RUN, "category"))
    assert anytime(named)["novel_over_steps"].tolist() == alone["novel_over_steps"].tolist()


def test_a_run_that_may_not_be_corrected_or_has_no_stream_is_where_it_ends():
    seed = next(seed for seed in range(100) if not allowed("random10", seed, 5))
    (found,) = anytime(run([0, 5], [0, 0], [0.2, 0.2], policy="random10", seed=seed)).to_dict("records")
    assert (found["allowed"], found["novel_over_corrections"]) == (0, 0.2)
    assert (anytime(run([0], [0], [0.7]))[AREAS[::2]] == 0.7).all(axis=None)


@pytest.mark.parametrize(
    "checkpoints, why",
    [
        (run([50, 100], [1, 2], [0.1, 0.2]), "no checkpoint at step 0"),
        (run([0, 100, 50], [0, 2, 1], [0.1, 0.2, 0.3]), "goes back"),
        (run([0, 50], [0, 51], [0.1, 0.2]), "more corrections than its policy allows"),
    ],
)
def test_runs_that_are_not_whole_are_refused(checkpoints, why):
    with pytest.raises(InputError, match=why):
        anytime(checkpoints)


def test_an_unknown_policy_is_refused_by_name():
    with pytest.raises(InputError, match="unknown policy 'orakel'.*oracle"):
        anytime(run([0], [0], [0.1], policy="orakel"))
