"""Step sizes tuned by a rehearsal among the known classes, and a linear head that uses one."""

from dataclasses import dataclass, replace

import numpy as np

from ocrrlib.systems.base import System, best_seen
from ocrrlib.systems.heads import LinearHead

REHEARSED_CLASSES = 10  # known classes, a quarter at most, that are held out in a rehearsal
TEST_EVERY = 4  # every so-many-th row of a class is a test row there


def rehearse(system: System, X: np.ndarray, y: np.ndarray, n_classes: int) -> float:
    """Mean of novel and original accuracy after a stream of known classes that are held out.

    Only the initial rows X (n, d), y (n,) are used, so that nothing is known of the classes to
    come. Every mistake is corrected whatever the policy of the stream, of which a system knows
    nothing: the best step size here need not be that for fewer corrections. Of fewer than four
    known classes none is held out.
    """
    rng = np.random.default_rng([system.seed, 6])
    classes = np.unique(y)
    n_held_out = min(REHEARSED_CLASSES, len(classes) // 4)
    held_out = np.isin(y, rng.choice(classes, n_held_out, replace=False))
    order = rng.permutation(len(y))
    tested = np.zeros(len(y), bool)
    for label in classes:
        own = order[y[order] == label]
        tested[own[TEST_EVERY - 1 :: TEST_EVERY]] = True

    initial = ~held_out & ~tested
    system.fit(X[initial], y[initial], range(n_classes))
    streamed = held_out & ~tested
    for row in order[streamed[order]]:
        if system.predict(X[row : row + 1])[0] != y[row]:
            system.correct(X[row], int(y[row]))

    accuracies = []
    for rows in (held_out & tested, ~held_out & tested):  # novel, original
        if rows.any():
            accuracies.append(np.mean(system.predict(X[rows]) == y[rows]))
    return float(np.mean(accuracies or 0.0))


@dataclass(eq=False)
class Tuned(LinearHead):
    """A linear head with a tuned step size.

    Where ``lr`` is None, it is the one of ``rates`` that rehearses best.
    """

    lr: float | None = None
    # Lowest first; rates for deep networks move a head on unit rows too little.
    rates = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)

    def _tune(self, X, y):
        self.rate = self.lr or self._best_rate(X, y)

    def _best_rate(self, X, y):
        """The lowest of the rates at which a system like this one rehearses best."""
        scores = [rehearse(replace(self, lr=rate), X, y, self.n_classes) for rate in self.rates]
        return self.rates[int(np.argmax(scores))]


@dataclass(eq=False)
class OnlineLinearTuned(Tuned):
    """``online_linear`` at the step size that rehearses best; it answers only classes met."""

    rates = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)

    def _answer(self, evidence):
        return best_seen(evidence, self.seen)
