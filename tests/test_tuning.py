import numpy as np
import pandas as pd
import pytest

from ocrrlib import results
from ocrrlib.errors import InputError
from ocrrlib.experiments import EXPERIMENTS, OURS
from ocrrlib.files import ROOT
from ocrrlib.scenario import make_scenario
from ocrrlib.statistics.bar import AXES
from ocrrlib.statistics.noninferiority import noninferiority
from ocrrlib.systems import SYSTEMS
from ocrrlib.tuning import held_out, objective, one_at_a_time, rated, search, space


def spaced(monkeypatch, values):
    """Search these values only."""
    for module in (space, search, one_at_a_time):
        monkeypatch.setattr(module, "SPACE", values)


def as_set(X):
    return {row.tobytes() for row in X}


def test_tuning_sees_training_rows_only_each_once(banking):
    data = held_out.from_training_rows(banking, 0)
    assert len(data.y_train) + len(data.y_test) == len(banking.y_train)
    both = np.concatenate([data.X_train, data.X_test])
    labels = np.concatenate([data.y_train, data.y_test])
    order, given = np.lexsort(both.T), np.lexsort(banking.X_train.T)
    np.testing.assert_array_equal(both[order], banking.X_train[given])
    np.testing.assert_array_equal(np.sort(labels), np.sort(banking.y_train))
    assert data.fingerprint != banking.fingerprint


def test_a_quarter_of_every_class_is_tested_and_all_rows_over_the_folds(banking):
    folds = [held_out.from_training_rows(banking, fold) for fold in range(held_out.FOLDS)]
    per_class = np.bincount(banking.y_train)
    for data in folds:
        assert (abs(np.bincount(data.y_test) - per_class / held_out.FOLDS) < 1).all()
    tested = np.concatenate([data.X_test for data in folds])
    np.testing.assert_array_equal(tested[np.lexsort(tested.T)], banking.X_train[np.lexsort(banking.X_train.T)])
    assert folds[0].fingerprint == held_out.from_training_rows(banking, 0).fingerprint


@pytest.mark.parametrize("times", [0, 1, 2])
def test_halves_are_of_one_size_hold_each_row_once_and_do_not_depend_on_order(times, banking):
    places = np.flatnonzero(banking.y_train == 5)
    parts = held_out.halves(banking.X_train, places, times)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), places)
    assert len(parts) == 2**times and max(map(len, parts)) - min(map(len, parts)) <= 1
    again = held_out.halves(banking.X_train, np.random.default_rng(0).permutation(places), times)
    assert [set(part.tolist()) for part in parts] == [set(part.tolist()) for part in again]


def test_a_fourth_of_a_class_of_what_belongs_nowhere_lies_apart_from_the_rest(banking, monkeypatch):
    def nearest(fold):
        """Mean cosine of a class's test rows with the nearest of its training rows."""
        data = held_out.from_training_rows(banking, fold)
        return np.mean((data.X_test[data.y_test == 5] @ data.X_train[data.y_train == 5].T).max(axis=1))

    at_random = np.mean([nearest(fold) for fold in range(held_out.FOLDS)])
    monkeypatch.setattr(held_out, "CATCH_ALL", banking.classes[5])
    assert np.mean([nearest(fold) for fold in range(held_out.FOLDS)]) < at_random - 0.01
    folds = [held_out.from_training_rows(banking, fold) for fold in range(held_out.FOLDS)]
    counts = [np.bincount(data.y_test)[5] for data in folds]
    assert sum(counts) == np.count_nonzero(banking.y_train == 5) and max(counts) - min(counts) <= 1


def test_no_seed_that_is_tuned_on_is_reported_on():
    assert not set(rated.SEEDS) & set(EXPERIMENTS["beyond"].seeds)


def test_settings_differ_from_the_chosen_one_in_one_place():
    (_, _, chosen), *others = one_at_a_time.settings()
    assert chosen == SYSTEMS[OURS].params
    for name, value, params in others[len(one_at_a_time.left_out(chosen)) :]:
        group, _, key = name.rpartition(".")
        inner = params[group] if group else params
        assert inner[key] == value
        old = chosen[group] if group else chosen
        assert inner[key] != old[key], f"{name} {value} is what is set already"
        restored = inner | {key: old[key]}
        assert (params | {group: restored} if group else restored) == chosen


