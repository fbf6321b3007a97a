"""Class means and streaming discriminants: closed forms, updated exactly."""

from dataclasses import dataclass, field

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.rivals.covariance import is_known, oas
from ocrrlib.rivals.features import draw_features, lift, median_distance
from ocrrlib.rivals.standing import StandingProducts
from ocrrlib.shared import shared
from ocrrlib.systems.base import TEMPERATURE, Storage, System, class_means, class_sums

GROWTH = (
    1.5  # once rows are so many times those at the last inversion, the matrix is inverted again
)
BLOCK = 32  # rank-one terms that are kept beside the inverse before they are folded into it


@dataclass(eq=False)
class NCM(System):
    """Answers the class whose mean has the smallest Euclidean distance (Mensink et al. 2013).

    Raw means are short where a class is spread out, which favours such a class for far rows.
    """

    #: whether means are scaled to length 1 first, so that the highest cosine decides (iCaRL,
    #: Rebuffi et al. 2017)
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


def ridge_of(shrinkage, target, counts, trace, d):
    """Weight of the identity beside the scatter (d, d) of so many rows of each class (C,), whose trace is given."""
    if target == "identity":
        return shrinkage * counts.sum()
    free = counts.sum() - np.count_nonzero(counts)
    return shrinkage * (trace / d if is_known(trace, free) else 1.0)


_lifted = shared(keep=5)(lift)  # of queries, by the draws of ``klda_5``


@shared(keep=1)
def _scatter(X, y, n_classes, *drawn):
    """Counts (C,), means (C, D) and scatter (D, D) of the features of rows."""
    Z = lift(X, *drawn)
    sums, counts = class_sums(Z, y, n_classes)
    means = class_means(sums, counts)
    Z -= means[y]
    with threadpool_limits(1):  # so that sums are made in one order
        return counts, means, Z.T @ Z


@shared(keep=6)
def _initial(X, y, n_classes, shrinkage, target, *drawn):
    """Counts (C,), means (C, D), trace of the scatter, shrinkage, weight of the identity, inverse (D, D)."""
    counts, means, A = _scatter(X, y, n_classes, *drawn)
    trace = float(np.trace(A))
    shrinkage = oas(A, len(y)) if shrinkage == "oas" else shrinkage
    A = A * (1 - shrinkage)
    ridge = ridge_of(shrinkage, target, counts, trace, len(A))
    A.flat[:: len(A) + 1] += ridge
    with threadpool_limits(1):
        return counts, means, trace, shrinkage, ridge, np.linalg.inv(A)


