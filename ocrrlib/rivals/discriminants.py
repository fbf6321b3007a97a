"""Class means and streaming linear discriminants, updated exactly."""

from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.rivals.features import draw_features, lift, median_distance
from ocrrlib.rivals.standing import StandingProducts
from ocrrlib.shared import shared
from ocrrlib.systems.base import Storage, System, class_means, class_sums
from ocrrlib.voting import TEMPERATURE

REINVERT_AT = 1.5  # times the rows at the last inversion, the matrix is inverted again
MOST_TERMS = 32  # of rank one, kept beside the inverse before they are folded into it
LEAST_SCATTER = 1e-6  # squared distance to the class mean below which rows are copies


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
        # -|x - mu|^2 / 2 = x . mu - |mu|^2 / 2 - |x|^2 / 2, of which the last is common to classes
        means = class_means(self.sums, self.counts)
        squares = np.einsum("cd,cd->c", means, means)
        if self.unit:
            means = means / np.sqrt(np.where(squares, squares, 1))[:, None]
            squares = 1.0
        return X.astype(np.float64) @ means.T - squares / 2

    def _correct(self, x, y):
        self.sums[y] += x
        self.counts[y] += 1

    def storage(self) -> Storage:
        return Storage(self.sums.nbytes + self.counts.nbytes, parameters=self.sums.size)


@dataclass(eq=False)
class SLDA(System):
    """Streaming linear discriminant analysis (Hayes and Kanan 2020, Deep SLDA).

    Gaussian classes with running means and one running covariance, ``(1 - s) S / n + s I``. S is
    the scatter of the n rows around the means of their classes, as if computed from all rows at
    once: the k-th row of a class enters it with weight (k - 1) / k, so a class's first row does not
    enter it at all. (The source weighs by rows of all classes, and has the first row enter around a
    zero mean; the covariance of its initial rows is an OAS estimate.) All classes are taken as
    equally likely.

    With A = (1 - s) S + r I, the discriminant of class c is ``n (x . w_c - m_c . w_c / 2)``, where
    w_c = A^-1 m_c. With each correction A^-1 and the weights change by terms of rank one. The
    ridge r is s n, with the n of the last inversion of A, which is inverted anew once rows have
    become half as many again.
    """

    shrinkage: float = 1e-4  #: s, above 0, as in the source
    #: ``identity`` as in the source, or ``variance``: I times the mean variance tr(S) / (n D), or
    #: 1 / n while rows of no class vary
    target: str = "identity"
    #: whether corrections change the covariance, as in the source, or the means only
    updated: bool = True
    #: rows that the mean of the initial rows counts for in the means that classes are scored by
    prior_rows: float = 0
    drawn = ()  # frequencies and phases of random features, in subclasses

    def _fit(self, X, y):
        start = _initial(X, y, self.n_classes, self.shrinkage, self.target, *self.drawn)
        counts, means, self.trace, self.ridge, self.inverse = start
        self.counts = counts.copy()  # the start is shared; the inverse is never written to
        self.inverted_at = len(y)
        self.terms = np.zeros((0, means.shape[1]))  # A^-1 = inverse - terms^T terms
        self.means = means.copy()
        if self.prior_rows:  # one more row, the mean of all initial rows
            self.means = np.vstack([means, counts @ means / len(y)])
        self.W = self.means @ self.inverse
        self._weigh()

    def _weigh(self):
        """Set weights (C, D) and offsets (C,) of the discriminants."""
        self.weights = self._held(self.W)
        self.b = np.einsum("cd,cd->c", self._held(self.means), self.weights) / -2

    def _held(self, M):
        """Rows (C, D) of classes, held to the last row of M, which is for the mean initial row."""
        if not self.prior_rows:
            return M
        return class_means(self.counts[:, None] * M[:-1], self.counts, M[-1], self.prior_rows)

    def _scores(self, X):
        return self._discriminants(lift(X, *self.drawn) @ self.weights.T)

    def _discriminants(self, products):
        """Log-densities (m, C) but for a constant, from products (m, C) of rows and weights."""
        n = self.counts.sum() if self.updated else self.inverted_at  # rows in the covariance
        return (products + self.b) * n

    def _correct(self, x, y):
        # m_y = m_y + v / (k + 1),  v = x - m_y,  with k rows of class y before this one
        # A = A + a v v^T,  a = (1 - s) k / (k + 1); by Sherman and Morrison (1950)
        # A^-1 = A^-1 - a / g u u^T,  u = A^-1 v,  g = 1 + a v . u
        # W = M A^-1 = W + move u^T,  move = (e_y / (k + 1) - a M u) / g
        k = int(self.counts[y])
        v = lift(x[None], *self.drawn)[0] - self.means[y]
        u = self.inverse @ v - (self.terms @ v) @ self.terms
        a = (1 - self.shrinkage) * k / (k + 1) if self.updated else 0.0
        g = 1 + a * (v @ u)
        move = -a / g * (self.means @ u)
        move[y] += 1 / (g * (k + 1))
        self._move_weights(move, u)
        if a:
            self.terms = np.concatenate([self.terms, np.sqrt(a / g) * u[None]])
        if len(self.terms) == MOST_TERMS:
            self._fold()
        self.trace += k / (k + 1) * float(v @ v)  # of S
        self.means[y] += v / (k + 1)
        self.counts[y] += 1
        if self.updated and self.counts.sum() >= REINVERT_AT * self.inverted_at:
            self._invert()
        self._weigh()

    def _move_weights(self, move, u):
        self.W += np.multiply.outer(move, u)

    def _fold(self):
        self.inverse = self.inverse - self.terms.T @ self.terms
        self.terms = self.terms[:0].copy()

    def _invert(self):
        """Invert A with the ridge of all rows so far."""
        self._fold()
        D = len(self.inverse)
        ridge = _ridge(self.shrinkage, self.target, self.counts, self.trace, D)
        A = np.linalg.inv(self.inverse)
        A.flat[:: D + 1] += ridge - self.ridge
        self.inverse = np.linalg.inv(A)
        self.ridge = ridge
        self.inverted_at = self.counts.sum()
        self.W = self.means @ self.inverse

    def storage(self) -> Storage:
        kept = [self.means, self.inverse, self.terms, self.W, self.b, self.counts, *self.drawn]
        if self.prior_rows:
            kept.append(self.weights)  # otherwise W itself
        size = sum(part.nbytes for part in kept)
        return Storage(size, parameters=self.means.size + self.inverse.size)


