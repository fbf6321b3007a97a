"""Ridge regression on one-hot targets, of rows or of random features, updated exactly."""

from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.rivals.features import rectified
from ocrrlib.rivals.standing import StandingProducts
from ocrrlib.systems.base import Storage, System, class_means, class_sums
from ocrrlib.voting import TEMPERATURE

RIDGES = 10.0 ** np.arange(-8, 9)  # that RanPAC chooses from
LEFT_OUT = 1000  # initial rows that are left out in turn to choose
LEAST_REST = 1e-9  # of 1 - leverage, by which the error of a row is divided


@dataclass(eq=False)
class RLS(System):
    """Recursive least squares, i.e. ridge regression on one-hot targets (ACIL, Zhuang et al. 2022).

    Weights are at any time those of the regression over all rows so far, initial and corrected:
    ``W = Y^T X (X^T X + ridge I)^-1`` with one-hot targets Y. The source regresses on random
    features of the rows, after a ReLU (8192 by its code's default); here on the rows.
    """

    #: weight of the squared norm beside the sum of squared errors, as in the source's code
    ridge: float = 0.1
    temperature = TEMPERATURE

    def _fit(self, X, y):
        X = X.astype(np.float64)
        sums, _ = class_sums(X, y, self.n_classes)  # Y^T X
        with threadpool_limits(1):  # so that sums are made in one order
            self.inverse = np.linalg.inv(X.T @ X + self.ridge * np.eye(self.dim))
            self.W = sums @ self.inverse

    def _scores(self, X):
        return X.astype(np.float64) @ self.W.T

    def _correct(self, x, y):
        # With B the inverse, u = B x and g = 1 + x . u (Sherman and Morrison 1950):
        # B = B - u u^T / g,  W = W + (e_y - W x) u^T / g
        x = x.astype(np.float64)
        u = self.inverse @ x
        g = 1 + x @ u
        error = -self.W @ x
        error[y] += 1
        self.inverse -= np.multiply.outer(u / g, u)
        self.W += np.multiply.outer(error / g, u)

    def storage(self) -> Storage:
        size = self.inverse.nbytes + self.W.nbytes + self.seen.nbytes
        return Storage(size, parameters=self.inverse.size + self.W.size)


