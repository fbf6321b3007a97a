"""Bayesian linear discriminants over the substrate's ledger: every setting is estimated from the initial rows."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from threadpoolctl import threadpool_limits

from ocrrlib.search import BLOCK, CACHED, SLACK
from ocrrlib.shared import shared
from ocrrlib.systems.base import Storage, best_seen, class_means, class_sums, softmax_seen
from ocrrlib.systems.discriminants import SAMPLE
from ocrrlib.systems.gaussians import GaussianClasses, basis
from ocrrlib.systems.heads import StaticLinear, Trained
from ocrrlib.systems.neighbours import Substrate
from ocrrlib.systems.ours import StandingScores

NARROW = 64  # queries whose nearest entries are looked for at once


def shrinkage_within(X, y, n_classes):
    """Share of the identity in the covariance within classes that is closest to the true one (Ledoit and Wolf 2004)."""
    R = X - class_means(*class_sums(X, y, n_classes))[y]
    n, d = R.shape
    S = R.T @ R / n
    off, spread = (S**2).sum() - np.trace(S) ** 2 / d, (np.einsum("nd,nd->n", R, R) ** 2).sum() / n - (S**2).sum()
    return float(np.clip(spread / n / off, 0, 1)) if off > 0 else 1.0


def shrunk_between(between, within, n_classes):
    """Variances of class means along coordinates (d,), shrunk to their mean, that all are above 0.

    ``between`` are unbiased estimates, from the means of ``n_classes`` classes, ``within`` what the error of a mean
    adds to each. The share of the mean is that of an oracle approximating shrinkage estimate (Chen et al. 2010).
    """
    d, mean, seen = len(between), between.mean(), between + within
    if not mean > 0:
        return np.ones(d)  # not known: the prior is worth one row
    trace, square = seen.sum() ** 2, (seen**2).sum()
    share = ((1 - 2 / d) * square + trace) / (n_classes * (square - trace / d) + 1e-300)
    share = np.clip(share, 1e-3, 1)
    return np.maximum((1 - share) * between + share * mean, 1e-3 * mean)


def temperature(scores, own, default):
    """The temperature of a softmax over scores (m, C) under which the classes ``own`` (m,) are likeliest.

    ``default`` where there are no rows, or fewer than two classes.
    """
    if not len(own) or scores.shape[1] < 2:
        return default
    scores = scores - scores.max(axis=1, keepdims=True)
    given = scores[np.arange(len(own)), own].mean()

    def loss(log):
        return np.log(np.exp(scores / np.exp(log)).sum(axis=1)).mean() - given / np.exp(log)

    return float(np.exp(minimize_scalar(loss, bounds=np.log(default) + (-5, 5), method="bounded").x))


def nearest_of_classes(Q, X, y, n_classes):
    """The highest cosine of each query Q (m, d) to any of the entries X (n, d) of each class, (m, C), -inf for none.

    As in ``top_k``, float32 finds candidates and float64 decides between them, exactly.
    """
    best = np.full((len(Q), n_classes), -np.inf)
    for start in range(0, len(Q), NARROW):
        part, own = Q[start : start + NARROW], best[start : start + NARROW]
        rough = np.einsum("nd,d->n", X, part[0])[None] if len(part) == 1 and X.nbytes > CACHED else part @ X.T
        bound = np.full(own.shape, -np.inf, np.float32)
        for row, cosines in zip(bound, rough):
            np.maximum.at(row, y, cosines)
        rows, slots = np.nonzero(rough >= (bound - np.float32(SLACK * Q.shape[1]))[:, y])
        for some in np.split(np.arange(len(rows)), range(64 * BLOCK, len(rows), 64 * BLOCK)):
            i, j = rows[some], slots[some]
            exact = np.einsum("id,id->i", part[i].astype(np.float64), X[j].astype(np.float64))
            np.maximum.at(own.ravel(), i * n_classes + y[j], exact)
    return best


_first_nearest = shared(keep=2)(nearest_of_classes)


class StandingNearest:
    """``nearest_of_classes`` of fixed queries Q (q, d), brought up to date whenever they are asked for."""

    def __init__(self, Q, entries, n_classes):
        self.Q, self.entries = Q, entries
        self.best = _first_nearest(Q, entries.X, entries.y, n_classes).copy()
        self.upto = np.full(len(Q), entries.size)

    def __call__(self, rows):
        for upto in set(self.upto[rows].tolist()) - {self.entries.size}:
            stale = rows[self.upto[rows] == upto]
            cosines = self.Q[stale].astype(np.float64) @ self.entries.X[upto:].T.astype(np.float64)
            for label, of_one in zip(self.entries.y[upto:], cosines.T):
                self.best[stale, label] = np.maximum(self.best[stale, label], of_one)
        self.upto[rows] = self.entries.size
        return self.best[rows]


@shared(keep=2)
def _start(X, y, n_classes, seed):
    """Centre (d,), projection (d, d), variances between (d,), counts, sums; temperatures of model and cosines."""
    with threadpool_limits(1):  # so that sums are made in one order
        centre, P, between = basis(X, y, n_classes, shrinkage_within(X, y, n_classes))
        Z = (X - centre) @ P
    sums, counts = class_sums(Z, y, n_classes)
    known = np.flatnonzero(counts)
    between = shrunk_between(between, np.mean(1 / counts[known]), len(known))
    model = BayesLDA(centre, P, between, counts, sums)
    # Rows that are the only ones of their class say nothing of rows to come.
    sample = np.random.default_rng([seed, 8]).permutation(np.flatnonzero(counts[y] > 1))[:SAMPLE]
    own, places = y[sample], np.arange(len(sample))
    with threadpool_limits(1):
        scores = model.scores(Z[sample])
        means = model.mean(counts[own] - 1, sums[own] - Z[sample])
        scores[places, own] = np.einsum("nd,nd->n", Z[sample] - means / 2, means)
        cosines = X[sample].astype(np.float64) @ X.T.astype(np.float64)
    cosines[places, sample] = -np.inf
    order = np.argsort(y, kind="stable")
    cosines = np.maximum.reduceat(cosines[:, order], np.searchsorted(y[order], known), axis=1)
    own = np.searchsorted(known, own)
    heat = temperature(scores[:, known], own, 10.0), temperature(cosines, own, 0.1)
    return centre, P, between, counts, sums, heat


class BayesLDA(GaussianClasses):
    """Linear discriminants whose class means are held to the mean of all by a prior that the first rows tell.

    In the coordinates of ``P`` rows vary by 1 around the mean of their class, which is Gaussian around ``centre`` with
    variance ``between`` (d,): given n rows, its expectation is ``between / (n * between + 1)`` times their sum.
    """

    def __init__(self, centre, P, between, counts, sums):
        super().__init__(counts, sums)
        self.centre, self.P, self.between = centre, P, between
        self.weights = self.mean(counts, sums)
        self.offset = np.einsum("cd,cd->c", self.weights, self.weights) / -2

    def mean(self, n, total):
        """Expectation of class means (..., d), given their numbers of rows (...) and sums (..., d)."""
        return self.between / (np.multiply.outer(n, self.between) + 1) * total

    def project(self, X):
        """Coordinates (m, d) float64 of rows (m, d)."""
        return (X - self.centre) @ self.P

    def _add(self, z, y):
        self.counts[y] += 1
        self.sums[y] += z
        self.weights[y] = self.mean(self.counts[y], self.sums[y])
        self.offset[y] = self.weights[y] @ self.weights[y] / -2


@dataclass(eq=False)
class LedgerLDA(Trained, Substrate):
    """A correction is appended to the ledger, as in ``substrate``; a model, the nearest entries and a head read it.

    Two class distributions are averaged: Bayesian discriminants, and the nearest entry of each class; leave-one-out
    on the initial rows sets their temperatures. The known classes' probability is then split among them half by this
    average and half by the frozen head of ``static_linear``. Rows of known classes and of those first met in the
    stream are taken to be equally likely, once enough is known of the latter: with K known and N new classes, the
    probability of a new one of n rows is multiplied by ``(K / N) ** (n / (n + 1))``.
    """

    def _fit(self, X, y):
        super()._fit(X, y)
        self.head = StaticLinear(self.seed, self.epochs, self.fit_lr, self.weight_decay, self.batch)
        self.head.fit(X, y, range(self.n_classes))
        self.known = self.seen.copy()
        *state, self.heat = _start(X, y, self.n_classes, self.seed)
        self.model = BayesLDA(*state)

    def _correct(self, x, y):
        super()._correct(x, y)
        self.model.learn(x, y)

    def _mix(self, scores, cosines, p_head):
        parts = (softmax_seen(s / t, self.seen) for s, t in zip((scores, cosines), self.heat))
        p = sum(parts) / 2
        given = p[:, self.known].sum(axis=1, keepdims=True) / 2
        n = self.model.counts
        odds = (self.known.sum() / max(np.count_nonzero(self.seen & ~self.known), 1)) ** (n / (n + 1))
        p *= np.where(self.known, 0.5, odds)
        p += given * p_head
        return p / p.sum(axis=1, keepdims=True)

    def _scores(self, X):
        near = nearest_of_classes(X, self.entries.X, self.entries.y, self.n_classes)
        return self._mix(self.model.scores(self.model.project(X)), near, self.head.probabilities(X))

    def _follow(self, Q):
        near, p_head = StandingNearest(Q, self.entries, self.n_classes), self.head.probabilities(Q)
        scores = StandingScores(self.model, self.model.project(Q))
        return lambda rows: self._mix(scores(rows), near(rows), p_head[rows])

    def _answer(self, p):
        return best_seen(p, self.seen)

    def _chances(self, p):
        return p

    def storage(self):
        """Ledger and model as they are held; the head, like all heads, as published: 4 bytes a parameter."""
        head = self.head.storage()
        return Storage(self.entries.nbytes + self.model.nbytes + head.bytes, self.entries.size, head.parameters)
