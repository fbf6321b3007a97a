"""``online_linear_tuned``: plain SGD at a rate chosen on classes that it holds out itself."""

import numpy as np

from ocrrlib.shared import shared
from ocrrlib.systems.online_linear import OnlineLinear

RATES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
HELD_OUT = 10  # of the known classes, a quarter at most
TESTED = 4  # every so-many-th row of a class is a test row


def rehearse(system, X, y, n_classes, seed):
    """Mean of novel and original accuracy after a stream of held-out known classes, every mistake corrected.

    Only the initial rows X (n, d), y (n,) are used, so that nothing is known of the classes to come.
    """
    rng = np.random.default_rng([seed, 6])
    classes = np.unique(y)
    held = np.isin(y, rng.choice(classes, min(HELD_OUT, len(classes) // 4), replace=False))
    order = rng.permutation(len(y))
    place = np.empty(len(y), np.int64)  # of a row among those of its class, in random order
    for label in classes:
        own = order[y[order] == label]
        place[own] = np.arange(len(own))
    tested = place % TESTED == TESTED - 1
    system.fit(X[~held & ~tested], y[~held & ~tested], range(n_classes))
    for row in order[(held & ~tested)[order]]:
        if system.predict(X[row : row + 1])[0] != y[row]:
            system.correct(X[row], int(y[row]))
    axes = [part for part in (held & tested, ~held & tested) if part.any()]
    return float(np.mean([np.mean(system.predict(X[part]) == y[part]) for part in axes])) if axes else 0.0


@shared(keep=2)
def best_rate(X, y, n_classes, seed, **training):
    """The rate that rehearses best, the lowest of equal ones."""
    scores = [rehearse(OnlineLinear(seed, lr=lr, **training), X, y, n_classes, seed) for lr in RATES]
    return RATES[int(np.argmax(scores))]


class OnlineLinearTuned(OnlineLinear):
    """``online_linear`` with the rate that did best on a rehearsal.

    Before it is trained, a quarter of the known classes, ten at most, are held out of it, streamed and
    corrected: the benchmark in small, within the initial rows.
    """

    def __init__(self, seed=0, **head):
        super().__init__(seed, lr=RATES[0], **head)
        self.given = head

    def _fit(self, X, y):
        rehearsed = len(np.unique(y)) >= 4
        self.lr = best_rate(X, y, self.n_classes, self.seed, **self.given) if rehearsed else RATES[0]
        super()._fit(X, y)
