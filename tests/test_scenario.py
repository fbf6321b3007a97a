"""Scenarios: the published draws digit for digit; no held-out class is there at the start."""

import numpy as np
import pytest

from ocrrlib.files import InputError
from ocrrlib.scenario import PAPER_CAP, make_scenario


def published(data, seed, anew, cap, held_out=10, thin=1):
    """Held-out ids and the row numbers of all four sets, drawn as the authors' code draws them."""
    rng = np.random.default_rng(seed)
    held = rng.choice(len(data.classes), held_out, replace=False)
    if anew:
        rng = np.random.default_rng(seed)

    def numbers(labels, novel, thin=1):
        return np.array(
            [row for row in range(0, len(labels), thin) if (labels[row] in held) == novel]
        )

    def capped(rows):
        return (
            rows
            if cap is None or len(rows) <= cap
            else rows[rng.choice(len(rows), cap, replace=False)]
        )

    original = capped(numbers(data.y_test, False))
    novel = capped(numbers(data.y_test, True))
    stream = numbers(data.y_train, True, thin)
    return (
        held,
        numbers(data.y_train, False, thin),
        stream[rng.permutation(len(stream))],
        novel,
        original,
    )


# A cap of 60 cuts the novel rows, too.
@pytest.mark.parametrize("draw", ["fresh", "continued"])
@pytest.mark.parametrize(
    "how",
    [dict(cap=PAPER_CAP), dict(cap=60), dict(cap=None), dict(cap=None, held_out=76, thin=3)],
    ids=str,
)
@pytest.mark.parametrize("seed", [0, 1, 2, 11])
def test_draws_are_the_published_ones(banking, draw, how, seed):
    s = make_scenario(banking, seed, draw=draw, **how)
    held, initial, stream, novel, original = published(banking, seed, draw == "fresh", **how)
    np.testing.assert_array_equal(s.held_out, held)
    drawn = [("initial", "train", initial), ("stream", "train", stream)]
    drawn += [("novel", "test", novel), ("original", "test", original)]
    for name, split, rows in drawn:
        np.testing.assert_array_equal(getattr(s, f"X_{name}"), getattr(banking, f"X_{split}")[rows])
        np.testing.assert_array_equal(getattr(s, f"y_{name}"), getattr(banking, f"y_{split}")[rows])


def test_scenario_cannot_be_written_to_and_leaves_the_data_alone(tiny):
    s = make_scenario(tiny, 0, held_out=4)
    for array in (
        s.X_initial,
        s.y_initial,
        s.X_stream,
        s.y_stream,
        s.y_novel,
        s.y_original,
        s.queries,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert tiny.X_train.flags.writeable and tiny.y_train.flags.writeable


WRONG = (
    dict(draw="anew"),
    dict(seed=-1),
    dict(seed=0.5),
    dict(held_out=0),
    dict(held_out=12),
    dict(cap=0),
    dict(thin=0),
)


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_out_of_range_is_refused_in_one_line(tiny, wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(InputError, match=f"{name} '?{value}") as caught:
        make_scenario(tiny, **{"seed": 0, "held_out": 4} | wrong)
    assert "\n" not in str(caught.value)
