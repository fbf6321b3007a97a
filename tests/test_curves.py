"""The novel-original curve equals brute force, and is the same however a system is asked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib.metrics import (
    best_known_and_new,
    common_share,
    curve,
    depths,
    heights,
    share,
    summary,
)
from ocrrlib.scenario import make_scenario
from ocrrlib.systems.neighbours import KNNLM, Neighbours
from ocrrlib.voting import softmax
from tests.samples import CONTRACT, VOTING, fitted, teach

NEW = np.array([False, False, True, True])


def over(p, y, n, new=NEW):
    with np.errstate(divide="ignore"):
        return heights(*best_known_and_new(np.log(p), new), y, n)


def corners(p, y, n, new):
    """Right novel and right original rows for every constant that matters, by plain Python."""
    with np.errstate(divide="ignore"):
        logs = np.log(p)
    gaps = {
        float(np.round(b - a, 9))
        for a in logs[:, ~new].ravel()
        for b in logs[:, new].T.ravel()
        if a > -np.inf
    }
    found = set()
    for constant in sorted(-gap for gap in gaps if gap > -np.inf):
        for c in (np.nextafter(constant, -np.inf) - 1e-7, constant + 1e-7):
            right = [0, 0]
            for row, (values, label) in enumerate(zip(logs, y)):
                moved = np.where(new, values + c, values)
                right[row >= n] += int(moved.argmax() == label and moved[label] > -np.inf)
            found.add(tuple(right))
    return found


tables = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@given(rng=tables, n=st.integers(1, 6), m=st.integers(1, 6), coarse=st.booleans())
def test_corners_are_the_best_of_all_constants(rng, n, m, coarse):
    p = rng.integers(0, 4, (n + m, 4)).astype(float) if coarse else rng.random((n + m, 4))
    p[:, 0] += 1e-3  # some class has a probability
    p = p / p.sum(axis=1, keepdims=True)
    y = np.concatenate([rng.integers(2, 4, n), rng.integers(0, 2, m)])
    found = over(p, y, n)
    tried = corners(p, y, n, NEW)
    best = {}
    for novel, original in tried:
        best = {k: max(best.get(k, 0), original) for k in range(1, novel + 1)} | {
            k: v for k, v in best.items() if k > novel
        }
    novel, original = curve(found, m)
    np.testing.assert_array_equal(original * m, [best[k] for k in range(1, len(novel) + 1)])
    assert len(novel) == max(best, default=0)
    hm = max((2 * a * b / (a * m + b * n) for a, b in tried if a * b), default=0)
    assert summary(found, m)["best_hm"] == pytest.approx(hm)
    assert summary(found, m)["ausuc"] == pytest.approx(sum(best.values()) / (n * m))


@given(rng=tables, n=st.integers(1, 6), m=st.integers(1, 6))
def test_depths_count_the_pairs_of_the_curve_by_original_row(rng, n, m):
    p = rng.integers(0, 4, (n + m, 4)) + 1e-3
    y = np.concatenate([rng.integers(2, 4, n), rng.integers(0, 2, m)])
    best = best_known_and_new(np.log(p), NEW)
    found = depths(*best, y, n)
    # The curve over some of the original rows is that of a test set with these alone.
    some = rng.random(m) < 0.5
    kept = np.append(np.ones(n, bool), some)
    alone = heights(*(part[kept] for part in best), y[kept], n)
    assert found[some & (found >= 0)].sum() == alone[alone >= 0].sum()
    np.testing.assert_array_equal(found >= 0, best[0][n:] == y[n:])


def test_area_is_foot_times_share_and_a_share_is_compared_on_common_rows():
    # Rows of a curve with three original rows, one of them wrong among known classes
    best = np.array([0, 0, 0, 0, 1]), np.array([2, 2, 2, 2, 2]), np.array([3.0, 1.0, 0.0, 2.0, 0.5])
    y = np.array([2, 2, 0, 0, 0])
    found = heights(*best, y, 2)
    assert found.tolist() == [2, 1] and depths(*best, y, 2).tolist() == [2, 1, -1]
    assert share(found) == 3 / 4
    assert summary(found, 3)["ausuc"] == pytest.approx(2 / 3 * share(found))
    own = np.array([2, 1, -1])
    assert common_share(own, np.array([0, -1, 2]), 2) == 1.0
    assert common_share(own, own, 2) == share(found)
    assert np.isnan(common_share(own, np.array([-1, -1, 1]), 2))
    assert np.isnan(share(np.array([-1, 0])))


def from_all_entries(system, X):
    """Log-probabilities of rows from the nearest entry of each class, by plain Python."""
    if not isinstance(system, (Neighbours, KNNLM)):
        return system._log_probabilities(system._evidence(X))
    entries = system.entries
    cosines = np.full((len(X), system.n_classes), -np.inf)
    for x, own in zip(X.astype(np.float64), cosines):
        for entry, label in zip(entries.X.astype(np.float64), entries.y):
            own[label] = max(own[label], x @ entry)
    if isinstance(system, Neighbours):
        return cosines
    p = softmax(system._scores(X)) / 2 + softmax(cosines / 0.1) / 2
    with np.errstate(divide="ignore"):
        return np.log(np.where(system.seen, p, 0))


@pytest.mark.parametrize("name", CONTRACT)
def test_watched_curves_are_those_of_probabilities_and_hold_the_declared_point(name, tiny):
    s = make_scenario(tiny, 0, held_out=4, cap=None)
    system = fitted(name, s)
    n = len(s.y_novel)
    watched = system.watch(s.queries)
    new = np.isin(np.arange(12), s.held_out)
    rows = np.arange(len(s.y_stream), len(s.queries))
    y = np.append(s.y_novel, s.y_original)
    for part in (0, 12, 24):
        teach(system, zip(s.X_stream[part : part + 12], s.y_stream[part : part + 12].tolist()))
        answers = watched.answers(rows)
        np.testing.assert_array_equal(answers, system.predict(s.queries[rows]))
        own = heights(*best_known_and_new(watched.log_probabilities(rows), new), y, n)
        # On so few rows its published penalty overshoots, and probabilities are rounded to zero.
        if name != "ewc":
            np.testing.assert_array_equal(
                own, over(system.predict_proba(s.queries[rows]), y, n, new)
            )
        whole = watched.whole_log_probabilities(rows)
        np.testing.assert_array_equal(
            heights(*best_known_and_new(whole, new), y, n),
            heights(*best_known_and_new(from_all_entries(system, s.queries[rows]), new), y, n),
        )
        if name not in VOTING:
            novel, original = np.split(answers == y, [n])
            down = np.append(np.append(len(s.y_original), -np.sort(-own[own >= 0])), 0)[
                novel.sum() :
            ]
            assert down[1] <= original.sum() <= down[0]
