"""The study of promises: scenarios without rows out of scope, and its two measures."""

from dataclasses import replace

import numpy as np
import pytest

from studies import abstention
from studies.abstention import area_under_risk, calibration_error, few_labels, scenario_in_scope


def test_the_class_out_of_scope_is_held_out_altogether():
    scenario, out_of_scope = scenario_in_scope("clinc150", 0)
    assert len(scenario.classes) == 150 and abstention.OUT_OF_SCOPE not in scenario.classes
    assert len(out_of_scope) == 1000
    kept = np.concatenate([scenario.X_novel, scenario.X_original])
    assert not (kept[:, None, :8] == out_of_scope[None, :5, :8]).all(axis=2).any()
    scenario, out_of_scope = scenario_in_scope("banking77", 0)
    assert len(scenario.classes) == 77 and len(out_of_scope) == 0


def test_confidence_that_is_the_share_of_right_answers_has_no_calibration_error():
    right = np.tile([True, True, True, False], 60)
    assert calibration_error(np.full(240, 0.75), right) == pytest.approx(0)
    assert calibration_error(np.full(240, 0.25), right) == pytest.approx(0.5)


def test_the_area_is_that_under_the_shares_of_wrong_answers():
    confidence = np.array([0.9, 0.8, 0.7, 0.6])
    right = np.array([True, False, True, False])
    assert area_under_risk(confidence, right) == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert area_under_risk(-confidence, ~right) == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)


def test_a_run_has_a_row_for_each_moment_and_promise(monkeypatch):
    scenario, _ = scenario_in_scope("banking77", 0)
    few = slice(None, None, 12)
    short = replace(
        scenario,
        X_initial=scenario.X_initial[few],
        y_initial=scenario.y_initial[few],
        X_stream=scenario.X_stream[:120],
        y_stream=scenario.y_stream[:120],
        X_novel=scenario.X_novel[few],
        y_novel=scenario.y_novel[few],
        X_original=scenario.X_original[few],
        y_original=scenario.y_original[few],
    )
    monkeypatch.setattr(abstention, "scenario_in_scope", lambda *_: (short, short.X_novel))
    rows = abstention.run_one({"dataset": "banking77", "seed": 0, "reader": "substrate"})
    assert len(rows) == len(abstention.MOMENTS) * len(abstention.PROMISES) - 4  # no 100 corrections


def test_entries_of_few_labels_are_flipped_and_tests_are_not():
    few = few_labels("clinc150", 0, 5, 0.2)
    clean = few_labels("clinc150", 0, 5, 0.0)
    assert (few.X == clean.X).all() and (few.y_test == clean.y_test).all()
    assert 0.1 < (few.y != clean.y).mean() < 0.3
    assert len({*few.y}) == len({*few.y_test}) == 5
    assert not (few.X[:, None, :8] == few.X_others[None, :50, :8]).all(axis=2).any()
