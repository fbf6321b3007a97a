"""The proposed system: class means, nearest entries and a head that read the substrate's ledger.

Symbols are those of paper/ocrr.md, section "The proposed system".
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
from ocrrlib.search import CACHED, SLACK, Entries, StandingClasses, class_cosines
from ocrrlib.shared import shared
from ocrrlib.systems.base import class_means, class_sums, softmax_seen
from ocrrlib.systems.heads import train, with_bias

HALF = 1000  # rows at most, of each half of the initial rows, that the weights are fitted to
COPY = 1 - 1e-5  # cosine from which two vectors are one; unit rows are rounded
START = (0.1, 10.0), (1.0, 1.0)  # weights where the search for them begins
FEW = 8  # queries that are searched one by one


class WhitenedMeans(GaussianClasses):
    """Linear discriminants: a row is nearest to the mean of its class, once rows are whitened.

    Whitening is by the covariance within classes of the first rows X (n, d) of classes y (n,),
    shrunk as by Ledoit and Wolf (2004). Means follow the rows learnt. Features of a row are its
    whitened coordinates.
    """

    def __init__(self, X: np.ndarray, y: np.ndarray, n_classes: int):
        with threadpool_limits(1):  # so that sums are made in one order
            shrinkage = ledoit_wolf_shrinkage(X, y, n_classes)
            self.mu, self.P, _ = discriminant_basis(X, y, n_classes, shrinkage)
            sums, counts = class_sums(self.project(X), y, n_classes)
        super().__init__(counts, sums)
        # s_c = z . m_c - |m_c|^2 / 2 = (|z|^2 - |z - m_c|^2) / 2
        self.weights = class_means(sums, counts)
        self.offset = np.einsum("cd,cd->c", self.weights, self.weights) / -2

    def project(self, X: np.ndarray) -> np.ndarray:
        """Features (m, d) float64 of rows (m, d)."""
        # z = P^T (x - mu)
        return (X - self.mu) @ self.P

    def _add(self, features, y):
        self.counts[y] += 1
        self.sums[y] += features
        self.weights[y] = self.sums[y] / self.counts[y]
        self.offset[y] = self.weights[y] @ self.weights[y] / -2


@dataclass(eq=False, kw_only=True)
class LedgerLDA(LedgerReader):
    """A correction is appended to the ledger, as in ``substrate``; only reading differs.

    Every class met has two scores: that of its whitened mean, and the cosine of its nearest entry.
    Their weighted sum, a conditional logit (McFadden 1974), divides probability among all classes;
    the head of ``static_linear`` then has its share in how known classes divide theirs. Each half
    of the initial rows, read by readers fitted to the other half, sets the weights, by maximum
    likelihood. Once a class first met in the stream has two rows, known and new classes are equally
    likely (``even_prior``). A text whose vector is stored is answered by a class that stores it.

    Evidence is log-probabilities. The ``k`` nearest entries only explain an answer.
    """

    probabilistic = False

    def _fit(self, X, y):
        super()._fit(X, y)
        self.known = self.seen.copy()
        self.model = WhitenedMeans(X, y, self.n_classes)
        self.models = [self.model]
        settings = self.epochs, self.fit_lr, self.weight_decay, self.batch
        self.alpha, self.beta, self.rho, self.eta = reader_weights(X, y, self.seed, settings)

    def _mix(self, scores, cosines, logits):
        """Log-probabilities (m, C) from what each reader says of m rows.

        Scores (m, C) of the means, highest cosines (m, C), and logits (m, C) of the head.
        """
        # a_c = alpha s_c + beta cos_c + log prior_c
        prior = even_prior(self.model.counts, self.known)
        a = self.alpha * scores + self.beta * np.where(self.seen, cosines, 0) + np.log(prior)
        # Among known classes: a_c = A + rho a_c + eta h_c - log sum_k exp(rho a_k + eta h_k),
        # with A = log sum_k exp(a_k)
        known = a[:, self.known]
        shares = self.rho * known + self.eta * logits[:, self.known]
        total = log_total(known)
        a[:, self.known] = total + shares - log_total(shares)
        # A copy leaves no other class
        copies = cosines >= COPY
        possible = np.where(copies.any(axis=1, keepdims=True), copies, self.seen)
        a[~possible] = -np.inf
        return a - log_total(a)

    def _evidence(self, X):
        self._catch_up()
        scores = self.model.scores(self.model.project(X))
        cosines = nearest_cosines(X, self.entries, self.n_classes)
        return self._mix(scores, cosines, self.head._scores(X))

    def _combine(self, X, near):
        return self._evidence(X)

    def _follow(self, Q):
        scores = StandingScores(self.model, self.model.project(Q))
        nearest = StandingClasses(Q, self.entries, self.n_classes)
        logits = self.head._scores(Q)

        def log_probabilities(rows):
            self._catch_up()
            return self._mix(scores(rows), nearest.cosines(rows), logits[rows])

        return log_probabilities

    def _probabilities(self, evidence):
        return softmax_seen(evidence, self.seen)


def log_total(a: np.ndarray) -> np.ndarray:
    """Logarithms (m, 1) of the sums of exp(a) over the columns of a (m, c)."""
    highest = a.max(axis=1, keepdims=True)
    return highest + np.log(np.exp(a - highest).sum(axis=1, keepdims=True))


def nearest_cosines(Q: np.ndarray, entries: Entries, n_classes: int) -> np.ndarray:
    """Highest cosines (m, C) of queries Q (m, d) to each class, as by ``class_cosines``.

    Few queries are compared in float32 first, and exactly where that leaves a doubt.
    """
    X = entries.X
    y = entries.y
    if len(Q) > FEW:
        return class_cosines(Q, X, y, n_classes)
    best = np.full((len(Q), n_classes), -np.inf)
    for row, q in zip(best, Q):
        if X.nbytes > CACHED:  # BLAS reads main memory at half the rate for one query
            rough = np.einsum("nd,d->n", X, q)
        else:
            rough = X @ q
        bound = np.full(n_classes, -np.inf, np.float32)
        np.maximum.at(bound, y, rough)
        slots = np.flatnonzero(rough >= bound[y] - SLACK * len(q))
        exact = np.einsum("nd,d->n", X[slots].astype(np.float64), q.astype(np.float64))
        np.maximum.at(row, y[slots], exact)
    return best


@shared(keep=2)
def reader_weights(
    X: np.ndarray, y: np.ndarray, seed: int, settings: tuple
) -> tuple[float, float, float, float]:
    """Weights alpha, beta, rho and eta of the readers, from rows X (n, d) of classes y (n,).

    Rows are dealt to two halves; ``HALF`` of each are read by readers that were fitted to the other
    half. ``seed`` decides the halves, and the head's draws, whose ``settings`` are those of
    ``train`` from ``epochs`` on.
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
        asked = order[(half[order] == side) & there[ranks[order]]][:HALF]
        if len(asked):
            found = read_by_others(X, ranks, len(classes), rest, asked, seed, settings)
            read.append((*found, ranks[asked]))
    if not read:
        return (*START[0], *START[1])
    scores, cosines, logits, own = (np.concatenate(parts) for parts in zip(*read))
    alpha, beta = likeliest_weights([scores, cosines], own, START[0])
    a = np.where(np.isfinite(scores), alpha * scores, -np.inf)
    a += beta * np.where(np.isfinite(cosines), cosines, 0)
    rho, eta = likeliest_weights([a, logits], own, START[1])
    return alpha, beta, rho, eta