def test_each_reader_is_left_out_once_and_the_others_keep_their_proportions():
    chosen = SYSTEMS[OURS].params
    weights = {}
    for name, params in one_at_a_time.left_out(chosen).items():
        near, kernel, head = (params[f"{reader}_weight"] for reader in ("neighbour", "kernel", "head"))
        weights[name] = np.array([1 - near - kernel, kernel, near, head])
    near, kernel, head = (chosen[f"{reader}_weight"] for reader in ("neighbour", "kernel", "head"))
    usual = np.array([1 - near - kernel, kernel, near, head])
    for out, (name, found) in enumerate(weights.items()):
        assert found[out] == pytest.approx(0) and found[:3].sum() == pytest.approx(1), name
        rest = [place for place in range(3) if place != out]
        np.testing.assert_allclose(found[rest] / usual[rest], (found[rest] / usual[rest])[0])
    others = {key: value for key, value in chosen.items() if not key.endswith("_weight")}
    for params in one_at_a_time.left_out(chosen).values():
        assert {key: params[key] for key in others} == others


def test_a_setting_that_does_not_exist_is_one_clear_error(monkeypatch):
    spaced(monkeypatch, {"model.flor": (1.0,)})
    with pytest.raises(InputError, match="setting.*'flor'.*floor"):
        one_at_a_time.settings()


@pytest.fixture
def small(tiny, monkeypatch):
    """A few settings on a small dataset; returns a function that counts the runs it takes."""
    monkeypatch.setattr(rated, "load", lambda name, encoder: tiny)
    spaced(monkeypatch, {"head_weight": (0.123,)})
    monkeypatch.setattr(held_out, "make_scenario", lambda *a, cap: make_scenario(*a, held_out=3, cap=cap))
    calls, accuracy = [], held_out.accuracy
    monkeypatch.setattr(rated, "accuracy", lambda *a: calls.append(a) or accuracy(*a))

    def run(cache, seeds=(0, 1)):
        calls.clear()
        return one_at_a_time.tune(("tiny",), ("oracle",), seeds, cache=cache, progress=False), len(calls)

    return run


def test_a_stopped_tuning_goes_on_and_comes_out_the_same(small, tmp_path):
    n = len(one_at_a_time.settings())
    part, calls = small(tmp_path, seeds=(1,))
    assert calls == len(part) == n
    whole, calls = small(tmp_path)
    assert calls == n and len(whole) == 2 * n
    fresh, calls = small(None)
    assert calls == 2 * n
    pd.testing.assert_frame_equal(whole, fresh)


def test_rows_say_what_was_set_and_what_came_out(small):
    frame, _ = small(None)
    assert list(frame) == [*one_at_a_time.SETTING, "novel", "original"]
    assert frame["chosen"].sum() == 2 and (frame.loc[frame["chosen"], "parameter"] == "").all()
    assert frame[["novel", "original"]].stack().between(0, 1).all()


def test_a_row_counts_so_that_classes_weigh_as_in_the_real_test_rows(banking):
    own = held_out.from_training_rows(banking, 1)
    weights = held_out.row_weights(banking, own)
    total = np.bincount(own.y_test, weights[own.y_test])
    np.testing.assert_allclose(total, np.bincount(banking.y_test))


def test_settings_are_drawn_from_the_space_each_once_and_always_the_same():
    found = space.drawn(50)
    assert found == space.drawn(50) and found[:20] == space.drawn(20)
    assert len({str(one) for one in found}) == 50
    assert all(one[name] in values for one in found for name, values in space.SPACE.items())
    for name, value in found[0].items():
        assert space.value_of(space.entry_of(found[0]).params, name) == value


def rows_of(**systems):
    """Rows of two seeds in one cell, from accuracies (novel, original)."""
    return pd.DataFrame(
        [
            dict(system=name, dataset="banking77", policy="oracle", seed=seed, novel=novel, original=original)
            for name, (novel, original) in systems.items()
            for seed in (1000, 1001)
        ]
    )


def test_the_objective_is_the_distance_to_the_best_on_the_axis_where_it_is_largest():
    rows = rows_of(
        static_linear=(0, 0.9), ncm=(0.8, 0.88), slda=(0.9, 0.86), lwf=(1.0, 0.2), a=(0.86, 0.91), b=(0.9, 0.9)
    )
    found = objective.behind(rows, ["a", "b"])  # lwf has collapsed
    assert list(found.index) == ["b", "a"] and found.tolist() == pytest.approx([0, 0.04])
    assert objective.behind(rows_of(static_linear=(0, 0.9), a=(0.8, 0.93)), ["a"])["a"] == pytest.approx(-0.03)


