"""Ridge regression on one-hot targets, of rows or of random features: closed forms, updated exactly."""

from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.rivals.features import SAMPLE, rectified
from ocrrlib.rivals.standing import StandingProducts
from ocrrlib.shared import shared
from ocrrlib.systems.base import TEMPERATURE, Storage, System, class_means, class_sums

RIDGES = 10.0 ** np.arange(-8, 9)  # that RanPAC chooses from


@dataclass(eq=False)
class RLS(System):
    """Recursive least squares, i.e. ridge regression on one-hot targets (as in ACIL, Zhuang et al. 2022).

    Weights are at any time those of the regression over all rows so far, initial and corrected. The
    source regresses on random features of the rows, after a ReLU (8192 by its code's default); here
    on the rows.
    """

    ridge: float = (
        0.1  #: weight of the squared norm beside the sum of squared errors, as in the source's code
    )
    temperature = TEMPERATURE

    def _fit(self, X, y):
        X = X.astype(np.float64)
        with threadpool_limits(1):  # so that sums are made in one order
            self.inverse = np.linalg.inv(X.T @ X + self.ridge * np.eye(self.dim))
            self.W = class_sums(X, y, self.n_classes)[0] @ self.inverse

    def _scores(self, X):
        return X.astype(np.float64) @ self.W.T

    def _correct(self, x, y):
        x = x.astype(np.float64)
        u = self.inverse @ x
        gain = 1 + x @ u
        error = -self.W @ x
        error[y] += 1
        self.inverse -= np.multiply.outer(u / gain, u)  # Sherman and Morrison (1950)
        self.W += np.multiply.outer(error / gain, u)

    def storage(self):
        kept = self.inverse, self.W, self.seen
        return Storage(
            sum(part.nbytes for part in kept), parameters=self.inverse.size + self.W.size
        )


@shared(keep=2)
def _ridge_start(X, y, n_classes, features, seed):
    """Projection (d, M), rows per class (C,), sums of features (C, M), inverse regularised Gram matrix (M, M)."""
    rng = np.random.default_rng([seed, 8])
    projection = rng.normal(size=(X.shape[1], features))
    Z = rectified(X, projection)
    sums, counts = class_sums(Z, y, n_classes)
    weights, sample = 1 / counts[y], rng.permutation(len(y))[:SAMPLE]
    with threadpool_limits(1):  # so that sums are made in one order
        weighed = Z * np.sqrt(weights)[:, None]
        values, vectors = np.linalg.eigh(weighed.T @ weighed)
        F, own, targets = Z[sample] @ vectors, y[sample], class_means(sums, counts) @ vectors
        left = 1 - weights[sample, None] * (F**2 @ (1 / (values[:, None] + RIDGES)))  # 1 - leverage
        errors = []
        for ridge, over in zip(RIDGES, np.maximum(left, 1e-9).T):
            misses = F @ (targets / (values + ridge)).T
            misses[np.arange(len(own)), own] -= 1
            errors.append(weights[sample] @ (np.einsum("nc,nc->n", misses, misses) / over**2))
        return (
            projection,
            counts,
            sums,
            (vectors / (values + RIDGES[np.argmin(errors)])) @ vectors.T,
        )


@shared(keep=1)
def _rectified(Q, projection):
    return rectified(Q, projection)


@dataclass(eq=False)
class RanPAC(System):
    """Ridge regression on rectified random projections of the rows (McDonnell et al. 2023), classes weighing the same.

    Weights are at any time those of the regression over all rows so far. Every class has the same
    weight in it, shared by its rows (the source weighs all rows alike). The ridge is the one of
    ``RIDGES`` with the least squared error on ``SAMPLE`` of the initial rows, each left out in turn
    (the source leaves out a random fifth; 10,000 projections there).

    The inverse Gram matrix B is that of the initial rows. Rows that came later, or whose weights
    changed with their class, are kept beside it: with features Z (k, M) and changes of weights D,
    the inverse is ``B - B Z.T inv(inv(D) + Z B Z.T) Z B`` (Woodbury 1950). A correction takes time
    in M**2 + k**3, and k grows.
    """

    features: int = 2000  #: M, the number of projections
    temperature = TEMPERATURE

    def _fit(self, X, y):
        start = _ridge_start(X, y, self.n_classes, self.features, self.seed)
        self.projection, self.at_first, sums, self.inverse = (
            start  # these are shared: never written to
        )
        self.counts, self.solved = self.at_first.copy(), sums @ self.inverse
        self.rows = X.copy(), y.copy()  # whose weights may change
        self.later, self.labels = (
            np.zeros((2, 0, self.features)),
            np.zeros(0, np.int64),
        )  # Z and Z B
        self.before, self.products = np.zeros(0), np.zeros((0, 0))  # weights in B, and Z B Z.T
        self._weigh()

    def _weigh(self):
        self.weights = 1 / np.maximum(self.counts, 1)
        self.W, (Z, ZB) = self.solved * self.weights[:, None], self.later
        kernel = self.products + np.diag(1 / (self.weights[self.labels] - self.before))
        self.less = np.linalg.solve(kernel, Z @ self.W.T)
        self.W -= self.less.T @ ZB

    def _correct(self, x, y):
        X, before = x[None], np.zeros(1)
        if self.at_first[y] == self.counts[y]:  # the weights of its initial rows change from now on
            own = self.rows[0][self.rows[1] == y]
            X, before = (
                np.vstack([own, X]),
                np.append(np.full(len(own), 1 / max(len(own), 1)), before),
            )
        Z = rectified(X, self.projection)
        ZB = Z @ self.inverse
        across = self.later[0] @ ZB.T
        self.products = np.block([[self.products, across], [across.T, Z @ ZB.T]])
        self.later = np.concatenate([self.later, [Z, ZB]], axis=1)
        self.labels = np.append(self.labels, np.full(len(X), y))
        self.before = np.append(self.before, before)
        self.counts[y] += 1
        self.solved[y] += ZB[-1]
        self._weigh()

    def _scores(self, X):
        return rectified(X, self.projection) @ self.W.T

    def _follow(self, Q):
        F, since = _rectified(Q, self.projection), len(self.labels)
        standing, solved = StandingProducts(F), F @ self.solved.T

        def scores(rows):
            products, corrected = standing(self.later[1], rows), self.before[since:] == 0
            added = np.eye(self.n_classes)[self.labels[since:]] * corrected[:, None]
            return (
                solved[rows] + products[:, since:] @ added
            ) * self.weights - products @ self.less

        return scores

    def storage(self):
        parts = (
            self.projection,
            self.inverse,
            self.counts,
            self.at_first,
            self.solved,
            self.W,
            *self.rows,
        )
        kept = sum(
            part.nbytes for part in (*parts, self.later, self.labels, self.before, self.products)
        )
        return Storage(kept, parameters=self.inverse.size + self.W.size)
