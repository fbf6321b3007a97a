"""Answers that are given ahead are those of the system alone, for every system that may give them."""

import numpy as np
import pytest
from conftest import EMBEDDED
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib.ahead import MOST, Ahead
from ocrrlib.policies import POLICIES, Policy
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import make
from ocrrlib.systems.base import System


@pytest.fixture(scope="module")
def s(tiny):
    return make_scenario(tiny, 0, held_out=4, cap=None)


@pytest.mark.parametrize("name", EMBEDDED)
@pytest.mark.parametrize("policy", ["oracle", "random10"])
def test_a_stream_answered_ahead_is_the_stream(name, policy, s):
    alone = list(run_stream(make(name, 1), s, POLICIES[policy], every=20))
    ahead = list(run_stream(Ahead(make(name, 1)), s, POLICIES[policy], every=20))
    assert ahead == alone
    for one, other in zip(ahead, alone):
        np.testing.assert_array_equal(one.answers, other.answers)


@pytest.mark.parametrize("name", ["substrate", "online_linear", "slda", "ledger_plda"])
def test_late_corrections_and_asked_for_ones_come_out_the_same(name, s):
    for policy in (Policy("late", 1.0, delay=7), Policy("asked", 0.3, ask="margin")):
        assert list(run_stream(Ahead(make(name)), s, policy)) == list(run_stream(make(name), s, policy))


class Counter(System):
    """Answers how many corrections it had; notes how many rows it is asked about at once."""

    def _fit(self, X, y):
        self.corrections, self.asked = 0, []

    def _predict(self, X):
        self.asked.append(len(X))
        return np.full(len(X), self.corrections)

    def _correct(self, x, y):
        self.corrections += 1


X = np.eye(50, dtype=np.float32)


@given(st.lists(st.one_of(st.none(), st.integers(0, 49), st.sets(st.integers(0, 49), min_size=2)), max_size=60))
def test_no_answer_outlives_a_correction(steps):
    system = Ahead(Counter().fit(X, np.zeros(50, int), range(2)))
    answers, corrections = system.watch(X), 0
    for step in steps:
        if step is None:
            system.correct(X[0], 0)
            corrections += 1
        else:
            rows = np.array(sorted(step) if isinstance(step, set) else [step])
            np.testing.assert_array_equal(answers(rows), np.full(len(rows), corrections))


def test_while_nothing_changes_a_row_is_asked_about_once_and_more_and_more_at_a_time():
    system = Ahead(Counter().fit(X, np.zeros(50, int), range(2)))
    answers = system.watch(X)
    for row in range(50):
        answers(np.array([row]))
    assert system.asked == [4, 8, 16, 22] and MOST == 32
    answers(np.arange(50))
    assert sum(system.asked) == 50
