"""Class means, streaming discriminants and recursive least squares: closed forms, updated exactly."""

from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.shared import shared
from ocrrlib.systems.base import TEMPERATURE, Storage, System, class_means, class_sums, is_known

GROWTH = 1.5  # once rows are so many times those at the last inversion, the matrix is inverted again
BLOCK = 32  # rank-one terms that are kept beside the inverse before they are folded into it
SAMPLE = 1000  # rows that the bandwidth of random features is taken from


@dataclass(eq=False)
class NCM(System):
    """Answers the class whose mean has the smallest Euclidean distance (Mensink et al. 2013).

    Raw means are short where a class is spread out, which favours such a class for far rows.
    """

    #: whether means are scaled to length 1 first, so that the highest cosine decides (iCaRL, Rebuffi et al. 2017)
    unit: bool = False
    temperature = TEMPERATURE

    def _fit(self, X, y):
        self.sums, self.counts = class_sums(X, y, self.n_classes)

    def _scores(self, X):
        """Half the squared distance, without the part that is the same for all classes, negated."""
        means = class_means(self.sums, self.counts)
        squares = np.einsum("cd,cd->c", means, means)
        if self.unit:
            means, squares = means / np.sqrt(np.where(squares, squares, 1))[:, None], 1.0
        return X.astype(np.float64) @ means.T - squares / 2

    def _correct(self, x, y):
        self.sums[y] += x
        self.counts[y] += 1

    def storage(self):
        return Storage(self.sums.nbytes + self.counts.nbytes, parameters=self.sums.size)


def lift(X, frequencies=None, phases=0.0):
    """Rows (n, d) as float64, or their random Fourier features (n, D) (Rahimi and Recht 2007)."""
    Z = X.astype(np.float64)
    if frequencies is not None:
        Z = Z @ frequencies
        Z += phases
        np.cos(Z, out=Z)
        Z *= np.sqrt(2 / len(phases))
    return Z


def draw_features(features, d, bandwidth, seed):
    """Frequencies (d, D) and phases (D,) of features whose products approximate an RBF kernel of this bandwidth."""
    rng = np.random.default_rng([seed, 2])
    return rng.normal(0, 1 / bandwidth, (d, features)), rng.uniform(0, 2 * np.pi, features)


def median_distance(X, seed):
    """The median distance between two of at most ``SAMPLE`` rows; 1 where there are no two different ones."""
    rows = np.random.default_rng([seed, 1]).permutation(len(X))[:SAMPLE]
    cosines = (X[rows].astype(np.float64) @ X[rows].T.astype(np.float64))[np.triu_indices(len(rows), 1)]
    # Unit rows; the mid of an even number of pairs is the lower one, an exact value.
    return float(np.sqrt(max(2 - 2 * np.quantile(cosines, 0.5, method="lower"), 0)) or 1.0) if len(cosines) else 1.0


def ridge_of(shrinkage, target, counts, trace, d):
    """Weight of the identity beside the scatter (d, d) of so many rows of each class (C,), whose trace is given."""
    if target == "identity":
        return shrinkage * counts.sum()
    free = counts.sum() - np.count_nonzero(counts)
    return shrinkage * (trace / d if is_known(trace, free) else 1.0)


@shared(keep=3)
def _initial(X, y, n_classes, shrinkage, target, *drawn):
    """Counts (C,), means (C, D), trace of the scatter, weight of the identity, inverse (D, D)."""
    Z = lift(X, *drawn)
    sums, counts = class_sums(Z, y, n_classes)
    means = class_means(sums, counts)
    Z -= means[y]
    with threadpool_limits(1):  # so that sums are made in one order
        A = (1 - shrinkage) * (Z.T @ Z)
        trace = float(np.vdot(Z, Z))
        ridge = ridge_of(shrinkage, target, counts, trace, len(A))
        A.flat[:: len(A) + 1] += ridge
        return counts, means, trace, ridge, np.linalg.inv(A)


