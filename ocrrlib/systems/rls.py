"""``rls``: recursive least squares, i.e. ridge regression on one-hot targets (as in ACIL, Zhuang et al. 2022)."""

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.systems.base import Storage, System
from ocrrlib.systems.linear import TEMPERATURE, best_seen, class_sums, softmax_seen
from ocrrlib.systems.standing import Moves, StandingProducts


class RLS(System):
    """Weights are those of ridge regression over all rows so far, initial and corrected, at any time.

    The source regresses on random features of the rows, after a ReLU (8192 by its code's default); here on the rows.

    Parameters
    ----------
    ridge : float
        Weight of the squared norm beside the sum of squared errors; 0.1 is the default of the source's code.
    """

    def __init__(self, seed=0, ridge=0.1):
        super().__init__(seed)
        self.ridge = ridge

    def _fit(self, X, y):
        X, self.seen = X.astype(np.float64), np.bincount(y, minlength=self.n_classes) > 0
        with threadpool_limits(1):  # so that sums are made in one order
            self.inverse = np.linalg.inv(X.T @ X + self.ridge * np.eye(self.dim))
            self.W, self.moves = class_sums(X, y, self.n_classes) @ self.inverse, None

    def _predict(self, X):
        return best_seen(X.astype(np.float64) @ self.W.T, self.seen)

    def _probabilities(self, X):
        return softmax_seen(X.astype(np.float64) @ self.W.T / TEMPERATURE, self.seen)

    def watch(self, Q):
        if self.moves is None:
            self.moves = Moves(*self.W.shape)
        standing = StandingProducts(Q.astype(np.float64), lambda: self.W, self.moves)
        return lambda rows: best_seen(standing(rows), self.seen)

    def _correct(self, x, y):
        x = x.astype(np.float64)
        u = self.inverse @ x
        gain = 1 + x @ u
        error = -self.W @ x
        error[y] += 1
        self.inverse -= np.multiply.outer(u / gain, u)  # Sherman and Morrison (1950)
        self.W += np.multiply.outer(error / gain, u)
        if self.moves is not None:
            self.moves.add(error / gain, u)
        self.seen[y] = True

    def storage(self):
        kept = self.inverse, self.W, self.seen
        return Storage(sum(part.nbytes for part in kept), parameters=self.inverse.size + self.W.size)
