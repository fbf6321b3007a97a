import numpy as np
import pandas as pd
import pytest

from ocrrlib import tuning
from ocrrlib.errors import InputError
from ocrrlib.experiments import EXPERIMENTS, OURS
from ocrrlib.scenario import make_scenario
from ocrrlib.systems import SYSTEMS


def as_set(X):
    return {row.tobytes() for row in X}


def test_tuning_sees_training_rows_only_each_once(banking):
    data = tuning.from_training_rows(banking)
    assert len(data.y_train) + len(data.y_test) == len(banking.y_train)
    both = np.concatenate([data.X_train, data.X_test])
    labels = np.concatenate([data.y_train, data.y_test])
    order, given = np.lexsort(both.T), np.lexsort(banking.X_train.T)
    np.testing.assert_array_equal(both[order], banking.X_train[given])
    np.testing.assert_array_equal(np.sort(labels), np.sort(banking.y_train))
    assert data.fingerprint != banking.fingerprint


def test_a_quarter_of_every_class_is_tested_always_the_same(banking):
    data = tuning.from_training_rows(banking)
    per_class = np.bincount(banking.y_train)
    np.testing.assert_array_equal(np.bincount(data.y_test), per_class // tuning.TESTED)
    assert data.fingerprint == tuning.from_training_rows(banking).fingerprint


def test_no_seed_that_is_tuned_on_is_reported_on():
    assert not set(tuning.SEEDS) & set(EXPERIMENTS["beyond"].seeds)


def test_settings_differ_from_the_chosen_one_in_one_place():
    (_, _, chosen), *others = tuning.settings()
    assert chosen == SYSTEMS[OURS].params
    for name, value, params in others:
        group, _, key = name.rpartition(".")
        inner = params[group] if group else params
        assert inner[key] == value
        old = chosen[group] if group else chosen
        assert inner[key] != old[key], f"{name} {value} is what is set already"
        restored = inner | {key: old[key]}
        assert (params | {group: restored} if group else restored) == chosen


def test_a_setting_that_does_not_exist_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(tuning, "ALTERNATIVES", {"model.flor": (1.0,)})
    with pytest.raises(InputError, match="setting.*'flor'.*floor"):
        tuning.settings()


@pytest.fixture
def small(tiny, monkeypatch):
    """Two settings on a small dataset; returns a function that counts the runs it takes."""
    monkeypatch.setattr(tuning, "load", lambda name, encoder: tiny)
    monkeypatch.setattr(tuning, "ALTERNATIVES", {"new_odds": (1.0,)})
    monkeypatch.setattr(tuning, "make_scenario", lambda data, seed, cap: make_scenario(data, seed, held_out=3, cap=cap))
    calls, accuracy = [], tuning.accuracy
    monkeypatch.setattr(tuning, "accuracy", lambda *a: calls.append(a) or accuracy(*a))

    def run(cache, seeds=(0, 1)):
        calls.clear()
        return tuning.tune(("tiny",), ("oracle",), seeds, cache=cache, progress=False), len(calls)

    return run


def test_a_stopped_tuning_goes_on_and_comes_out_the_same(small, tmp_path):
    part, calls = small(tmp_path, seeds=(1,))
    assert calls == len(part) == 2
    whole, calls = small(tmp_path)
    assert calls == 2 and len(whole) == 4
    fresh, calls = small(None)
    assert calls == 4
    pd.testing.assert_frame_equal(whole, fresh)


def test_rows_say_what_was_set_and_what_came_out(small):
    frame, _ = small(None)
    assert list(frame) == [*tuning.SETTING, "novel", "original"]
    assert frame["chosen"].sum() == 2 and (frame.loc[frame["chosen"], "parameter"] == "").all()
    assert frame[["novel", "original"]].stack().between(0, 1).all()
