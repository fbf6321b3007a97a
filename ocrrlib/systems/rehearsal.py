"""The benchmark in small, within the initial rows: how ``online_linear_tuned`` and others find their step size."""

import numpy as np

from ocrrlib.ahead import Ahead
from ocrrlib.shared import shared

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
    stream = order[(held & ~tested)[order]]
    system = Ahead(system)
    answers = system.watch(X[stream])
    for place, row in enumerate(stream):
        if answers(np.array([place]))[0] != y[row]:
            system.correct(X[row], int(y[row]))
    axes = [part for part in (held & tested, ~held & tested) if part.any()]
    return float(np.mean([np.mean(system.predict(X[part]) == y[part]) for part in axes])) if axes else 0.0


@shared(keep=4)
def best_rate(cls, rates, X, y, n_classes, seed, **params):
    """The rate at which ``cls(seed, lr=rate, **params)`` rehearses best, the lowest of equal ones."""
    scores = [rehearse(cls(seed, lr=lr, **params), X, y, n_classes, seed) for lr in rates]
    return rates[int(np.argmax(scores))]


class Rehearsed:
    """Comes before a head in the bases of a class: its step size is the one that did best on a rehearsal.

    Before the head is trained, a quarter of the known classes, ten at most, are held out of it, streamed and
    corrected. The rehearsal corrects every mistake, whatever the policy of the stream, of which a system knows
    nothing: the step size is tuned for a stream in which every mistake is corrected, and is not what fewer
    corrections would ask for. With fewer than four known classes it is the lowest of ``rates``.

    Attributes
    ----------
    head : type
        The class that is rehearsed.
    rates : tuple of float
        Step sizes that are tried, lowest first.
    """

    def __init__(self, seed=0, **params):
        super().__init__(seed, lr=self.rates[0], **params)
        self.given = params

    def _fit(self, X, y):
        self.lr = self.rates[0]
        if len(np.unique(y)) >= 4:
            self.lr = best_rate(self.head, self.rates, X, y, self.n_classes, self.seed, **self.given)
        super()._fit(X, y)
