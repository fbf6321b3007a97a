"""Step sizes tuned on a rehearsal among the known classes, and a linear head at such a rate."""

from dataclasses import dataclass, replace

import numpy as np

from ocrrlib.systems.base import best_seen
from ocrrlib.systems.heads import LinearHead

HELD_OUT = 10  # of the known classes, a quarter at most, are held out in a rehearsal
TESTED = 4  # every so-many-th row of a class is a test row there


def rehearse(system, X, y, n_classes):
    """Mean of novel and original accuracy after a stream of held-out known classes, every mistake corrected.

    Only the initial rows X (n, d), y (n,) are used, so that nothing is known of the classes to
    come. Every mistake is corrected whatever the policy of the stream, of which a system knows
    nothing: the best step size here is not what fewer corrections would ask for. Of fewer than four
    known classes none is held out.
    """
    rng, classes = np.random.default_rng([system.seed, 6]), np.unique(y)
    held = np.isin(y, rng.choice(classes, min(HELD_OUT, len(classes) // 4), replace=False))
    order = rng.permutation(len(y))
    tested = np.zeros(len(y), bool)
    for label in classes:
        own = order[y[order] == label]
        tested[own[TESTED - 1 :: TESTED]] = True
    system.fit(X[~held & ~tested], y[~held & ~tested], range(n_classes))
    for row in order[(held & ~tested)[order]]:
        if system.predict(X[row : row + 1])[0] != y[row]:
            system.correct(X[row], int(y[row]))
    axes = [part for part in (held & tested, ~held & tested) if part.any()]
    return float(np.mean([np.mean(system.predict(X[part]) == y[part]) for part in axes] or 0.0))


@dataclass(eq=False)
class Tuned(LinearHead):
    """A linear head whose step size, where ``lr`` is None, is the one of ``rates`` that rehearses best."""

    lr: float | None = None
    rates = (
        0.1,
        0.2,
        0.5,
        1.0,
        2.0,
        5.0,
    )  # lowest first; rates for deep networks move a head on unit rows too little

    def _tune(self, X, y):
        self.rate = self.lr or self._best_rate(X, y)

    def _best_rate(self, X, y):
        """The lowest of the rates at which a system like this one rehearses best."""
        scores = [rehearse(replace(self, lr=rate), X, y, self.n_classes) for rate in self.rates]
        return self.rates[int(np.argmax(scores))]


@dataclass(eq=False)
class OnlineLinearTuned(Tuned):
    """``online_linear`` that answers only classes of which a row was met, at the rate best on a rehearsal."""

    rates = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)

    def _answer(self, logits):
        return best_seen(logits, self.seen)
