"""``slda``: streaming linear discriminant analysis (Hayes and Kanan 2020, Deep SLDA)."""

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.errors import pick
from ocrrlib.shared import shared
from ocrrlib.systems.base import Storage, System
from ocrrlib.systems.linear import best_seen, class_sums, softmax_seen
from ocrrlib.systems.scatter import is_known
from ocrrlib.systems.standing import Moves, StandingProducts

GROWTH = 1.5  # once rows are so many times those at the last inversion, the matrix is inverted anew
BLOCK = 32  # rank-one terms that are kept beside the inverse before they are folded into it

# The scatter (D, D) of some rows, its trace given, is shrunk towards so many times the identity.
TARGETS = {
    "identity": lambda rows, free, trace, d: max(rows, 1),
    "variance": lambda rows, free, trace, d: trace / d if is_known(trace, free) else 1.0,
}


def _features(X, lift):
    return X.astype(np.float64) if lift is None else lift(X)


@shared(keep=3)
def _initial(X, y, n_classes, lift, shrinkage, target):
    """Counts (C,), means (C, D), trace of the scatter, weight of the identity, inverse (D, D)."""
    Z = _features(X, lift)
    counts, means = np.bincount(y, minlength=n_classes), class_sums(Z, y, n_classes)
    means /= np.maximum(counts, 1)[:, None]
    Z -= means[y]
    with threadpool_limits(1):  # so that sums are made in one order
        A = (1 - shrinkage) * (Z.T @ Z)
        trace = float(np.vdot(Z, Z))
        free = len(y) - np.count_nonzero(counts)
        ridge = shrinkage * TARGETS[target](len(y), free, trace, len(A))
        A.flat[:: len(A) + 1] += ridge
        return counts, means, trace, ridge, np.linalg.inv(A)


class SLDA(System):
    """Gaussian classes with running means and one running covariance, shrunk: ``(1 - s) S / n + s I``.

    S is the scatter of the n rows around the means of their classes, and the same
    as if computed from all rows at once: the k-th row of a class enters it with
    weight (k - 1) / k, so a class's first row does not enter it at all.  (The source
    weighs by rows of all classes, and has the first row enter around a zero mean; the
    covariance of its initial rows is an OAS estimate.)
    All classes are taken as equally likely.

    Inverse and weights change by rank-one updates.  The n that multiplies s is the one at
    the last inversion; there is another when rows have become half as many again.

    Parameters
    ----------
    shrinkage : float
        s, above 0; 1e-4 in the source.
    target : str
        ``identity`` as in the source, or ``variance``: I times the mean variance (times 1 / n while rows of one
        class are not known to vary).
    updated : bool
        Whether corrections change the covariance, or the means only; the source has both.
    """

    lift = None  # from rows to features, for subclasses

    def __init__(self, seed=0, shrinkage=1e-4, target="identity", updated=True):
        super().__init__(seed)
        pick("target", target, TARGETS)
        self.shrinkage, self.target, self.updated = shrinkage, target, updated

    def _fit(self, X, y):
        state = _initial(X, y, self.n_classes, self.lift, self.shrinkage, self.target)
        counts, means, self.trace, self.ridge, self.inverse = state  # the inverse is shared: never written to
        self.counts, self.means = counts.copy(), means.copy()
        self.rows = self.inverted_at = len(y)
        self.terms = np.zeros((0, self.means.shape[1]))
        self.W, self.moves = self.means @ self.inverse, None
        self._weigh()

    def _weigh(self):
        self.b = np.einsum("cd,cd->c", self.means, self.W) / -2

    def _discriminants(self, products):
        """Log-densities (m, C), less what all classes have in common; products (m, C) with the weights are used up."""
        products += self.b
        products *= max(self.rows if self.updated else self.inverted_at, 1)  # rows that the covariance is of
        return products

    def _products(self, X):
        return _features(X, self.lift) @ self.W.T

    def _predict(self, X):
        return best_seen(self._discriminants(self._products(X)), self.counts > 0)

    def _probabilities(self, X):
        return softmax_seen(self._discriminants(self._products(X)), self.counts > 0)

    def _follow(self, Z):
        """Discriminants of fixed features (q, D), by row number."""
        if self.moves is None:
            self.moves = Moves(*self.W.shape)
        standing = StandingProducts(Z, lambda: self.W, self.moves)
        return lambda rows: self._discriminants(standing(rows))

    def _fixed(self, Q):
        """Features (q, D) of rows that are asked about again and again."""
        return _features(Q, self.lift)

    def watch(self, Q):
        discriminants = self._follow(self._fixed(Q))
        return lambda rows: best_seen(discriminants(rows), self.counts > 0)

    def watch_probabilities(self, Q):
        discriminants = self._follow(self._fixed(Q))
        return lambda rows: softmax_seen(discriminants(rows), self.counts > 0)

    def _correct(self, x, y):
        n = int(self.counts[y])
        v = _features(x[None], self.lift)[0] - self.means[y]
        u = self.inverse @ v - (self.terms @ v) @ self.terms
        weight = (1 - self.shrinkage) * n / (n + 1) if self.updated else 0.0
        gain = 1 + weight * (v @ u)
        move = -weight / gain * (self.means @ u)
        move[y] += 1 / (gain * (n + 1))
        if weight:  # Sherman and Morrison (1950)
            self.terms = np.concatenate([self.terms, np.sqrt(weight / gain) * u[None]])
            self.W += np.multiply.outer(move, u)
            self.trace += n / (n + 1) * float(v @ v)
        else:
            self.W[y] += move[y] * u
        if self.moves is not None:
            self.moves.add(move, u)
        self.means[y] += v / (n + 1)
        self.counts[y] += 1
        self.rows += 1
        if len(self.terms) == BLOCK:
            self._fold()
        if self.updated and self.rows >= GROWTH * self.inverted_at:
            self._invert()
        self._weigh()

    def _fold(self):
        self.inverse = self.inverse - self.terms.T @ self.terms
        self.terms = self.terms[:0].copy()

    def _invert(self):
        self._fold()
        free = self.rows - np.count_nonzero(self.counts)
        ridge = self.shrinkage * TARGETS[self.target](self.rows, free, self.trace, len(self.inverse))
        A = np.linalg.inv(self.inverse)
        A.flat[:: len(A) + 1] += ridge - self.ridge
        self.inverse, self.ridge, self.inverted_at = np.linalg.inv(A), ridge, self.rows
        self.W = self.means @ self.inverse
        if self.moves is not None:
            self.moves.restart()

    def storage(self):
        kept = self.means, self.inverse, self.terms, self.W, self.b, self.counts
        learnt = self.means.size + self.inverse.size
        return Storage(sum(part.nbytes for part in kept), parameters=learnt)