@dataclass(eq=False)
class SLDA(System):
    """Gaussian classes with running means and one running covariance, shrunk: ``(1 - s) S / n + s I``.

    Streaming linear discriminant analysis (Hayes and Kanan 2020, Deep SLDA). S is the scatter of
    the n rows around the means of their classes, and the same as if computed from all rows at once:
    the k-th row of a class enters it with weight (k - 1) / k, so a class's first row does not enter
    it at all.  (The source weighs by rows of all classes, and has the first row enter around a zero
    mean; the covariance of its initial rows is an OAS estimate.) All classes are taken as equally
    likely.

    Inverse and weights change by rank-one updates.  The n that multiplies s is the one at
    the last inversion; there is another when rows have become half as many again.
    """

    shrinkage: float | str = (
        1e-4  #: s, above 0, as in the source, or ``oas``: of an OAS estimate on the first rows
    )
    #: ``identity`` as in the source, or ``variance``: I times the mean variance (1 / n while that
    #: is not known)
    target: str = "identity"
    updated: bool = (
        True  #: whether corrections change the covariance, as in the source, or the means only
    )
    #: rows that the mean of the first rows counts for against a class's own, in the mean that a
    #: class is scored by
    prior_rows: float = 0
    drawn = ()  # random features, in subclasses

    def _fit(self, X, y):
        state = _initial(X, y, self.n_classes, self.shrinkage, self.target, *self.drawn)
        counts, means, self.trace, self.s, self.ridge, self.inverse = (
            state  # the inverse is shared: never written to
        )
        self.counts, self.inverted_at = counts.copy(), len(y)
        self.means = (
            np.vstack([means, counts @ means / len(y)]) if self.prior_rows else means.copy()
        )
        self.terms = np.zeros((0, self.means.shape[1]))
        self.W, self.vectors = self.means @ self.inverse, []
        self._weigh()

    def _log(self):
        """For watched queries: weights as they are; from here on they change by ``moves`` times vectors to come."""
        self.base, self.moves = len(self.vectors), []
        self.vectors += list(self.W.copy())

    def _held(self, M):
        """Rows of classes held to the last row, that of the mean of the first rows; all of them if nothing is held."""
        return (
            class_means(self.counts[:, None] * M[:-1], self.counts, M[-1], self.prior_rows)
            if self.prior_rows
            else M
        )

    def _weigh(self):
        self.weights = self._held(self.W)
        self.b = np.einsum("cd,cd->c", self._held(self.means), self.weights) / -2

    def _discriminants(self, products):
        """Log-densities (m, C), less what all classes have in common, from products of features and weights."""
        rows = self.counts.sum() if self.updated else self.inverted_at  # that the covariance is of
        return (products + self.b) * rows

    def _scores(self, X):
        return self._discriminants(lift(X, *self.drawn) @ self.weights.T)

    def _follow(self, Q):
        standing, M = StandingProducts(_lifted(Q, *self.drawn)), len(self.W)
        if not self.vectors:
            self._log()

        def scores(rows):
            first, later = np.split(standing(self.vectors, rows)[:, self.base :], [M], axis=1)
            return self._discriminants(
                self._held((first + later @ np.reshape(self.moves, (-1, M))).T).T
            )

        return scores

    def _correct(self, x, y):
        n = int(self.counts[y])
        v = lift(x[None], *self.drawn)[0] - self.means[y]
        u = self.inverse @ v - (self.terms @ v) @ self.terms
        weight = (1 - self.s) * n / (n + 1) if self.updated else 0.0
        gain = 1 + weight * (v @ u)
        move = -weight / gain * (self.means @ u)
        move[y] += 1 / (gain * (n + 1))
        if weight:  # Sherman and Morrison (1950)
            self.terms = np.concatenate([self.terms, np.sqrt(weight / gain) * u[None]])
        self.W += np.multiply.outer(move, u)
        if self.vectors:
            self.vectors.append(u)
            self.moves.append(move)
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
        ridge = ridge_of(self.s, self.target, self.counts, self.trace, len(self.inverse))
        A = np.linalg.inv(self.inverse)
        A.flat[:: len(A) + 1] += ridge - self.ridge
        self.inverse, self.ridge, self.inverted_at = np.linalg.inv(A), ridge, self.counts.sum()
        self.W = self.means @ self.inverse
        if self.vectors:
            self._log()

    def storage(self):
        held = [self.weights] if self.prior_rows else []
        kept = self.means, self.inverse, self.terms, self.W, self.b, self.counts, *self.drawn, *held
        return Storage(
            sum(part.nbytes for part in kept), parameters=self.means.size + self.inverse.size
        )


@dataclass(eq=False)
class KLDA(SLDA):
    """SLDA on random features of the rows, as in RanDumb (Prabhu et al. 2024) and KLDA (Momeni et al. 2025).

    Number of features, bandwidth (the median distance of rows) and shrinkage are this benchmark's
    own choice.  RanDumb's code has 10,000 features by default, a bandwidth by scikit-learn's
    "scale" rule and the shrinkage of an OAS estimate.
    """

    features: int = 2000
    shrinkage: float | str = 0.2
    target: str = "variance"

    def _fit(self, X, y):
        self.drawn = draw_features(
            self.features, self.dim, median_distance(X, self.seed), self.seed
        )
        super()._fit(X, y)


@dataclass(eq=False)
class AveragedKLDA(System):
    """Mean probabilities of KLDA systems that differ in the draw of their features (KLDA-E, Momeni et al. 2025)."""

    draws: int = 5  #: such systems
    params: dict = field(default_factory=dict)  #: hyperparameters of each
    probabilistic = True

    def _fit(self, X, y):
        others = np.random.default_rng([self.seed, 9]).integers(2**31, size=self.draws - 1).tolist()
        self.members = [
            KLDA(seed, **self.params).fit(X, y, range(self.n_classes))
            for seed in (self.seed, *others)
        ]

    def _mean(self, scores):
        return (
            sum(member._probabilities(own) for member, own in zip(self.members, scores))
            / self.draws
        )

    def _scores(self, X):
        return self._mean(member._scores(X) for member in self.members)

    def _follow(self, Q):
        standing = [member._follow(Q) for member in self.members]
        return lambda rows: self._mean(scores(rows) for scores in standing)

    def _correct(self, x, y):
        for member in self.members:
            member.correct(x, y)

    def storage(self):
        held = [member.storage() for member in self.members]
        return Storage(
            sum(one.bytes for one in held), parameters=sum(one.parameters for one in held)
        )