@dataclass(eq=False)
class SLDA(System):
    """Gaussian classes with running means and one running covariance, shrunk: ``(1 - s) S / n + s I``.

    Streaming linear discriminant analysis (Hayes and Kanan 2020, Deep SLDA). S is the scatter of the n rows around
    the means of their classes, and the same as if computed from all rows at once: the k-th row of a class enters it
    with weight (k - 1) / k, so a class's first row does not enter it at all.  (The source weighs by rows of all
    classes, and has the first row enter around a zero mean; the covariance of its initial rows is an OAS estimate.)
    All classes are taken as equally likely.

    Inverse and weights change by rank-one updates.  The n that multiplies s is the one at
    the last inversion; there is another when rows have become half as many again.
    """

    shrinkage: float = 1e-4  #: s, above 0, as in the source
    #: ``identity`` as in the source, or ``variance``: I times the mean variance (1 / n while that is not known)
    target: str = "identity"
    updated: bool = True  #: whether corrections change the covariance, as in the source, or the means only
    drawn = ()  # random features, in subclasses

    def _fit(self, X, y):
        state = _initial(X, y, self.n_classes, self.shrinkage, self.target, *self.drawn)
        counts, means, self.trace, self.ridge, self.inverse = state  # the inverse is shared: never written to
        self.counts, self.means, self.inverted_at = counts.copy(), means.copy(), len(y)
        self.terms = np.zeros((0, self.means.shape[1]))
        self.W = self.means @ self.inverse
        self._weigh()

    def _weigh(self):
        self.b = np.einsum("cd,cd->c", self.means, self.W) / -2

    def _discriminants(self, Z):
        """Log-densities (m, C) of features (m, D), less what all classes have in common."""
        rows = self.counts.sum() if self.updated else self.inverted_at  # that the covariance is of
        return (Z @ self.W.T + self.b) * rows

    def _scores(self, X):
        return self._discriminants(lift(X, *self.drawn))

    def _correct(self, x, y):
        n = int(self.counts[y])
        v = lift(x[None], *self.drawn)[0] - self.means[y]
        u = self.inverse @ v - (self.terms @ v) @ self.terms
        weight = (1 - self.shrinkage) * n / (n + 1) if self.updated else 0.0
        gain = 1 + weight * (v @ u)
        move = -weight / gain * (self.means @ u)
        move[y] += 1 / (gain * (n + 1))
        if weight:  # Sherman and Morrison (1950)
            self.terms = np.concatenate([self.terms, np.sqrt(weight / gain) * u[None]])
        self.W += np.multiply.outer(move, u)
        self.trace += n / (n + 1) * float(v @ v)
        self.means[y] += v / (n + 1)
        self.counts[y] += 1
        if len(self.terms) == BLOCK:
            self._fold()
        if self.updated and self.counts.sum() >= GROWTH * self.inverted_at:
            self._invert()
        self._weigh()

    def _fold(self):
        self.inverse = self.inverse - self.terms.T @ self.terms
        self.terms = self.terms[:0].copy()

    def _invert(self):
        self._fold()
        ridge = ridge_of(self.shrinkage, self.target, self.counts, self.trace, len(self.inverse))
        A = np.linalg.inv(self.inverse)
        A.flat[:: len(A) + 1] += ridge - self.ridge
        self.inverse, self.ridge, self.inverted_at = np.linalg.inv(A), ridge, self.counts.sum()
        self.W = self.means @ self.inverse

    def storage(self):
        kept = self.means, self.inverse, self.terms, self.W, self.b, self.counts, *self.drawn
        return Storage(sum(part.nbytes for part in kept), parameters=self.means.size + self.inverse.size)


@dataclass(eq=False)
class KLDA(SLDA):
    """SLDA on random features of the rows, as in RanDumb (Prabhu et al. 2024) and KLDA (Momeni et al. 2025).

    Number of features, bandwidth (the median distance of rows) and shrinkage are this benchmark's
    own choice.  RanDumb's code has 10,000 features by default, a bandwidth by scikit-learn's
    "scale" rule and the shrinkage of an OAS estimate.
    """

    features: int = 2000
    shrinkage: float = 0.2
    target: str = "variance"

    def _fit(self, X, y):
        self.drawn = draw_features(self.features, self.dim, median_distance(X, self.seed), self.seed)
        super()._fit(X, y)

    def _follow(self, Q):
        Z = lift(Q, *self.drawn)
        return lambda rows: self._discriminants(Z[rows])


@dataclass(eq=False)
class RLS(System):
    """Recursive least squares, i.e. ridge regression on one-hot targets (as in ACIL, Zhuang et al. 2022).

    Weights are at any time those of the regression over all rows so far, initial and corrected. The source
    regresses on random features of the rows, after a ReLU (8192 by its code's default); here on the rows.
    """

    ridge: float = 0.1  #: weight of the squared norm beside the sum of squared errors, as in the source's code
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
        return Storage(sum(part.nbytes for part in kept), parameters=self.inverse.size + self.W.size)
