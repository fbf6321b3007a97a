"""The benchmark itself: predict, correct what was wrong if the policy says so, test every 50 items."""

from collections import deque
from dataclasses import dataclass, field, fields

import numpy as np

from ocrrlib.metrics import heights, rivals, summary

PROTOCOL = 1  # raised when the benchmark itself changes, and with it every result
EVERY = 50  # stream items between two checkpoints
ADDED = [
    "mistakes",
    "ausuc",
    "best_hm",
]  # what checkpoints of the harder streams are published without


@dataclass(frozen=True)
class Checkpoint:
    """Where a system stands after ``step`` stream items, of which it answered ``mistakes`` wrong.

    Accuracies are fractions of the test rows; ``ausuc`` and ``best_hm`` are of
    ``ocrrlib.metrics.summary``, NaN for a system without probabilities. ``answers`` are the class
    ids (m,) given to the test rows, novel ones first; ``heights`` (n,) those of the curve over the
    novel ones, see ``ocrrlib.metrics.heights``.
    """

    step: int
    corrections: int
    novel_acc: float
    original_acc: float
    stored_entries: int
    storage_bytes: int
    mistakes: int = 0
    ausuc: float = np.nan
    best_hm: float = np.nan
    answers: np.ndarray = field(compare=False, repr=False, default=None)
    heights: np.ndarray = field(compare=False, repr=False, default=None)

    @property
    def scalars(self):
        """All but the arrays, as a dict."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.compare}


class Asked:
    """Fixed queries (q, d) put to a system that has no ``watch``, anew each time."""

    def __init__(self, system, Q):
        self.system, self.Q = system, Q

    def answers(self, rows):
        return self.system.predict(self.Q[rows])

    def predict_proba(self, rows):
        return self.system.predict_proba(self.Q[rows])

    def rivals(self, rows, new):
        has = hasattr(self.system, "predict_proba")
        return self.answers(rows), rivals(self.predict_proba(rows), new, log=True) if has else None


def run_stream(system, scenario, policy, every=EVERY):
    """Stream a scenario through a system and yield a ``Checkpoint`` now and then.

    Parameters
    ----------
    system : System
        Anything with ``fit``, ``predict``, ``correct`` and ``storage``. Curves, and policies that
        ask, need ``predict_proba``; if it has ``watch`` too, the fixed queries are answered through
        that.
    scenario : Scenario
        What streams by.
    policy : Policy
        Which wrong predictions are corrected, with what label and when.
    every : int
        Stream items between checkpoints; there is one before the first and one after the last.

    A correction that is due comes after its item's prediction and before the checkpoint there; one
    that was decided on comes even if the system would be right by then. Those still under way when
    the stream ends come before the last checkpoint.
    """
    s = scenario
    system.fit(s.X_initial, s.y_initial, s.classes)
    watched = system.watch(s.queries) if hasattr(system, "watch") else Asked(system, s.queries)
    n, n_novel, rows = len(s.y_stream), len(s.y_novel), np.arange(len(s.queries))
    truth, new = (
        np.concatenate([s.y_novel, s.y_original]),
        np.isin(np.arange(len(s.classes)), s.held_out),
    )
    draws, labels, gate = policy.draws(s.seed, n), policy.labels(s), policy.gate(n)
    pending, corrections, mistakes = deque(), 0, 0

    def checkpoint(step):
        answers, found = watched.rivals(rows[n:], new)
        accuracies = [float(np.mean(part)) for part in np.split(answers == truth, [n_novel])]
        held, over = system.storage(), None if found is None else heights(*found, truth, n_novel)
        curve = {} if found is None else summary(over, len(s.y_original))
        so_far = dict(mistakes=mistakes, answers=answers, heights=over)
        return Checkpoint(
            step, corrections, *accuracies, held.entries, held.bytes, **so_far, **curve
        )

    yield checkpoint(0)
    for i in range(n):
        wrong = watched.answers(rows[i : i + 1])[0] != s.y_stream[i]
        chosen = gate.asks(watched.predict_proba(rows[i : i + 1])[0]) if gate else draws[i]
        mistakes += int(wrong)
        if wrong and chosen:
            pending.append(i)
        while pending and (pending[0] + policy.delay <= i or i + 1 == n):
            due = pending.popleft()
            system.correct(s.X_stream[due], int(labels[due]))
            corrections += 1
        if (i + 1) % every == 0 or i + 1 == n:
            yield checkpoint(i + 1)
