"""``der_pp``: dark experience replay (Buzzega et al. 2020, DER++)."""

import numpy as np

from ocrrlib.systems.replay import Replay


class DERPP(Replay):
    """Remembers what the head answered, and holds it to that.

    The loss is that of the correction, plus ``alpha`` times the mean squared difference between
    logits of remembered rows and those stored with them, plus ``beta`` times the cross-entropy of
    other remembered rows.  As in its code, a correction enters the memory after the step, with the
    logits from before it; initial rows have those of the trained head.  They are stored over all classes:
    as in the source, those of classes not seen by then, here zero, are held to like the others.

    Parameters
    ----------
    alpha, beta : float
        The source tunes them per data set and memory; 0.1 and 0.5, with a rate of 0.03 and 32
        remembered rows, are its values for CIFAR-10 and 200 rows.
    """

    def __init__(self, seed=0, alpha=0.1, beta=0.5, **replay):
        super().__init__(seed, **replay)
        self.alpha, self.beta = alpha, beta

    def _fit(self, X, y):
        super()._fit(X, y)
        self.memory_logits = self._logits(self.memory_X).astype(np.float32)

    def _correct(self, x, y):
        self.seen[y] = True
        first, second = self._draw(self.memory_batch), self._draw(self.memory_batch)
        X = np.vstack([x[None], self.memory_X[first], self.memory_X[second]])
        new, old, older = np.split(self._logits(X), [1, 1 + len(first)])
        answered = new[0].copy()  # the residuals use ``new`` up
        residuals = [self._residuals(new, np.array([y]))]
        if len(first):
            drift = old - self.memory_logits[first]
            residuals += [
                self.alpha * 2 * drift / drift.size,
                self.beta * self._residuals(older, self.memory_y[second]),
            ]
        self._step(np.vstack(residuals), X)
        slot = self._remember(x, y)
        if slot is not None:
            self.memory_logits[slot] = answered

    def storage(self):
        held = super().storage()
        return type(held)(held.bytes + held.entries * 4 * self.n_classes, held.entries, held.parameters)
