"""Passive-aggressive one-vs-rest classification."""

from dataclasses import dataclass

import numpy as np

from ocrrlib.shared import shared
from ocrrlib.systems.base import Storage, System
from ocrrlib.systems.heads import with_bias


@shared(keep=1)
def aggressive_pass(X, y, n_classes, seed, C):
    """Weights (C, d + 1) after one pass over the rows in random order."""
    W, seen = np.zeros((n_classes, X.shape[1] + 1)), np.zeros(n_classes, bool)
    for row in np.random.default_rng(seed).permutation(len(y)):
        seen[y[row]] = True
        aggressive_step(W, seen, X[row], y[row], C)
    return W


def aggressive_step(W, seen, x, y, C):
    """Move the weights (C, d + 1) of the classes seen just so far, ``C`` at most, that none has a hinge loss.

    As in river, the intercept, in the last column, moves along, and does not count in the length of
    a row.
    """
    x = np.append(x, 1.0)
    signs = np.where(np.arange(len(W)) == y, 1.0, -1.0)
    losses = np.where(seen, np.maximum(1 - signs * (W @ x), 0), 0)
    W += np.multiply.outer(signs * np.minimum(C, losses / (x[:-1] @ x[:-1])), x)


@dataclass(eq=False)
class PassiveAggressive(System):
    """Passive-aggressive one-vs-rest classifier (Crammer et al. 2006, PA-I), equal to river's."""

    C: float = 1.0  #: the longest step, as by river's default

    def _fit(self, X, y):
        self.W = aggressive_pass(X, y, self.n_classes, self.seed, self.C).copy()

    def _scores(self, X):
        return with_bias(X) @ self.W.T

    def _correct(self, x, y):
        aggressive_step(self.W, self.seen, x, y, self.C)

    def storage(self):
        parameters = int(self.seen.sum()) * (self.dim + 1)
        return Storage(bytes=8 * parameters, parameters=parameters)
