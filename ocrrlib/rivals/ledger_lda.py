"""The proposed system: class means, nearest entries and a head that read the substrate's ledger.

Symbols are those of paper/supplement.md, section "The proposed system".
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from ocrrlib.rivals.covariance import discriminant_basis, ledoit_wolf_shrinkage
from ocrrlib.rivals.even import even_prior
from ocrrlib.rivals.gaussians import GaussianClasses
from ocrrlib.rivals.readers import LedgerReader
from ocrrlib.rivals.standing import StandingScores
from ocrrlib.search import SAME_VECTOR, StandingClasses, class_cosines, nearest_cosines
from ocrrlib.shared import shared
from ocrrlib.systems.base import class_means, class_sums, softmax_seen
from ocrrlib.systems.heads import train, with_bias

ROWS_PER_HALF = 1000  # at most, of the initial rows, that the weights are fitted to
FIRST_WEIGHTS = (0.1, 10.0), (1.0, 1.0, 1.0, 0.01)  # where the search for the weights begins


class WhitenedMeans(GaussianClasses):
    """Linear discriminants: a row is nearest to the mean of its class, once rows are whitened.

    Whitening is by the covariance within classes of the first rows X (n, d) of classes y (n,),
    shrunk as by Ledoit and Wolf (2004). Means follow the rows learnt. Features of a row are its
    whitened coordinates. ``frequency`` (C,), the logarithms of the numbers of first rows, and
    ``spread`` (C,), the mean variance of those of a class along a coordinate, stay as they are.
    """

    def __init__(self, X: np.ndarray, y: np.ndarray, n_classes: int):
        with threadpool_limits(1):  # so that sums are made in one order
            shrinkage = ledoit_wolf_shrinkage(X, y, n_classes)
            self.mu, self.P, _ = discriminant_basis(X, y, n_classes, shrinkage)
            Z = self.project(X)
            sums, counts = class_sums(Z, y, n_classes)
        super().__init__(counts, sums)
        # s_c = z . m_c - |m_c|^2 / 2 = (|z|^2 - |z - m_c|^2) / 2
        self.weights = class_means(sums, counts)
        self.offset = np.einsum("cd,cd->c", self.weights, self.weights) / -2
        self.frequency = np.log(np.maximum(counts, 1))
        # sigma_c = sum |z - m_c|^2 / (d (n_c - 1)), 1 for a class of one row
        R = Z - self.weights[y]
        squares = np.bincount(y, np.einsum("nd,nd->n", R, R), n_classes)
        self.spread = np.ones(n_classes)
        several = counts > 1
        self.spread[several] = squares[several] / (Z.shape[1] * (counts[several] - 1))

    def project(self, X: np.ndarray) -> np.ndarray:
        """Features (m, d) float64 of rows (m, d)."""
        # z = P^T (x - mu)
        return (X - self.mu) @ self.P

    def excess(self, features: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Change of log-densities (m, C) by the spread of each class, to first order.

        ``features`` (m, d) are of rows, with ``scores`` (m, C).
        """
        # f_c = (sigma_c - 1) d/dsigma (-|z - m_c|^2 / (2 sigma) - d/2 log sigma), at sigma = 1
        #     = (sigma_c - 1) (|z - m_c|^2 - d) / 2,  with |z - m_c|^2 = |z|^2 - 2 s_c
        squares = np.einsum("md,md->m", features, features)[:, None]
        return (self.spread - 1) * ((squares - features.shape[1]) / 2 - scores)

    def _add(self, features, y):
        self.counts[y] += 1
        self.sums[y] += features
        self.weights[y] = self.sums[y] / self.counts[y]
        self.offset[y] = self.weights[y] @ self.weights[y] / -2


