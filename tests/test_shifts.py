"""Shifts: the same rows in another order or fewer of them, and nothing else changes."""

import numpy as np
import pytest

from ocrrlib.errors import InputError
from ocrrlib.scenario import make_scenario, shuffled
from ocrrlib.shifts import DRIFTS, from_centre_outwards, keep_known

ARRAYS = [f"{axis}_{part}" for part in ("initial", "stream", "novel", "original") for axis in "Xy"]


@pytest.fixture(scope="module")
def s(banking):
    return make_scenario(banking, 0, cap=None)


def unchanged(one, two, *but):
    for name in ARRAYS:
        assert np.array_equal(getattr(one, name), getattr(two, name)) == (name not in but), name
    assert np.array_equal(one.held_out, two.held_out) and one.classes == two.classes and one.seed == two.seed


def distances(s, label):
    """From the centre of a class, of its rows in the order in which they stream by."""
    X = s.X_stream[s.y_stream == label].astype(np.float64)
    return np.linalg.norm(X - X.mean(axis=0), axis=1)


@pytest.mark.parametrize("how", DRIFTS)
def test_drift_changes_the_order_within_classes_only(how, s):
    other = from_centre_outwards(s, how)
    unchanged(s, other, "X_stream")
    for label in s.held_out:
        rows = [sorted(map(bytes, one.X_stream[one.y_stream == label])) for one in (s, other)]
        assert rows[0] == rows[1]
    np.testing.assert_array_equal(other.X_stream, from_centre_outwards(s, how).X_stream)
    np.testing.assert_array_equal(other.queries[: len(s.y_stream)], other.X_stream)


def test_gradual_drift_goes_from_the_centre_outwards(s):
    drifting = from_centre_outwards(s, "gradual")
    for label in s.held_out:
        assert (np.diff(distances(drifting, label)) >= -1e-9).all()


def test_abrupt_drift_ends_with_the_outer_half_and_recurring_drift_returns(s):
    abrupt, recurring = (from_centre_outwards(s, how) for how in ("abrupt", "recurring"))
    for label in s.held_out:
        d = distances(abrupt, label)
        m = len(d) // 2
        assert d[:m].max() <= d[m:].min() + 1e-9
        assert (np.diff(d[:m]) < 0).any()
        quarters = [part.mean() for part in np.array_split(distances(recurring, label), 4)]
        assert max(quarters[0], quarters[2]) < min(quarters[1], quarters[3])


@pytest.mark.parametrize("n", [1, 10, 67])
def test_known_classes_can_be_fewer_and_fewer_are_among_more(n, s):
    fewer = keep_known(s, n)
    kept = set(fewer.y_initial.tolist())
    assert len(kept) == n and kept <= set(s.y_initial.tolist())
    assert set(fewer.y_original.tolist()) == kept and kept <= set(keep_known(s, min(n + 5, 67)).y_initial.tolist())
    gone = [] if n == 67 else ["X_initial", "y_initial", "X_original", "y_original"]
    unchanged(s, fewer, *gone)
    np.testing.assert_array_equal(fewer.X_initial, s.X_initial[np.isin(s.y_initial, list(kept))])


def test_shifts_compose(s):
    one = keep_known(shuffled(from_centre_outwards(s, "abrupt")), 5)
    assert len(set(one.y_initial.tolist())) == 5 and not np.array_equal(one.X_stream, s.X_stream)


def test_what_does_not_exist_is_refused(s):
    with pytest.raises(InputError, match="abrupt, gradual, recurring"):
        from_centre_outwards(s, "sudden")
    for n in (0, 68):
        with pytest.raises(InputError, match=f"keep {n} known classes of 67"):
            keep_known(s, n)
