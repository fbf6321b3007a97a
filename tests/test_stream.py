"""The stream loop equals a naive one; checkpoints and draws stand where they should."""

from dataclasses import replace

import numpy as np
import pytest

from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import EVERY, run_stream
from ocrrlib.systems import make
from tests.samples import CONTRACT, new


@pytest.fixture(scope="module")
def s(tiny):
    """A stream of 120 items."""
    return make_scenario(tiny, 3, held_out=6, cap=30)


def mean(values):
    return sum(values) / len(values) if values else float("nan")


def play(system, s, corrected):
    """The protocol's checkpoints, row by row: numbers, and answers to the test rows."""
    n = len(s.y_stream)
    mistakes = 0
    asked_again = []  # row, label, and whether it was answered so at once
    checkpoints = []
    system.fit(s.X_initial, s.y_initial, s.classes)

    def answers(X):
        return [int(system.predict(x[None])[0]) for x in X]

    def test(step):
        found = (answers(s.X_novel), answers(s.X_original))
        held = system.storage()
        accuracies = [
            float(np.mean(part == y)) for part, y in zip(found, (s.y_novel, s.y_original))
        ]
        numbers = step, len(asked_again), *accuracies, held.entries, held.bytes, mistakes
        holds = [answers([x]) == [label] for x, label, _ in asked_again]
        at_once = [once for *_, once in asked_again]
        checkpoints.append((numbers, sum(found, []), mean(at_once), mean(holds)))

    test(0)
    for item, (x, label) in enumerate(zip(s.X_stream, s.y_stream.tolist())):
        if answers([x]) != [label]:
            mistakes += 1
            if corrected[item]:
                system.correct(x, label)
                asked_again.append((x, label, answers([x]) == [label]))
        if (item + 1) % 50 == 0 or item + 1 == n:
            test(item + 1)
    return checkpoints


@pytest.mark.parametrize("policy, p", [("oracle", 1), ("random50", 0.5), ("random10", 0.1)])
@pytest.mark.parametrize("name", CONTRACT)
def test_every_system_equals_a_plain_loop_that_asks_row_by_row(name, policy, p, s):
    fast = new(name)
    plain = new(name)
    expected = play(plain, s, np.random.default_rng([s.seed, 1]).random(len(s.y_stream)) < p)
    found = run_stream(fast, s, POLICIES[policy])
    for at, (numbers, answers, at_once, holds) in zip(found, expected, strict=True):
        assert tuple(at.scalars.values())[:7] == numbers
        assert at.answers.tolist() == answers
        assert (at.holds_at_once, at.holds) == pytest.approx((at_once, holds), nan_ok=True)
        assert np.count_nonzero(at.given != s.y_stream[: at.step]) == at.mistakes
    np.testing.assert_array_equal(fast.predict_proba(s.queries), plain.predict_proba(s.queries))


@pytest.mark.parametrize(
    "items, steps",
    [(0, [0]), (1, [0, 1]), (49, [0, 49]), (50, [0, 50]), (51, [0, 50, 51]), (100, [0, 50, 100])],
)
def test_checkpoints_are_at_the_start_every_50_items_and_at_the_end(items, steps, s):
    cut = replace(s, X_stream=s.X_stream[:items], y_stream=s.y_stream[:items])
    assert [
        c.step for c in run_stream(make("ncm"), cut, POLICIES["oracle"])
    ] == steps and EVERY == 50
