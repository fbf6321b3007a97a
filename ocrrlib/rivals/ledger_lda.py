"""The proposed system: Bayesian linear discriminants over the substrate's ledger, estimated from the initial rows."""

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from threadpoolctl import threadpool_limits

from ocrrlib.rivals.covariance import basis, oas, shrinkage_within
from ocrrlib.rivals.features import SAMPLE
from ocrrlib.rivals.gaussians import GaussianClasses
from ocrrlib.rivals.readers import LedgerReader
from ocrrlib.rivals.standing import StandingScores
from ocrrlib.shared import shared
from ocrrlib.systems.base import class_means, class_sums, softmax_seen
from ocrrlib.systems.neighbours import nearest_shares


def shrunk_between(between, within, n_classes):
    """Variances of class means along coordinates (d,), shrunk to their mean, that all are above 0.

    ``between`` are unbiased estimates, from the means of ``n_classes`` classes, ``within`` what the
    error of a mean adds to each.
    """
    mean = between.mean()
    if not mean > 0:
        return np.ones(len(between))  # not known: the prior is worth one row
    share = max(oas(np.diag(between + within), n_classes - 1), 1e-3)
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

    return float(
        np.exp(minimize_scalar(loss, bounds=np.log(default) + (-5, 5), method="bounded").x)
    )


@shared(keep=2)
def _start(X, y, n_classes, spread_rows, seed):
    """A ``BayesLDA`` of the initial rows, and the temperatures of its scores and of cosines."""
    with threadpool_limits(1):  # so that sums are made in one order
        centre, P, between = basis(X, y, n_classes, shrinkage_within(X, y, n_classes))
        Z = (X - centre) @ P
    sums, counts = class_sums(Z, y, n_classes)
    known = np.flatnonzero(counts)
    between = shrunk_between(between, np.mean(1 / counts[known]), len(known))
    spread = spreads(Z - class_means(sums, counts)[y], y, counts, spread_rows)
    model = BayesLDA(centre, P, between, spread, counts, sums)
    # Rows that are the only ones of their class say nothing of rows to come.
    sample = np.random.default_rng([seed, 8]).permutation(np.flatnonzero(counts[y] > 1))[:SAMPLE]
    own, places = y[sample], np.arange(len(sample))
    with threadpool_limits(1):
        F = model.project(X[sample])
        scores = model.scores(F)
        weights, offset = model.derive(
            own, counts[own] - 1, sums[own] - Z[sample]
        )  # each row left out
        scores[places, own] = np.einsum("nd,nd->n", F, weights) + offset
        cosines = X[sample].astype(np.float64) @ X.T.astype(np.float64)
    cosines[places, sample] = -np.inf
    order = np.argsort(y, kind="stable")
    cosines = np.maximum.reduceat(cosines[:, order], np.searchsorted(y[order], known), axis=1)
    own = np.searchsorted(known, own)
    return model, temperature(scores[:, known], own, 10.0), temperature(cosines, own, 0.1)


def spreads(R, y, counts, spread_rows):
    """Variance of rows of each class (C,), as multiples of the common one, from residuals R (n, d) of classes y (n,).

    A common variance counts for ``spread_rows`` rows against a class's own, on a logarithmic scale.
    """
    d, free = R.shape[1], np.maximum(counts - 1, 0)
    own = np.bincount(y, np.einsum("nd,nd->n", R, R), len(counts)) / d
    logs = np.log(np.maximum(own / np.maximum(free, 1), 1e-3))
    common = logs[free > 0].mean() if free.any() else 0.0
    return np.exp(np.where(free > 0, logs - common, 0) * free / (free + spread_rows))


class BayesLDA(GaussianClasses):
    """Gaussian classes whose means are held to the mean of all by a prior that the first rows tell.

    In the coordinates of ``P`` rows vary by 1 around the mean of their class, times the ``spread``
    (C,) of the class, and the mean is Gaussian around ``centre`` with variance ``between`` (d,):
    given n rows, its expectation is ``between / (n * between + 1)`` times their sum. Features of a
    row are its coordinates and their squared length.
    """

    def __init__(self, centre, P, between, spread, counts, sums):
        super().__init__(counts, sums)
        self.centre, self.P, self.between, self.spread = centre, P, between, spread
        self.weights, self.offset = self.derive(np.arange(len(counts)), counts, sums)

    def derive(self, y, n, total):
        """Weights (m, d + 1) and offset (m,) of classes y (m,), given numbers (m,) and sums (m, d) of their rows."""
        mean = self.between / (np.multiply.outer(n, self.between) + 1) * total
        own = self.spread[y]
        square = np.einsum("...d,...d->...", mean, mean)
        weights = (
            np.concatenate([mean, np.full((*mean.shape[:-1], 1), -0.5)], axis=-1) / own[..., None]
        )
        return weights, -(square / own + mean.shape[-1] * np.log(own)) / 2

    def project(self, X):
        """Features (m, d + 1) float64 of rows (m, d)."""
        Z = (X - self.centre) @ self.P
        return np.hstack([Z, np.einsum("md,md->m", Z, Z)[:, None]])

    def _add(self, f, y):
        self.counts[y] += 1
        self.sums[y] += f[:-1]
        self.weights[y], self.offset[y] = self.derive(y, self.counts[y], self.sums[y])


@dataclass(eq=False, kw_only=True)
class LedgerLDA(LedgerReader):
    """A correction is appended to the ledger, as in ``substrate``; a model, the nearest entries and a head read it.

    Two class distributions are averaged: Bayesian discriminants, and the nearest entry of each
    class, among the ``k`` nearest; leave-one-out on the initial rows sets their temperatures. The
    prior of a known class is its frequency there. Once a class first met in the stream has two
    rows, rows of known and of new classes are taken to be equally likely: its probability is
    multiplied by the number of known classes over that of new ones. A third of the known classes'
    probability is split among them by the frozen head of ``static_linear``.
    """

    spread_rows: float  #: rows that the common variance counts for against that of a class

    def _fit(self, X, y):
        super()._fit(X, y)
        self.known, counts = self.seen.copy(), np.bincount(y, minlength=self.n_classes)
        self.frequency = counts / counts[self.known].mean()
        model, *self.heat = _start(X, y, self.n_classes, self.spread_rows, self.seed)
        self.models = [deepcopy(model)]
        (self.model,) = self.models

    def _mix(self, scores, found, p_head):
        p = softmax_seen(scores / self.heat[0], self.seen) / 2
        p += nearest_shares(*found, self.entries, self.n_classes, self.heat[1]) / 2
        odds = self.known.sum() / max(np.count_nonzero(self.seen & ~self.known), 1)
        p *= np.where(self.known, self.frequency, np.where(self.model.counts > 1, odds, 1))
        given = p[:, self.known].sum(axis=1, keepdims=True) / 3
        p[:, self.known] *= 2 / 3
        p += given * p_head
        return p / p.sum(axis=1, keepdims=True)

    def _evidence(self, X):
        self._catch_up()
        return self._mix(
            self.model.scores(self.model.project(X)),
            super()._evidence(X),
            self.head.predict_proba(X),
        )

    def _follow(self, Q):
        neighbours, p_head = super()._follow(Q), self.head.predict_proba(Q)
        scores = StandingScores(self.model, self.model.project(Q))

        def probabilities(rows):
            self._catch_up()
            return self._mix(scores(rows), neighbours(rows), p_head[rows])

        return probabilities
