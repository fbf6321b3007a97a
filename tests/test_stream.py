"""The stream loop: its fast path equals a naive one at every step, checkpoints and draws stand where they should."""

from dataclasses import replace

import numpy as np
import pytest
from test_systems import CONTRACT, new

from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import EVERY, Checkpoint, run_stream
from ocrrlib.systems import make


@pytest.fixture(scope="module")
def s(banking):
    """Banking77, seed 0, cut short."""
    whole = make_scenario(banking, 0, cap=60)
    return replace(whole, X_stream=whole.X_stream[:130], y_stream=whole.y_stream[:130])


@pytest.fixture(scope="module")
def small(tiny):
    return make_scenario(tiny, 3, held_out=4, cap=30)


class Recorder:
    """Notes every prediction that the loop asks of a system, and every correction that it makes."""

    def __init__(self, system):
        self.system, self.predictions, self.corrections = system, [], []
        self.fit, self.storage = system.fit, system.storage

    def watch(self, Q):
        self.watched = self.system.watch(Q)
        return self

    def answers(self, rows):
        self.predictions.append((rows.tolist(), self.watched.answers(rows).tolist()))
        return self.watched.answers(rows)

    def rivals(self, rows, new):
        answers, found = self.watched.rivals(rows, new)
        self.predictions.append((rows.tolist(), answers.tolist()))
        return answers, found

    def correct(self, x, y):
        self.corrections.append((x.tolist(), y))
        self.system.correct(x, y)


def play(system, s, corrected):
    """The protocol, row by row and without ``watch``: predictions asked for, corrections made, checkpoints."""
    n, system = len(s.y_stream), system.fit(s.X_initial, s.y_initial, s.classes)

    def answer_to(row):
        return int(system.predict(s.queries[row : row + 1])[0])

    novel = range(n, n + len(s.y_novel))
    original = range(n + len(s.y_novel), len(s.queries))
    predictions, corrections, checkpoints = [], [], []

    def test(step):
        accuracies, asked = [], ([], [])
        for rows, y in ((novel, s.y_novel), (original, s.y_original)):
            answers = [answer_to(row) for row in rows]
            asked = asked[0] + list(rows), asked[1] + answers
            accuracies.append(sum(a == b for a, b in zip(answers, y.tolist())) / len(y))
        predictions.append(asked)
        checkpoints.append((step, mistakes, len(corrections), *accuracies))

    mistakes = 0
    test(0)
    for item in range(n):
        label, answer = int(s.y_stream[item]), answer_to(item)
        predictions.append(([item], [answer]))
        mistakes += answer != label
        if answer != label and corrected[item]:
            system.correct(s.X_stream[item], label)
            corrections.append((s.X_stream[item].tolist(), label))
        if (item + 1) % 50 == 0 or item + 1 == n:
            test(item + 1)
    return predictions, corrections, checkpoints


@pytest.mark.parametrize("policy, p", [("oracle", 1), ("random50", 0.5), ("random10", 0.1)])
@pytest.mark.parametrize("name", CONTRACT)
def test_every_system_equals_a_plain_loop_that_asks_row_by_row(name, policy, p, small):
    recorder = Recorder(new(name))
    checkpoints = list(run_stream(recorder, small, POLICIES[policy]))
    corrected = np.random.default_rng([small.seed, 1]).random(len(small.y_stream)) < p
    predictions, corrections, expected = play(new(name), small, corrected)
    assert recorder.predictions == predictions
    assert recorder.corrections == corrections
    assert [(c.step, c.mistakes, c.corrections, c.novel_acc, c.original_acc) for c in checkpoints] == expected


@pytest.mark.parametrize(
    "items, steps",
    [(0, [0]), (1, [0, 1]), (49, [0, 49]), (50, [0, 50]), (51, [0, 50, 51]), (100, [0, 50, 100])],
)
def test_checkpoints_are_at_the_start_every_50_items_and_at_the_end(items, steps, s):
    cut = replace(s, X_stream=s.X_stream[:items], y_stream=s.y_stream[:items])
    assert [c.step for c in run_stream(make("bounded_fifo_100"), cut, POLICIES["oracle"])] == steps and EVERY == 50


def test_first_checkpoint_is_the_initial_state_and_each_correction_is_one_entry(s):
    first, *later = run_stream(make("substrate"), s, POLICIES["oracle"])
    held = make("substrate").fit(s.X_initial, s.y_initial, s.classes).storage()
    assert first == Checkpoint(0, 0, 0.0, first.original_acc, held.entries, held.bytes, 0, 0.0, 0.0)
    assert all(c.stored_entries == held.entries + c.corrections for c in later)
