"""Pareto fronts: who dominates, who is dominated, whatever the order of systems; test rows drawn as they say."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocrrlib.errors import InputError
from ocrrlib.statistics import pareto
from ocrrlib.statistics.pareto import on_front
from ocrrlib.statistics.resampling import resampled_cells

points = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8)
SHARES = ["front_seeds", "front_rows", "front_both"]


def sweep(answers, seeds=4, n_novel=30, n_original=50, seed=0):
    """Runs and their rows; ``answers`` says how probable a right answer of each system is on the two axes."""
    rng, runs, rows = np.random.default_rng(seed), [], []
    for number in range(seeds):
        luck = rng.random(n_novel + n_original)  # of a test row, the same for all systems
        for system, (novel, original) in answers.items():
            right = luck < np.repeat([novel, original], [n_novel, n_original])
            run = {"dataset": "banking77", "policy": "oracle", "seed": number, "system": system}
            runs.append(run | {"novel": right[:n_novel].mean(), "original": right[n_novel:].mean()})
            packed = {"n_novel": n_novel, "n_original": n_original, "right": np.packbits(right).tobytes()}
            rows.append(run | packed)
    return pd.DataFrame(runs), pd.DataFrame(rows)


def apart(rows):
    """Places of test rows that no two seeds have in common."""
    split, n = rows["n_novel"].iloc[0], rows[["n_novel", "n_original"]].iloc[0].sum()
    return {("banking77", seed): tuple(np.split(seed * n + np.arange(n), [split])) for seed in range(20)}


def front_frequency(runs, rows=None, **more):
    return pareto.front_frequency(resampled_cells(runs, rows, None if rows is None else apart(rows), **more))


def frequency(answers, resamples=200, **more):
    return front_frequency(*sweep(answers, **more), resamples=resamples).set_index("system")


@given(points)
def test_the_front_is_what_no_other_dominates(drawn):
    novel, original = np.array(drawn, float).T
    expected = [not any(a >= x and b >= y and (a > x or b > y) for a, b in drawn) for x, y in drawn]
    assert on_front(novel, original).tolist() == expected and any(expected)
    stacked = on_front(np.stack([novel, original]), np.stack([original, novel]))
    assert stacked.tolist() == [expected, expected]


def test_what_differs_by_rounding_is_equal():
    assert on_front([0.1 + 0.2, 0.3], [0.5, 0.5]).tolist() == [True, True]


def test_who_dominates_is_always_on_the_front_and_who_is_dominated_never():
    found = frequency({"best": (0.9, 0.95), "middle": (0.5, 0.6), "worst": (0.1, 0.3)})
    assert found["front"].tolist() == [True, False, False]
    for share in SHARES:
        assert found[share].tolist() == [1, 0, 0]


def test_who_is_best_on_one_axis_is_on_the_front_and_equals_share_it():
    found = frequency({"novel": (0.9, 0.1), "original": (0.1, 0.9), "same": (0.1, 0.9)})
    assert (found[["front", *SHARES]] == 1).all(axis=None)


def test_equal_chances_are_on_the_front_in_some_resamples_only():
    runs, rows = sweep({"a": (0.5, 0.5), "b": (0.52, 0.5)}, seeds=3)
    rows["right"] = rows["right"].where(rows["system"] == "b", rows["right"].map(lambda packed: packed[::-1]))
    for i, packed in enumerate(rows["right"]):
        bits = np.unpackbits(np.frombuffer(packed, np.uint8))
        runs.loc[i, ["novel", "original"]] = bits[:30].mean(), bits[30:80].mean()
    found = front_frequency(runs, rows, resamples=500)
    assert ((found["front_rows"] > 0.1) & (found["front_both"] > 0.1)).all()
    assert found["front_rows"].min() < 1 and found["front_both"].min() < 1


@settings(max_examples=20)
@given(st.permutations(["a", "b", "c", "d"]))
def test_the_order_of_systems_does_not_matter(names):
    answers = {"a": (0.5, 0.55), "b": (0.55, 0.5), "c": (0.52, 0.52), "d": (0.4, 0.6)}
    plain = frequency(answers, resamples=50)
    runs, rows = sweep(answers)
    order = {name: at for at, name in enumerate(names)}
    mixed = [frame.sort_values("system", key=lambda s: s.map(order), kind="stable") for frame in (runs, rows)]
    other = front_frequency(*mixed, resamples=50).set_index("system")
    assert list(other.index) == names
    pd.testing.assert_frame_equal(other.loc[list(answers)], plain)


def test_the_seed_decides_and_without_rows_there_is_one_share():
    runs, rows = sweep({"a": (0.5, 0.55), "b": (0.55, 0.5), "c": (0.53, 0.53)})
    one, same = (front_frequency(runs, rows, resamples=100) for _ in range(2))
    pd.testing.assert_frame_equal(one, same)
    pd.testing.assert_frame_equal(front_frequency(runs, resamples=100), one[list(one)[:-2]])
    assert not front_frequency(runs, resamples=100, seed=1).equals(one[list(one)[:-2]])


def test_where_all_rows_of_a_seed_are_alike_only_seeds_matter():
    halves = {"a": (1, 0.0), "b": (0, 0.0)}, {"a": (0, 0.0), "b": (1, 0.0)}
    parts = [sweep(answers, seeds=2) for answers in halves]
    runs, rows = (
        pd.concat([part.assign(seed=part["seed"] + 2 * i) for i, part in enumerate(pair)]) for pair in zip(*parts)
    )
    found = front_frequency(runs, rows, resamples=500)
    assert found["front_rows"].tolist() == found["front"].tolist() == [1, 1]  # a draw, as the seeds are
    assert found["front_both"].tolist() == found["front_seeds"].tolist()
    # Two seeds of four favour a: it is on the front when at least half of the drawn ones do.
    np.testing.assert_allclose(found["front_seeds"], 11 / 16, atol=0.06)


def test_rows_of_other_runs_are_refused():
    runs, rows = sweep({"a": (0.5, 0.55), "b": (0.55, 0.5)})
    with pytest.raises(InputError, match="rows of seed 0 are not those of the results"):
        front_frequency(runs, sweep({"a": (0.1, 0.2), "b": (0.55, 0.5)})[1])
    with pytest.raises(InputError, match="rows of seed 2 are not those of the results"):
        front_frequency(runs, rows[rows["seed"] != 2])
    with pytest.raises(InputError, match="one bit for each row"):
        front_frequency(runs, rows.assign(right=rows["right"].map(lambda packed: packed + b"\0")))
    with pytest.raises(InputError, match="one bit for each row"):
        front_frequency(runs, rows.assign(n_novel=rows["n_novel"] + (rows["system"] == "a")))


def test_rows_that_seeds_have_in_common_are_drawn_once_for_all():
    runs, rows, bits = [], [], np.random.default_rng(1).random((2, 400)) < 0.5
    for seed in range(20):
        for system, right in zip("ab", bits):
            names = {"dataset": "banking77", "policy": "oracle", "seed": seed, "system": system}
            runs.append(names | {"novel": right[:150].mean(), "original": right[150:].mean()})
            rows.append(names | {"n_novel": 150, "n_original": 250, "right": np.packbits(right).tobytes()})
    runs, rows = pd.DataFrame(runs), pd.DataFrame(rows)
    same = {("banking77", seed): (np.arange(150), np.arange(150, 400)) for seed in range(20)}
    first = runs["seed"] == 0
    one = pareto.front_frequency(resampled_cells(runs[first], rows[first], same, resamples=1000))
    many = pareto.front_frequency(resampled_cells(runs, rows, same, resamples=1000))
    assert 0.05 < one["front_rows"].min() < 0.95
    np.testing.assert_allclose(many["front_rows"], one["front_rows"], atol=0.06)
    np.testing.assert_array_equal(many["front_rows"], many["front_both"])  # all seeds are one
    lucky = front_frequency(runs, rows, resamples=1000)  # as if each seed had rows of its own
    assert abs(lucky["front_rows"].min() - 0.5) > abs(one["front_rows"].min() - 0.5) + 0.1
