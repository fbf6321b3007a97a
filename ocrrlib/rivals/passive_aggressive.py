"""Passive-aggressive one-vs-rest classification."""

from dataclasses import dataclass

import numpy as np

from ocrrlib.systems.base import Storage, System
from ocrrlib.systems.heads import with_bias


def passive_aggressive_step(
    W: np.ndarray, seen: np.ndarray, x: np.ndarray, y: int, C: float
) -> np.ndarray:
    """The change (n_classes, d + 1) of weights by one row x (d,) of class ``y`` (PA-I).

    Weights W (n_classes, d + 1) of the classes ``seen`` move just so far that none has a hinge
    loss, but ``C`` at most. As in river, the intercept, in the last column, moves along, and does
    not count in the length of a row.
    """
    # For each class, with t = 1 for y and -1 for others, and the loss l = max(0, 1 - t w . x):
    # w += t min(C, l / |x|^2) x
    x = np.append(x, 1.0)
    t = np.where(np.arange(len(W)) == y, 1.0, -1.0)
    losses = np.where(seen, np.maximum(1 - t * (W @ x), 0), 0)
    square = x[:-1] @ x[:-1]
    return np.multiply.outer(t * np.minimum(C, losses / square), x)


@dataclass(eq=False)
class PassiveAggressive(System):
    """Passive-aggressive one-vs-rest classifier (Crammer et al. 2006, PA-I), equal to river's."""

    C: float = 1.0  #: the longest step, as by river's default

    def _fit(self, X, y):
        """One pass over the rows in random order."""
        self.W = np.zeros((self.n_classes, self.dim + 1))
        seen = np.zeros(self.n_classes, bool)
        for row in np.random.default_rng(self.seed).permutation(len(y)):
            seen[y[row]] = True
            self.W += passive_aggressive_step(self.W, seen, X[row], y[row], self.C)

    def _scores(self, X):
        return with_bias(X) @ self.W.T

    def _correct(self, x, y):
        self.W += passive_aggressive_step(self.W, self.seen, x, y, self.C)

    def storage(self) -> Storage:
        parameters = int(self.seen.sum()) * (self.dim + 1)
        return Storage(bytes=8 * parameters, parameters=parameters)
