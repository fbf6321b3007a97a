"""Scenarios: the published draws digit for digit, and nothing of the held-out classes at the start."""

import numpy as np
import pytest

from ocrrlib.files import InputError
from ocrrlib.scenario import PAPER_CAP, make_scenario


def published(data, seed, anew, cap):
    """Held-out ids and the row numbers of all four sets, drawn as the authors' code draws them."""
    rng = np.random.default_rng(seed)
    held = rng.choice(len(data.classes), 10, replace=False)
    if anew:
        rng = np.random.default_rng(seed)

    def numbers(labels, novel):
        return np.array([row for row, id in enumerate(labels.tolist()) if (id in held) == novel])

    def capped(rows):
        return rows if cap is None or len(rows) <= cap else rows[rng.choice(len(rows), cap, replace=False)]

    original = capped(numbers(data.y_test, False))
    novel = capped(numbers(data.y_test, True))
    stream = numbers(data.y_train, True)
    return held, numbers(data.y_train, False), stream[rng.permutation(len(stream))], novel, original


@pytest.mark.parametrize("draw", ["fresh", "continued"])
@pytest.mark.parametrize("cap", [PAPER_CAP, 60, None])  # 60 cuts the novel rows, too
@pytest.mark.parametrize("seed", [0, 1, 2, 11])
def test_draws_are_the_published_ones(banking, draw, cap, seed):
    s = make_scenario(banking, seed, draw=draw, cap=cap)
    held, initial, stream, novel, original = published(banking, seed, draw == "fresh", cap)
    np.testing.assert_array_equal(s.held_out, held)
    drawn = [("initial", "train", initial), ("stream", "train", stream)]
    drawn += [("novel", "test", novel), ("original", "test", original)]
    for name, split, rows in drawn:
        np.testing.assert_array_equal(getattr(s, f"X_{name}"), getattr(banking, f"X_{split}")[rows])
        np.testing.assert_array_equal(getattr(s, f"y_{name}"), getattr(banking, f"y_{split}")[rows])


@pytest.mark.parametrize("held_out", [1, 4, 11])
@pytest.mark.parametrize("seed", range(5))
def test_no_held_out_class_at_the_start(tiny, seed, held_out):
    s = make_scenario(tiny, seed, held_out=held_out)
    held = set(s.held_out.tolist())
    assert len(held) == held_out
    assert set(s.y_stream.tolist()) == set(s.y_novel.tolist()) == held
    assert set(s.y_initial.tolist()) == set(s.y_original.tolist()) == set(range(12)) - held


def test_thinning_keeps_every_so_many_th_training_row(tiny):
    s = make_scenario(tiny, 3, held_out=4, thin=3)
    held = np.isin(tiny.y_train[::3], s.held_out)
    np.testing.assert_array_equal(s.X_initial, tiny.X_train[::3][~held])
    assert sorted(s.y_stream) == sorted(tiny.y_train[::3][held])
    assert len(s.y_novel) == 4 * 6 and len(s.y_original) == 8 * 6


def test_scenario_cannot_be_written_to_and_leaves_the_data_alone(tiny):
    s = make_scenario(tiny, 0, held_out=4)
    for array in (s.X_initial, s.y_initial, s.X_stream, s.y_stream, s.y_novel, s.y_original, s.queries):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert tiny.X_train.flags.writeable and tiny.y_train.flags.writeable


WRONG = dict(draw="anew"), dict(seed=-1), dict(seed=0.5), dict(held_out=0), dict(held_out=12), dict(cap=0), dict(thin=0)


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_out_of_range_is_refused_in_one_line(tiny, wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(InputError, match=f"{name} '?{value}") as caught:
        make_scenario(tiny, **{"seed": 0, "held_out": 4} | wrong)
    assert "\n" not in str(caught.value)
