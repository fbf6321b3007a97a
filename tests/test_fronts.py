"""Fronts: by definition, on runs with known winners."""

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from studies.fronts import means, on_front


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