@dataclass(eq=False)
class KLDA(SLDA):
    """SLDA on random features, as in RanDumb (Prabhu et al. 2024) and KLDA (Momeni et al. 2025).

    Number of features, bandwidth (the median distance of rows) and shrinkage are this benchmark's
    own choice. RanDumb's code has 10,000 features by default, a bandwidth by scikit-learn's "scale"
    rule and the shrinkage of an OAS estimate.

    Scores of watched queries follow from products that are computed once. If weights were W_0 when
    the log began (at the first watch, or the last inversion of A), they are W_0 + moves^T U after
    k more corrections, with the vectors u of these in the rows of U (k, D), and moves (k, C).
    """

    features: int = 2000
    shrinkage: float = 0.2
    target: str = "variance"

    def _fit(self, X, y):
        bandwidth = median_distance(X, self.seed)
        self.drawn = draw_features(self.features, self.dim, bandwidth, self.seed)
        self.vectors = []  # rows of all W_0 and U, for queries that are watched
        super()._fit(X, y)

    def _log(self):
        """Start with the weights as they are: from here on they change by ``moves``."""
        self.base = len(self.vectors)
        self.moves = []
        self.vectors += list(self.W.copy())

    def _move_weights(self, move, u):
        super()._move_weights(move, u)
        if self.vectors:
            self.vectors.append(u)
            self.moves.append(move)

    def _invert(self):
        super()._invert()
        if self.vectors:
            self._log()

    def _follow(self, Q):
        products = StandingProducts(_lifted(Q, *self.drawn))
        C = len(self.W)
        if not self.vectors:
            self._log()

        def scores(rows):
            # Z W^T = Z W_0^T + Z U^T moves
            first, since = np.split(products(self.vectors, rows)[:, self.base :], [C], axis=1)
            scaled = first + since @ np.reshape(self.moves, (-1, C))
            return self._discriminants(self._held(scaled.T).T)

        return scores


_lifted = shared(keep=1)(lift)  # queries, for several systems


@shared(keep=1)  # systems that differ in shrinkage
def _scatter(X, y, n_classes, *drawn):
    """Counts (C,), means (C, D) and scatter (D, D) of the features of rows."""
    Z = lift(X, *drawn)
    sums, counts = class_sums(Z, y, n_classes)
    means = class_means(sums, counts)
    Z -= means[y]
    with threadpool_limits(1):  # so that sums are made in one order
        return counts, means, Z.T @ Z


@shared(keep=2)  # systems that differ in how they go on
def _initial(X, y, n_classes, s, target, *drawn):
    """The start of a system from its initial rows.

    Counts (C,), means (C, D), trace of the scatter, ridge r, and the inverse (D, D) of
    ``A = (1 - s) S + r I`` with the shrinkage s.
    """
    counts, means, S = _scatter(X, y, n_classes, *drawn)
    trace = float(np.trace(S))
    A = S * (1 - s)
    ridge = _ridge(s, target, counts, trace, len(A))
    A.flat[:: len(A) + 1] += ridge
    with threadpool_limits(1):
        return counts, means, trace, ridge, np.linalg.inv(A)


def _ridge(s, target, counts, trace, D):
    """Weight r of the identity beside the scatter (D, D), whose trace is given.

    It is s n, or with the target ``variance`` s tr(S) / D, or s while rows of no class vary.
    ``counts`` (C,) are the rows of each class, n in all.
    """
    if target == "identity":
        return s * counts.sum()
    if _varies(trace, counts.sum() - np.count_nonzero(counts)):
        return s * (trace / D)
    return s * 1.0


def _varies(scatter, dof):
    """Whether rows of one class differ by more than rounding.

    ``scatter`` is the sum of the squared distances of rows to the mean of their class, ``dof`` its
    degrees of freedom (number of rows less number of classes).
    """
    return scatter > LEAST_SCATTER * dof
