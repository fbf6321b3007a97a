"""``ewc``: elastic weight consolidation (paper, section 4.2; Kirkpatrick et al. 2017)."""

import numpy as np

from ocrrlib.systems.base import Storage
from ocrrlib.systems.heads import LinearHead, softmax


class EWC(LinearHead):
    """Adds ``strength / 2 * sum(F * (theta - theta_0)**2)`` to the loss of each correction.

    Parameters
    ----------
    strength : float
        Lambda of the penalty.
    fisher_rows : int
        Initial rows that estimate F, the mean squared gradient of the
        log-probability of the predicted label.
    """

    def __init__(self, seed=0, strength=1000.0, fisher_rows=2000, **head):
        super().__init__(seed, **head)
        self.strength, self.fisher_rows = strength, fisher_rows

    def _fit(self, X, y):
        super()._fit(X, y)
        self.W0, self.b0 = self.W.copy(), self.b.copy()
        rows = np.random.default_rng(self.seed).choice(len(X), min(self.fisher_rows, len(X)), replace=False)
        rows = X[rows].astype(np.float64)
        residual = softmax(self._logits(rows))
        residual[np.arange(len(rows)), residual.argmax(axis=1)] -= 1
        n = max(len(rows), 1)
        self.F_W, self.F_b = (residual**2).T @ rows**2 / n, (residual**2).sum(axis=0) / n

    def _correct(self, x, y):
        x = x.astype(np.float64)
        residual = self._residual(x, y)
        pull = self.lr * self.strength
        self.W -= pull * self.F_W * (self.W - self.W0)
        self.b -= pull * self.F_b * (self.b - self.b0)
        self._descend(residual, x)

    def storage(self):
        head = super().storage()
        return Storage(bytes=3 * head.bytes, parameters=head.parameters)  # head, its start, F