def test_with_seeds_enough_the_objective_takes_the_bound_that_the_bar_takes():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        [
            dict(zip(search.SEARCHED, (name, "clinc150", policy, seed))) | dict(zip(AXES, rng.normal(0.9, 0.01, 2)))
            for name in ("static_linear", "ncm", "slda", "a", "b")
            for policy in ("oracle", "random10")
            for seed in range(8)
        ]
    )
    found = objective.behind(rows, ["a", "b"])
    for name, other in ("ab", "ba"):
        assert found[name] == pytest.approx(-noninferiority(rows[rows["system"] != other], name)["low"].min())


@pytest.fixture
def searched(small, monkeypatch):
    """A search in a small space: ``searched(**parameters)``."""
    values = {"k": (3, 5, 12), "new_odds": (1.0, 2.0), "model.floor": (0.1, 0.2)}
    monkeypatch.setattr(search, "RIVALS", ("static_linear", "ncm", "substrate"))
    spaced(monkeypatch, values)
    monkeypatch.setattr(search, "BEFORE", {"k": 5, "new_odds": 1.0, "model.floor": 0.1})
    how = dict(datasets=("tiny",), seeds=(0, 1), progress=False)
    how |= dict(rounds=((4, 1), (2, 2)), climb=((99, 1), (1, 2)), climbs=1, last=(2, 2))
    return lambda **changed: search.search(**how | changed)


def test_a_search_goes_on_where_it_was_stopped_and_its_winner_went_through_all_rounds(searched, tmp_path):
    part = searched(rounds=((4, 1),), climbs=0, last=(2, 1), cache=tmp_path)
    drawn = searched(climbs=0, cache=tmp_path)
    rows = searched(cache=tmp_path)
    pd.testing.assert_frame_equal(rows, searched(cache=None))
    new = sum(setting != search.BEFORE for setting in space.drawn(4))
    assert len(part) == 3 * (3 + 1 + new) and len(drawn) == 3 * (2 * 3 + 2 * 1 + new + 2)
    pd.testing.assert_frame_equal(rows[: len(drawn)], drawn)
    best = search.winner(rows)
    through = rows[rows["k"].notna() & (rows["seed"] == 1)]
    assert best in through[list(best)].drop_duplicates().to_dict("records")


def test_a_search_begins_with_what_was_chosen_before_and_ends_where_no_step_is_better(searched):
    values = space.SPACE
    assert {name: value in values[name] for name, value in search.BEFORE.items()} == dict.fromkeys(values, True)
    drawn = searched(rounds=((4, 2),), climbs=0)
    assert drawn.loc[drawn["system"] == f"{OURS} 0", list(values)].iloc[0].to_dict() == search.BEFORE
    rows = searched(climbs=9)
    tried = rows[list(values)].dropna().drop_duplicates().to_dict("records")
    assert all(step in tried for step in space.one_step(search.winner(rows)))


def test_the_best_settings_and_what_was_chosen_before_are_decided_between_on_more_seeds(searched):
    few, rows = searched(seeds=(0, 1, 2)), searched(seeds=(0, 1, 2), last=(2, 3))
    best, before = search.ranked(few)[:2], f"{OURS} 0"
    pd.testing.assert_frame_equal(rows[: len(few)], few)
    last = rows[rows["seed"] == 2]
    assert set(last["system"]) == {*search.RIVALS, *best, before}
    assert set(search.ranked(rows)) == {*best, before}
    everywhere = rows[rows["system"].isin(last["system"])]
    found = objective.behind(everywhere, sorted({*best, before}))
    assert search.winner(rows) == rows[rows["system"] == found.index[0]].iloc[0][list(space.SPACE)].to_dict()


def test_what_was_chosen_before_lies_in_the_space_that_is_searched():
    assert list(space.BEFORE) == list(space.SPACE)
    assert all(value in space.SPACE[name] for name, value in space.BEFORE.items())


def test_single_steps_are_tried_from_the_best_and_never_lose_it(searched):
    drawn, rows = searched(climbs=0), searched(climbs=1)
    before, names = search.winner(drawn), list(space.SPACE)
    tried = rows[names].dropna().drop_duplicates().to_dict("records")
    assert all(step in tried for step in space.one_step(before))
    of = {str(setting): name for name, *setting in rows.dropna()[["system", *names]].drop_duplicates().values.tolist()}
    both = [of[str([float(value) for value in one.values()])] for one in (before, search.winner(rows))]
    compared = rows[rows["k"].isna() | rows["system"].isin(both)]
    found = objective.behind(compared, list(dict.fromkeys(both)))
    assert found[both[1]] <= found[both[0]]


def test_our_system_is_set_as_the_published_search_found():
    best = search.winner(results.read(ROOT / "data/results/search.parquet")[0])
    chosen = SYSTEMS[OURS].params
    assert {name: space.value_of(chosen, name) for name in best} == best