@dataclass(eq=False, kw_only=True)
class LedgerLDA(LedgerReader):
    """The proposed reader: a correction is appended to the ledger, as in ``substrate``.

    Every class met has a score, and probabilities are a conditional logit (McFadden 1974)::

        a_c = alpha s_c + beta cos_c + log pi_c            p_c = exp(a_c) / sum_k exp(a_k)

        s_c = z . m_c - |m_c|^2 / 2                        whitened mean m_c of the class's entries
        z = W^(-1/2) (x - mu)                              W = (1 - lambda) S + lambda tr(S) / d I
        cos_c = highest cosine of x to an entry of c
        pi_c = K / N for a new class of two entries, or more, of K known and N new ones; else 1

    S is the covariance within the classes of the initial rows, lambda its shrinkage by Ledoit and
    Wolf (2004). The known classes keep their total probability and divide it anew::

        b_c = rho a_c + eta h_c + phi log n_c + psi f_c    p_c = sum_known p_k softmax_known(b)_c

        h_c = logit of the head of ``static_linear``       n_c = number of initial rows of c
        f_c = (sigma_c - 1) (|z - m_c|^2 - d) / 2          sigma_c = their mean variance in z

    The six weights, from alpha to psi, maximise a likelihood: each half of the initial rows is read
    by readers fitted to the other half (``reader_weights``). If the vector of x is stored, only
    classes that store it are possible.

    Evidence is log-probabilities. The ``k`` nearest entries only explain an answer.
    """

    probabilistic = False

    def _fit(self, X, y):
        super()._fit(X, y)
        self.known = self.seen.copy()
        self.model = WhitenedMeans(X, y, self.n_classes)
        self.models = [self.model]
        settings = self.epochs, self.fit_lr, self.weight_decay, self.batch
        first, second = reader_weights(X, y, self.seed, settings)
        self.alpha, self.beta = first
        self.rho, self.eta, self.phi, self.psi = second

    def _mix(self, features, scores, cosines, logits):
        """Log-probabilities (m, C) from what each reader says of m rows.

        Features (m, d) and scores (m, C) of the means, highest cosines (m, C), and logits (m, C) of
        the head.
        """
        # a_c = alpha s_c + beta cos_c + log prior_c
        prior = even_prior(self.model.counts, self.known)
        a = self.alpha * scores + self.beta * np.where(self.seen, cosines, 0) + np.log(prior)
        # Among known classes: a_c = A + b_c - log sum_k exp(b_k), with A = log sum_k exp(a_k) and
        # b_c = rho a_c + eta h_c + phi log n_c + psi f_c
        known = a[:, self.known]
        own = self.phi * self.model.frequency + self.psi * self.model.excess(features, scores)
        shares = self.rho * known + self.eta * logits[:, self.known] + own[:, self.known]
        total = log_total(known)
        a[:, self.known] = total + shares - log_total(shares)
        # A copy leaves no other class
        copies = cosines >= SAME_VECTOR
        possible = np.where(copies.any(axis=1, keepdims=True), copies, self.seen)
        a[~possible] = -np.inf
        return a - log_total(a)

    def _evidence(self, X):
        self._catch_up()
        features = self.model.project(X)
        scores = self.model.scores(features)
        cosines = nearest_cosines(X, self.entries, self.n_classes)
        return self._mix(features, scores, cosines, self.head._scores(X))

    def _combine(self, X, near):
        return self._evidence(X)

    def _follow(self, Q):
        features = self.model.project(Q)
        scores = StandingScores(self.model, features)
        nearest = StandingClasses(Q, self.entries, self.n_classes)
        logits = self.head._scores(Q)

        def log_probabilities(rows):
            self._catch_up()
            return self._mix(features[rows], scores(rows), nearest.cosines(rows), logits[rows])

        return log_probabilities

    def _probabilities(self, evidence):
        return softmax_seen(evidence, self.seen)


def log_total(a: np.ndarray) -> np.ndarray:
    """Logarithms (m, 1) of the sums of exp(a) over the columns of a (m, c)."""
    highest = a.max(axis=1, keepdims=True)
    return highest + np.log(np.exp(a - highest).sum(axis=1, keepdims=True))