@dataclass(eq=False)
class RanPAC(System):
    """Ridge regression on rectified random projections (McDonnell et al. 2023), classes balanced.

    Weights are at any time those of the regression over all rows so far,
    ``W = Y^T D Z (Z^T D Z + ridge I)^-1`` with features Z, one-hot targets Y, and D the weights of
    the rows, 1 / rows of their class: every class has the same weight in all (the source weighs all
    rows alike). The ridge is the one of ``RIDGES`` with the least squared error on ``LEFT_OUT`` of
    the initial rows, each left out in turn (the source leaves out a random fifth; 10,000
    projections there).

    The inverse B is that of the initial rows, with their weights at first. The k rows that came
    later, or whose weights changed with their class, are kept beside it, see ``_weigh``. A
    correction takes time in M**2 + k**3, and k grows.
    """

    features: int = 2000  #: M, the number of projections
    temperature = TEMPERATURE

    def _fit(self, X, y):
        rng = np.random.default_rng([self.seed, 8])
        self.projection = rng.normal(size=(self.dim, self.features))
        sample = rng.permutation(len(y))[:LEFT_OUT]
        Z = rectified(X, self.projection)
        sums, self.at_first = class_sums(Z, y, self.n_classes)
        d = 1 / self.at_first[y]  # weights of the rows
        with threadpool_limits(1):  # so that sums are made in one order
            # Z^T D Z = V diag(values) V^T
            weighed = Z * np.sqrt(d)[:, None]
            values, V = np.linalg.eigh(weighed.T @ weighed)
            means = class_means(sums, self.at_first)  # Y^T D Z
            errors = left_out_errors(Z[sample] @ V, y[sample], d[sample], values, means @ V)
            ridge = RIDGES[np.argmin(errors)]
            self.inverse = (V / (values + ridge)) @ V.T
        self.solved = sums @ self.inverse  # Y^T Z B, of all rows, corrections included
        self.counts = self.at_first.copy()
        self.X = X.copy()  # initial rows, whose weights may change
        self.y = y.copy()
        # Rows added beside B
        self.Z = np.zeros((0, self.features))
        self.ZB = np.zeros((0, self.features))
        self.ZBZ = np.zeros((0, 0))
        self.labels = np.zeros(0, np.int64)
        self.old_weights = np.zeros(0)  # that they have in B
        self._weigh()

    def _weigh(self):
        """Set weights W (C, M) of the regression over all rows.

        Let Z (k, M) be the added rows and D the change of their weights. Then the inverse is
        ``B - B Z^T (D^-1 + Z B Z^T)^-1 Z B`` (Woodbury 1950). With T = Y^T D Z over all rows,
        ``W = T B - T B Z^T (D^-1 + Z B Z^T)^-1 Z B``.
        """
        self.weights = 1 / np.maximum(self.counts, 1)  # of a row of each class
        changes = self.weights[self.labels] - self.old_weights
        TB = self.solved * self.weights[:, None]
        kernel = self.ZBZ + np.diag(1 / changes)
        self.correction = np.linalg.solve(kernel, self.Z @ TB.T)
        self.W = TB - self.correction.T @ self.ZB

    def _correct(self, x, y):
        X = x[None]
        old_weights = np.zeros(1)
        if self.at_first[y] == self.counts[y]:  # the weights of its initial rows change from now on
            own = self.X[self.y == y]
            X = np.vstack([own, X])
            old_weights = np.append(np.full(len(own), 1 / max(len(own), 1)), old_weights)
        Z = rectified(X, self.projection)
        ZB = Z @ self.inverse
        across = self.Z @ ZB.T
        self.ZBZ = np.block([[self.ZBZ, across], [across.T, Z @ ZB.T]])
        self.Z = np.concatenate([self.Z, Z])
        self.ZB = np.concatenate([self.ZB, ZB])
        self.labels = np.append(self.labels, np.full(len(X), y))
        self.old_weights = np.append(self.old_weights, old_weights)
        self.counts[y] += 1
        self.solved[y] += ZB[-1]
        self._weigh()

    def _scores(self, X):
        return rectified(X, self.projection) @ self.W.T

    def _follow(self, Q):
        """Scores of fixed queries F from products F B Z^T, each of which is taken once.

        ``F W^T = F (T B)^T - F (Z B)^T correction``. Since now, T B grows by the rows of Z B that
        are corrections.
        """
        F = rectified(Q, self.projection)
        products_with = StandingProducts(F)
        solved = F @ self.solved.T
        now = len(self.labels)

        def scores(rows):
            products = products_with(self.ZB, rows)
            corrections = self.old_weights[now:] == 0
            classes = np.eye(self.n_classes)[self.labels[now:]] * corrections[:, None]
            TB = (solved[rows] + products[:, now:] @ classes) * self.weights
            return TB - products @ self.correction

        return scores

    def storage(self) -> Storage:
        first = [self.projection, self.inverse, self.at_first, self.X, self.y]
        added = [self.Z, self.ZB, self.ZBZ, self.labels, self.old_weights]
        size = sum(part.nbytes for part in [*first, *added, self.counts, self.solved, self.W])
        return Storage(size, parameters=self.inverse.size + self.W.size)


def left_out_errors(
    F: np.ndarray, y: np.ndarray, d: np.ndarray, values: np.ndarray, targets: np.ndarray
) -> list[float]:
    """Weighted squared errors on rows left out in turn, for each of ``RIDGES``.

    ``F`` (n, M) are features of rows along the eigenvectors of Z^T D Z, which has the eigenvalues
    ``values`` (M,); ``y`` (n,) are their classes, ``d`` (n,) their weights. ``targets`` (C, M) is
    Y^T D Z along the eigenvectors.
    """
    # Of row i the error is (W z_i - e_y) / (1 - h_i), by the leverage h_i = d_i z_i^T B z_i.
    rests = 1 - d[:, None] * (F**2 @ (1 / (values[:, None] + RIDGES)))
    errors = []
    for ridge, rest in zip(RIDGES, np.maximum(rests, LEAST_REST).T):
        misses = F @ (targets / (values + ridge)).T
        misses[np.arange(len(y)), y] -= 1
        errors.append(d @ (np.einsum("nc,nc->n", misses, misses) / rest**2))
    return errors
