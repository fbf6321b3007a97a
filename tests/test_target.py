"""Fronts and the target: by definition, on runs with known winners."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib.experiments import OURS
from studies.statistics import REFERENCE
from studies.target import FROZEN_HEAD, means, on_front, target


def runs(seeds=2, **systems):
    """Runs by system: both accuracies, each a number for all seeds or one for each."""
    rows = [
        dict(dataset="banking77", policy="oracle", seed=seed, system=system)
        | {
            name: np.broadcast_to(one, seeds)[seed]
            for name, one in zip(("novel", "original"), values)
        }
        for system, values in systems.items()
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows)


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
    even = runs(4, static_linear=(0, 0.4), a=(novel, 0.5), b=(novel[::-1], 0.5))
    found = means(even).set_index("system")
    assert (
        found["front"].tolist() == [False, True, True]
        and found["front_seeds"]["static_linear"] == 0
    )
    np.testing.assert_allclose(found["front_seeds"][["a", "b"]], 11 / 16, atol=0.04)


def judged(time=2.0, memory=2.0, **changes):
    """The target for ours, one cell of three systems and two seeds, with some columns changed."""
    ours = {"ausuc": 0.80, "start": 0.90, "holds_at_once": 1.0, "holds": 0.99} | changes
    systems = {
        OURS: ours | {"storage_bytes": memory},
        "klda": {"ausuc": 0.81, "start": 0.90, "storage_bytes": 9.0},
        REFERENCE: {"ausuc": 0.70, "start": 0.95, "storage_bytes": 1.0},
        FROZEN_HEAD: {"ausuc": 0.00, "start": 0.91, "storage_bytes": 0.1},
    }
    rows = [
        {"dataset": "banking77", "policy": "oracle", "seed": seed, "system": name}
        | {column: value + 0.01 * (seed - 0.5) for column, value in columns.items()}
        for name, columns in systems.items()
        for seed in (0, 1)
    ]
    return target(pd.DataFrame(rows), {"banking77": time}).iloc[0]


def test_the_target_is_met_at_its_margins():
    found = judged()
    assert found["all"] and found["rival"] == "klda"
    assert found[["area", "start"]].tolist() == pytest.approx([-0.01, -0.01])
    assert found[["memory", "time"]].tolist() == pytest.approx([2, 2])


@pytest.mark.parametrize(
    "part, changed",
    [
        ("near", dict(ausuc=0.799)),
        ("keeps", dict(start=0.899)),
        ("held", dict(holds=0.98)),
        ("held", dict(holds_at_once=0.98)),
        ("affordable", dict(memory=2.1)),
        ("affordable", dict(time=2.1)),
        ("affordable", dict(time=np.nan)),  # it is not known
    ],
)
def test_each_part_of_the_target_can_fail_and_then_the_whole_does(part, changed):
    found = judged(**changed)
    missed = [name for name in ("near", "keeps", "held", "affordable") if not found[name]]
    assert missed == [part] and not found["all"]
