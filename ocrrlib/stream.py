"""The benchmark itself: predict, correct mistakes as the policy says, measure every 50 items."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ocrrlib.files import InputError
from ocrrlib.metrics import Checkpoint, measure
from ocrrlib.policies import Policy
from ocrrlib.scenario import Scenario

PROTOCOL = 1  # raised when the benchmark itself changes, and with it every result
EVERY = 50  # stream items between two checkpoints


@dataclass(frozen=True)
class Position:
    """Where a stream stands after ``step`` items.

    ``given`` (step,) are the class ids that they were answered with, ``mistakes`` of them wrong.
    ``corrected`` (k,) are the stream positions corrected so far, ``labels`` (k,) the class ids that
    the corrections named, and ``held`` (k,) tells of each whether its row, asked again at once, was
    answered so.
    """

    step: int
    mistakes: int
    given: np.ndarray
    corrected: np.ndarray
    labels: np.ndarray
    held: np.ndarray


def run_stream(
    system, scenario: Scenario, policy: Policy, every: int = EVERY, fitted: bool = False
) -> Iterator[Checkpoint]:
    """Stream a scenario through a system and yield a ``Checkpoint`` every ``every`` items.

    Parameters
    ----------
    system : System
        Anything with ``fit``, ``predict``, ``correct`` and ``storage``. Curves, and policies that
        ask by uncertainty, need ``predict_proba``; fixed queries are answered through ``watch``, if
        there is one.
    scenario : Scenario
        The initial, stream and test rows.
    policy : Policy
        Which wrong predictions are corrected, with what label and when.
    every : int
        Stream items between checkpoints; there is one before the first and one after the last.
    fitted : bool
        Whether the system was fitted on the scenario already.

    Examples
    --------
    >>> from ocrrlib.embeddings import load
    >>> from ocrrlib.policies import POLICIES
    >>> from ocrrlib.scenario import make_scenario
    >>> from ocrrlib.systems import make
    >>> scenario = make_scenario(load("banking77"), seed=0)
    >>> for at in run_stream(make("ncm"), scenario, POLICIES["random10"], every=400):
    ...     print(at.step, at.corrections, round(at.novel_acc, 3), round(at.original_acc, 3))
    0 0 0.0 0.875
    400 21 0.645 0.875
    800 30 0.767 0.875
    1195 38 0.787 0.873
    """
    if not fitted:
        system.fit(scenario.X_initial, scenario.y_initial, scenario.classes)
    watch = getattr(system, "watch", lambda Q: Unwatched(system, Q))
    queries = watch(scenario.queries)
    for position in positions(system, scenario, policy, queries, every):
        with naming_step(position.step):
            checkpoint = measure(position, queries, scenario, system)
        yield checkpoint


@contextmanager
def naming_step(step: int) -> Iterator[None]:
    """Name the step in an ``InputError`` of a system."""
    try:
        yield
    except InputError as error:
        raise InputError(f"step {step}: {error}") from error


def positions(system, scenario, policy, queries, every) -> Iterator[Position]:
    """Predict and correct item by item; yield the position at every checkpoint.

    A correction that is due comes after its item's prediction and before the checkpoint there. One
    that was decided on comes even if the system would be right by then; those still under way when
    the stream ends come before the last checkpoint.
    """
    n = len(scenario.y_stream)
    draws = policy.draws(scenario.seed, n)
    gate = policy.gate(n)  # decides in place of the draws, where the policy asks by uncertainty
    labels = policy.labels(scenario)
    pending: deque[int] = deque()
    given: list[int] = []
    corrected: list[int] = []
    held: list[bool] = []

    def position():
        answers = np.array(given, np.int64)
        rows = np.array(corrected, np.int64)
        mistakes = np.count_nonzero(answers != scenario.y_stream[: len(answers)])
        return Position(
            len(answers), int(mistakes), answers, rows, labels[rows], np.array(held, bool)
        )

    yield position()
    for i in range(n):
        row = np.array([i])
        ends = i + 1 == n
        with naming_step(i):
            given.append(int(queries.answers(row)[0]))
            wrong = given[i] != scenario.y_stream[i]
            asked = draws[i] if gate is None else gate.asks(queries.predict_proba(row)[0])
            if wrong and asked:
                pending.append(i)
            while pending and (ends or pending[0] + policy.delay <= i):
                due = pending.popleft()
                system.correct(scenario.X_stream[due], int(labels[due]))
                corrected.append(due)
                again = queries.answers(np.array([due]))[0]
                held.append(bool(again == labels[due]))
        if ends or (i + 1) % every == 0:
            yield position()


class Unwatched:
    """Fixed queries (q, d), asked by row number of a system without ``watch``; nothing is kept."""

    def __init__(self, system, Q: np.ndarray):
        self.system = system
        self.Q = Q

    def answers(self, rows: np.ndarray) -> np.ndarray:
        """``predict`` of the queries ``rows`` (m,)."""
        return self.system.predict(self.Q[rows])

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        """``predict_proba`` of the queries ``rows`` (m,)."""
        return self.system.predict_proba(self.Q[rows])

    def log_probabilities(self, rows: np.ndarray) -> np.ndarray | None:
        """Logarithms of ``predict_proba``; None for a system without it."""
        if not hasattr(self.system, "predict_proba"):
            return None
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(rows))

    whole_log_probabilities = log_probabilities