@shared(keep=2)
def reader_weights(
    X: np.ndarray, y: np.ndarray, seed: int, settings: tuple
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Weights (alpha, beta) and (rho, eta, phi, psi), from rows X (n, d) of classes y (n,).

    Rows are dealt to two halves; ``ROWS_PER_HALF`` of each are read by readers that were fitted to
    the other half. ``seed`` decides the halves, and the head's draws, whose ``settings`` are those
    of ``train`` from ``epochs`` on.
    """
    classes, ranks = np.unique(y, return_inverse=True)
    order = np.random.default_rng([seed, 8]).permutation(len(y))
    by_class = order[np.argsort(ranks[order], kind="stable")]
    half = np.empty(len(y), np.int64)
    half[by_class] = np.arange(len(y)) % 2
    read = []
    for side in (0, 1):
        rest = half != side
        there = np.isin(np.arange(len(classes)), ranks[rest])
        asked = order[(half[order] == side) & there[ranks[order]]][:ROWS_PER_HALF]
        if len(asked):
            found = read_by_others(X, ranks, len(classes), rest, asked, seed, settings)
            read.append((*found, ranks[asked]))
    if not read:
        return FIRST_WEIGHTS
    parts = [np.concatenate(part) for part in zip(*read)]
    scores, cosines, logits, frequency, excess, own = parts
    first = likeliest_weights([scores, cosines], own, FIRST_WEIGHTS[0])
    met = np.isfinite(scores)
    a = first[0] * np.where(met, scores, 0) + first[1] * np.where(met, cosines, 0)
    a[~met] = -np.inf
    return first, likeliest_weights([a, logits, frequency, excess], own, FIRST_WEIGHTS[1])


def read_by_others(
    X: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    rest: np.ndarray,
    asked: np.ndarray,
    seed: int,
    settings: tuple,
) -> tuple[np.ndarray, ...]:
    """Scores, highest cosines, logits, log n_c and f_c (m, K) of rows, by readers fitted to others.

    ``asked`` (m,) are places in the rows X (n, d) of classes y (n,), and ``rest`` (n,) bool tells
    to which the readers are fitted. A class without such rows has scores and cosines of -inf.
    """
    with threadpool_limits(1):  # so that sums are made in one order
        model = WhitenedMeans(X[rest], y[rest], n_classes)
        features = model.project(X[asked])
        scores = model.scores(features)
        frequency = np.broadcast_to(model.frequency, scores.shape)
        excess = model.excess(features, scores)
        scores[:, model.counts == 0] = -np.inf
        cosines = class_cosines(X[asked], X[rest], y[rest], n_classes)
        theta = train(X[rest], y[rest], n_classes, seed, *settings)
        logits = with_bias(X[asked]) @ theta.T
    return scores, cosines, logits, frequency, excess


def likeliest_weights(
    features: list[np.ndarray], own: np.ndarray, start: tuple[float, ...]
) -> tuple[float, ...]:
    """Weights of features, at least 0, under which the classes ``own`` (n,) are likeliest.

    Probabilities are the softmax of the weighted sum of features (n, K). Of n rows, each counts as
    (n + 1) / (n + 2) of its class; the rest is shared by the other classes, so that the weights
    stay finite (Platt 1999). A class with a feature of -inf is impossible. The search begins
    at ``start``, which is the answer if rows have no other class.
    """
    F = np.stack(features)
    possible = np.isfinite(F).all(axis=0)
    several = possible.sum(axis=1) > 1
    scale = np.array(start)
    F = np.where(possible, F, 0)[:, several] * scale[:, None, None]
    own = own[several]
    possible = possible[several]
    n = len(own)
    if n == 0:
        return start
    # t_own = (n + 1) / (n + 2), other possible classes share 1 / (n + 2)
    target = possible / (possible.sum(axis=1, keepdims=True) - 1) / (n + 2)
    target[np.arange(n), own] = (n + 1) / (n + 2)

    def loss(w):
        # mean of log sum_c exp(u_c) - sum_c t_c u_c,  with u = sum_j w_j F_j
        u = np.tensordot(w, F, axes=1)
        log_p = u - log_total(np.where(possible, u, -np.inf))
        p = np.where(possible, np.exp(log_p), 0)
        gradient = np.einsum("nc,jnc->j", p - target, F) / n
        return -(target * log_p).sum() / n, gradient

    found = minimize(
        loss,
        np.ones(len(F)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * len(F),
        options=dict(ftol=1e-14, gtol=1e-8, maxiter=1000),
    )
    return tuple((found.x * scale).tolist())
