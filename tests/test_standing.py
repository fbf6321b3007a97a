"""Standing scores and products: at any time those computed anew, from no more than what changed."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib.systems.standing import Moves, StandingProducts, StandingScores

N, CLASSES = 6, 5


class Changing:
    """Scores that are drawn anew for a class whenever it changes, and a record of who asked for what."""

    def __init__(self):
        self.rng, self.changes, self.calls = np.random.default_rng(0), [], []
        self.table = self.rng.normal(size=(N, CLASSES))
        self.standing = StandingScores(self.score, N, CLASSES, self.changes)

    def score(self, rows, classes):
        self.calls.append((rows.tolist(), classes.tolist()))
        return self.table[np.ix_(rows, classes)]

    def change(self, label):
        self.table[:, label] = self.rng.normal(size=N)
        self.changes.append(label)

    def ask(self, *rows):
        """What was scored to answer these rows."""
        self.calls.clear()
        np.testing.assert_array_equal(self.standing(np.array(rows, int)), self.table[list(rows)])
        return self.calls


change = st.integers(0, CLASSES - 1)
ask = st.lists(st.integers(0, N - 1), max_size=2 * N)


@given(st.lists(change | ask, max_size=40))
def test_scores_equal_those_computed_anew_after_any_changes_and_queries(steps):
    scores, last = Changing(), {}
    for step in steps:
        if isinstance(step, int):
            scores.change(step)
            continue
        scored = {(row, label) for rows, classes in scores.ask(*step) for row in rows for label in classes}
        missed = {row: scores.changes[last[row] :] if row in last else range(CLASSES) for row in step}
        assert scored == {(row, label) for row, labels in missed.items() for label in labels}
        last.update(dict.fromkeys(step, len(scores.changes)))


def test_only_changed_classes_are_scored_again_and_once_each():
    scores, everything = Changing(), list(range(CLASSES))
    assert scores.ask(0, 3) == [([0, 3], everything)]
    assert scores.ask(0, 3) == []
    for label in (4, 1, 4):
        scores.change(label)
    assert scores.ask(3) == [([3], [1, 4])]
    scores.change(2)
    assert sorted(scores.ask(0, 3, 5)) == [([0], [1, 2, 4]), ([3], [2]), ([5], everything)]


def test_answers_are_copies():
    scores = Changing()
    rows = np.array([1, 2])
    scores.standing(rows)[:] = np.nan
    np.testing.assert_array_equal(scores.standing(rows), scores.table[rows])


class Moving:
    """Weights that move, and how many rows were multiplied with all of them."""

    def __init__(self, n_classes=4, dim=3):
        self.rng = np.random.default_rng(1)
        self.Z, self.W = self.rng.normal(size=(N, dim)), self.rng.normal(size=(n_classes, dim))
        self.moves, self.whole = Moves(n_classes, dim), 0
        self.standing = StandingProducts(self.Z, self.weights, self.moves)

    def weights(self):
        self.whole += 1
        return self.W

    def move(self):
        left, right = self.rng.normal(size=len(self.W)), self.rng.normal(size=self.Z.shape[1])
        self.W = self.W + np.multiply.outer(left, right)
        self.moves.add(left, right)

    def restart(self):
        self.W = self.rng.normal(size=self.W.shape)
        self.moves.restart()

    def ask(self, rows):
        np.testing.assert_allclose(self.standing(np.array(rows, int)), self.Z[rows] @ self.W.T, rtol=0, atol=1e-9)


@given(st.lists(st.sampled_from(["move", "restart"]) | ask, max_size=40))
def test_products_equal_those_computed_anew_after_any_moves_and_queries(steps):
    moving = Moving()
    for step in steps:
        moving.ask(step) if isinstance(step, list) else getattr(moving, step)()


def test_products_are_made_whole_only_at_first_after_a_restart_and_when_too_much_was_missed():
    moving = Moving(n_classes=8, dim=8)  # four terms cost as much as all weights
    rows = list(range(N))
    moving.whole = 0
    for moves, whole in ((0, 1), (1, 1), (4, 1), (5, 2), (2, 2)):
        for _ in range(moves):
            moving.move()
        moving.ask(rows)
        assert moving.whole == whole
    moving.restart()
    moving.move()
    moving.ask(rows)
    moving.move()
    moving.ask(rows)
    assert moving.whole == 3
