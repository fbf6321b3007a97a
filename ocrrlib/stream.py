"""The benchmark itself: predict, correct what was wrong if the policy says so, test every 50 items."""

from dataclasses import dataclass

import numpy as np

EVERY = 50  # stream items between two checkpoints


@dataclass(frozen=True)
class Checkpoint:
    """Where a system stands after ``step`` stream items; accuracies are fractions of the test rows."""

    step: int
    corrections: int
    novel_acc: float
    original_acc: float
    stored_entries: int
    storage_bytes: int


def run_stream(system, scenario, policy, every=EVERY):
    """Stream a scenario through a system and yield a ``Checkpoint`` now and then.

    Parameters
    ----------
    system : System
        Anything with ``fit``, ``predict``, ``correct`` and ``storage``; if it has ``watch``
        too, the fixed queries are answered through that.
    scenario : Scenario
        What streams by.
    policy : Policy
        Which wrong predictions are corrected.
    every : int
        Stream items between checkpoints; there is one before the first and one after the last.
    """
    s = scenario
    system.fit(s.X_initial, s.y_initial, s.classes)
    answers = system.watch(s.queries) if hasattr(system, "watch") else lambda rows: system.predict(s.queries[rows])
    n, rows = len(s.y_stream), np.arange(len(s.queries))
    novel, original = np.split(rows[n:], [len(s.y_novel)])
    corrects = policy.coins(s.seed, n)
    corrections = 0

    def checkpoint(step):
        accuracies = (np.mean(answers(novel) == s.y_novel), np.mean(answers(original) == s.y_original))
        held = system.storage()
        return Checkpoint(step, corrections, *map(float, accuracies), held.entries, held.bytes)

    yield checkpoint(0)
    for i in range(n):
        wrong = answers(rows[i : i + 1])[0] != s.y_stream[i]
        if wrong and corrects[i]:
            system.correct(s.X_stream[i], int(s.y_stream[i]))
            corrections += 1
        if (i + 1) % every == 0 or i + 1 == n:
            yield checkpoint(i + 1)
