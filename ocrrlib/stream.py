"""The benchmark itself: predict, correct what was wrong if the policy says so, test every 50 items."""

from collections import deque
from dataclasses import dataclass, field, fields

import numpy as np

PROTOCOL = 1  # raised when the benchmark itself changes, and with it every result
EVERY = 50  # stream items between two checkpoints


@dataclass(frozen=True)
class Checkpoint:
    """Where a system stands after ``step`` stream items; accuracies are fractions of the test rows.

    ``answers`` are the class ids (m,) given to the test rows, novel ones first.
    """

    step: int
    corrections: int
    novel_acc: float
    original_acc: float
    stored_entries: int
    storage_bytes: int
    answers: np.ndarray = field(compare=False, repr=False)

    @property
    def scalars(self):
        """All but the answers, as a dict."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.compare}


def run_stream(system, scenario, policy, every=EVERY):
    """Stream a scenario through a system and yield a ``Checkpoint`` now and then.

    Parameters
    ----------
    system : System
        Anything with ``fit``, ``predict``, ``correct`` and ``storage``; if it has ``watch``
        too, the fixed queries are answered through that. A policy that asks needs
        ``watch_probabilities``.
    scenario : Scenario
        What streams by.
    policy : Policy
        Which wrong predictions are corrected, with what label and when.
    every : int
        Stream items between checkpoints; there is one before the first and one after the last.

    A correction that is due comes after its item's prediction and before the checkpoint there; one
    that was decided on comes even if the system would be right by then. Those still under way when the
    stream ends come before the last checkpoint.
    """
    s = scenario
    system.fit(s.X_initial, s.y_initial, s.classes)
    answers = system.watch(s.queries) if hasattr(system, "watch") else lambda rows: system.predict(s.queries[rows])
    n, rows = len(s.y_stream), np.arange(len(s.queries))
    novel, original = np.split(rows[n:], [len(s.y_novel)])
    draws, labels, gate = policy.draws(s.seed, n), policy.labels(s), policy.gate(n)
    unsure = system.watch_probabilities(s.queries) if gate else None
    pending, corrections = deque(), 0

    def checkpoint(step):
        given = answers(novel), answers(original)
        accuracies = (np.mean(given[0] == s.y_novel), np.mean(given[1] == s.y_original))
        held = system.storage()
        return Checkpoint(step, corrections, *map(float, accuracies), held.entries, held.bytes, np.concatenate(given))

    yield checkpoint(0)
    for i in range(n):
        wrong = answers(rows[i : i + 1])[0] != s.y_stream[i]
        chosen = gate.asks(unsure(rows[i : i + 1])[0]) if gate else draws[i]
        if wrong and chosen:
            pending.append(i)
        while pending and (pending[0] + policy.delay <= i or i + 1 == n):
            due = pending.popleft()
            system.correct(s.X_stream[due], int(labels[due]))
            corrections += 1
        if (i + 1) % every == 0 or i + 1 == n:
            yield checkpoint(i + 1)
