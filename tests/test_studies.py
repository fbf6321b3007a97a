"""Studies of streams: each changes what it says, keeps all else, and repeats what is published."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ocrrlib.policies import POLICIES, UNCERTAINTIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import make
from studies import streams
from studies.streams import (
    ADDED,
    STREAMS,
    Setting,
    combine,
    drifting,
    keep_known,
    run_setting,
    run_studies,
    scenario_of,
)

QUICK = dict(cap=60, thin=24)
DIGITS = ("substrate", "knn_lm", "online_linear_tuned", "slda", "ledger_lda")
ARRAYS = [f"{axis}_{part}" for part in ("initial", "stream", "novel", "original") for axis in "Xy"]


@pytest.fixture(scope="module")
def s(banking):
    return make_scenario(banking, 0, cap=None)


def assert_only(one, two, *changed):
    for name in ARRAYS:
        assert np.array_equal(getattr(one, name), getattr(two, name)) == (name not in changed), name


def pairs(X, y):
    return sorted(zip(map(bytes, X), y.tolist()))


@pytest.mark.parametrize("how", ["abrupt", "gradual", "recurring"])
def test_drift_orders_the_rows_of_a_class_by_their_distance_to_its_centre(how, s):
    other = drifting(s, how)
    assert_only(s, other, "X_stream")
    assert pairs(other.X_stream, other.y_stream) == pairs(s.X_stream, s.y_stream)
    for label in s.held_out:
        X = other.X_stream[s.y_stream == label].astype(np.float64)
        d = np.linalg.norm(X - X.mean(axis=0), axis=1)
        inner = d[: len(d) // 2]
        outer = d[len(d) // 2 :]
        quarters = [part.mean() for part in np.array_split(d, 4)]
        assert {
            "gradual": (np.diff(d) >= -1e-9).all(),
            "abrupt": inner.max() <= outer.min() + 1e-9 and (np.diff(inner) < 0).any(),
            "recurring": max(quarters[0], quarters[2]) < min(quarters[1], quarters[3]),
        }[how]


@pytest.mark.parametrize("n", [1, 10, 67])
def test_known_classes_can_be_fewer_and_fewer_are_among_more(n, s):
    fewer = keep_known(s, n)
    more = keep_known(s, n + 5)
    kept = set(fewer.y_initial.tolist())
    assert (
        len(kept) == n
        and kept == set(fewer.y_original.tolist())
        and kept <= set(more.y_initial.tolist())
    )
    assert_only(
        s, fewer, *([] if n == 67 else ["X_initial", "y_initial", "X_original", "y_original"])
    )


def test_cells_change_the_scenario_as_they_say_and_the_usual_cell_is_the_usual_run(banking):
    usual = make_scenario(banking, 1, **QUICK)
    expected = [c.scalars for c in run_stream(make("substrate", 1), usual, POLICIES["oracle"])]
    expected = [{name: row[name] for name in row if name not in ADDED} for row in expected]
    found = run_setting(Setting("substrate", 1, **QUICK))
    assert [{name: row[name] for name in expected[0]} for row in found] == expected
    assert {row["wrong_entries"] for row in found} == {0} and {row["known"] for row in found} == {
        67
    }
    mixed = scenario_of(Setting("", 1, order="shuffled", **QUICK))
    assert_only(usual, mixed, "X_initial", "y_initial")
    assert pairs(mixed.X_initial, mixed.y_initial) == pairs(usual.X_initial, usual.y_initial)
    assert_only(usual, scenario_of(Setting("", 1, drift="gradual", **QUICK)), "X_stream")
    few = scenario_of(Setting("", 0, new=5, known=3, **QUICK))
    assert len(few.held_out) == 5 and len(set(few.y_initial)) == 3
    assert len(scenario_of(Setting("", 0, "digits", "pixels", new=5)).classes) == 10


@pytest.mark.parametrize("name", ["substrate", "bounded_reservoir_100", "knn_lm"])
def test_the_share_of_wrong_entries_is_that_of_rows_stored_with_a_wrong_label(name):
    s = scenario_of(Setting("", 0, **QUICK))
    system = make(name).fit(s.X_initial, s.y_initial, s.classes)
    told = replace(POLICIES["oracle"], wrong=0.5).labels(s)
    for x, y in zip(s.X_stream, told.tolist()):
        system.correct(x, y)
    kept = {x.tobytes() for x in system.entries.X}
    wrong = sum(
        x.tobytes() in kept for x, y, true in zip(s.X_stream, told, s.y_stream) if y != true
    )
    assert streams.wrong_entries(system, s) == wrong / system.entries.size > 0
    assert np.isnan(streams.wrong_entries(make("slda").fit(s.X_initial, s.y_initial, s.classes), s))


def test_wrong_late_and_asked_policies_reach_the_stream_and_all_ways_of_asking_cost_the_same():
    usual, wrong, late = (
        run_setting(Setting("substrate", 0, **change, **QUICK))
        for change in ({}, dict(wrong=0.4, confusion="nearest"), dict(delay=10**6))
    )
    assert wrong[-1]["wrong_entries"] > 0 and wrong[-1]["novel_acc"] < usual[-1]["novel_acc"]
    assert late[-1]["stored_entries"] > late[-2]["stored_entries"] == late[0]["stored_entries"]
    changes = combine(p=(0.05, 0.1), asking=("random", *UNCERTAINTIES))
    policies = [Setting("substrate", 0, **change).policy for change in changes]
    assert len(policies) == 2 * 3 and {policy.ask for policy in policies} == {None, *UNCERTAINTIES}
    assert all(policy.ask or policy.exact for policy in policies)


def test_detection_by_hand():
    # 19 of 20 in scope pass a threshold of 2; half of the others are at 2 or above.
    inside = np.arange(1, 21)
    outside = np.array([1, 1.5, 2, 30])
    found = streams.detection(inside, outside)
    assert found["fpr95"] == 0.5
    assert found["auroc"] == np.mean([[(a > b) + (a == b) / 2 for b in outside] for a in inside])


def test_studies_come_out_the_same_by_any_number_of_jobs():
    plan = {"digits": [dict(dataset="digits", encoder="pixels", new=5)]}, {"digits": DIGITS}, [0]
    one, two = (
        run_studies(*plan, profile="quick", progress=False, cache=None, jobs=jobs)
        for jobs in (1, 2)
    )
    pd.testing.assert_frame_equal(one, two, check_exact=True)
    key = list(STREAMS.key)
    assert list(one)[: len(key)] == key and not one.duplicated(key).any()