def read_by_others(
    X: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    rest: np.ndarray,
    asked: np.ndarray,
    seed: int,
    settings: tuple,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, highest cosines and logits (m, K) of rows, by readers fitted to others.

    ``asked`` (m,) are places in the rows X (n, d) of classes y (n,), and ``rest`` (n,) bool tells
    to which the readers are fitted. A class without such rows has -inf, but in the logits.
    """
    with threadpool_limits(1):  # so that sums are made in one order
        model = WhitenedMeans(X[rest], y[rest], n_classes)
        scores = model.scores(model.project(X[asked]))
        scores[:, model.counts == 0] = -np.inf
        cosines = class_cosines(X[asked], X[rest], y[rest], n_classes)
        theta = train(X[rest], y[rest], n_classes, seed, *settings)
        logits = with_bias(X[asked]) @ theta.T
    return scores, cosines, logits


def likeliest_weights(
    features: list[np.ndarray], own: np.ndarray, start: tuple[float, ...]
) -> tuple[float, ...]:
    """Weights, from 0, of features under which the classes ``own`` (n,) of rows are likeliest.

    Probabilities are the softmax of the weighted sum of features (n, K). Of n rows, each counts as
    (n + 1) / (n + 2) of its class; the rest is shared by the other classes, so that the weights
    stay finite (Platt 1999). Classes of which a feature is -inf are impossible. The search begins
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
