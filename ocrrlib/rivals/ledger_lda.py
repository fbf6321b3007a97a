"""The proposed system: held class means, nearest entries and a head that read one ledger.

Symbols are those of docs/protocol.md, section "The proposed system".
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp
from threadpoolctl import threadpool_limits

from ocrrlib.search import SAME_VECTOR, StandingClasses, class_cosines, nearest_cosines
from ocrrlib.systems.base import Storage, class_means, class_sums
from ocrrlib.systems.heads import Trained, with_bias
from ocrrlib.systems.neighbours import LedgerReader

LEAST_VARIANCE = 1e-3  # of unit rows in a direction, as a share of the most that is possible, 1 / d
ROWS_PER_HALF = 1000  # at most, of the initial rows, that the weights are fitted to
USUAL_WEIGHTS = (0.1, 10.0, 1.0)  # of scores, cosines and logits, where there is nothing to fit to


@dataclass(eq=False, kw_only=True)
class LedgerLDA(LedgerReader, Trained):
    """The proposed reader: a correction is appended to the ledger, as in ``substrate``.

    Every class met has a score, and probabilities are a conditional logit (McFadden 1974)::

        a_c = alpha s_c + beta cos_c + log pi_c            p_c = exp(a_c) / sum_k exp(a_k)

        s_c = z . m_c - |m_c|^2 / 2                        z = P^T (x - mu), whitened
        m_c = sum of z of the entries of c / (n_c + 1 / b)
        cos_c = highest cosine of x to an entry of c
        pi_c = K / N for a new class, of K known and N new ones; 1 for a known one

    b is the variance of class means among the initial rows: the mean of a class of n_c entries is
    held to the overall one as far as its own noise asks for (empirical Bayes). The known classes
    keep their total probability and divide it anew, with the logits h_c of ``static_linear``::

        b_c = rho s_c + sigma cos_c + eta h_c              p_c = sum_known p_k softmax_known(b)_c

    Both sets of weights are the likeliest ones when each half of the initial rows is read by
    readers fitted to the other half. If the vector of x is stored, only classes that store it are
    possible.
    """

    least_spread = 0.02  # of b

    def _fit(self, X, y):
        super()._fit(X, y)
        self.known, ranks = np.unique(y, return_inverse=True)
        with threadpool_limits(1):  # so that sums are made in one order
            self._weigh(*self._read_halves(X, ranks))
            self._fit_readers(X, y)
        self.n_read = len(X)  # entries that the means have learnt

    def _fit_readers(self, X, y):
        """Fit the means of whitened rows, and the head, to rows X (n, d) of classes y (n,)."""
        # z = P^T (x - mu), so that rows vary by 1 around the mean of their class
        self.mu = X.mean(axis=0, dtype=np.float64)
        residuals = X - class_means(*class_sums(X, y, self.n_classes))[y]
        values, vectors = np.linalg.eigh(shrunk_covariance(residuals))
        d = X.shape[1]
        self.P = vectors / np.sqrt(np.maximum(values, LEAST_VARIANCE / d))
        self.sums, self.counts = class_sums(self._whitened(X), y, self.n_classes)
        # b = variance of class means along a coordinate, less its noise, the mean of 1 / n_c
        met = self.counts > 0
        means = class_means(self.sums, self.counts)[met]
        squares = ((means - means.mean(axis=0)) ** 2).sum()
        spread = squares / max(len(means) - 1, 1) / d - np.mean(1 / self.counts[met])
        self.prior_rows = 1 / max(spread, self.least_spread)
        known, ranks = np.unique(y, return_inverse=True)
        self.head = self._trained(X, ranks, len(known))

    def _halves(self, y):
        """Yield places of rows of classes y (n,) to fit readers to, and of rows that these read.

        Rows of each class are dealt to two halves; ``ROWS_PER_HALF`` of each are read.
        """
        rng = np.random.default_rng([self.seed, 8])
        order = rng.permutation(len(y))
        by_class = order[np.argsort(y[order], kind="stable")]
        for side in (0, 1):
            yield by_class[side::2], rng.permutation(by_class[1 - side :: 2])[:ROWS_PER_HALF]

    def _read_halves(self, X, y):
        """Scores, highest cosines and logits (3, m, K) of rows, by readers fitted to other rows.

        The rows X (n, d) are of classes y (n,); classes of one row are left out. Also returns the
        classes (m,) of rows that were read, numbered anew.
        """
        several = np.bincount(y)[y] > 1
        X = X[several]
        classes, y = np.unique(y[several], return_inverse=True)
        K = len(classes)
        features = [np.empty((3, 0, K))]
        own = [y[:0]]
        for rest, asked in self._halves(y) if K else ():
            reader = replace(self)
            reader.n_classes = K
            reader._fit_readers(X[rest], y[rest])
            scores = reader._means_say(reader._whitened(X[asked]))
            cosines = class_cosines(X[asked], X[rest], y[rest], K)
            features.append(np.stack([scores, cosines, reader._logits(X[asked])]))
            own.append(y[asked])
        return np.concatenate(features, axis=1), np.concatenate(own)

    def _weigh(self, F, own):
        """Set the weights from features F (3, m, K) of rows of classes ``own`` (m,)."""
        self.apart = likeliest_weights(F[:2], own)
        self.among = likeliest_weights(F, own)

    def _whitened(self, X):
        return (X - self.mu) @ self.P

    def _means_say(self, Z):
        """Scores (m, C), log-densities less a constant, of whitened rows Z (m, d)."""
        # s_c = z . m_c - |m_c|^2 / 2 = (|z|^2 - |z - m_c|^2) / 2
        M = class_means(self.sums, self.counts, prior_rows=self.prior_rows)
        return Z @ M.T - np.einsum("cd,cd->c", M, M) / 2

    def _logits(self, X):
        return with_bias(X) @ self.head.T

    def _log_prior(self):
        """Logarithms (C,) of prior weights: new and known classes are equally likely in all."""
        new = self.seen & ~np.isin(np.arange(self.n_classes), self.known)
        return new * np.log(len(self.known) / max(np.count_nonzero(new), 1))

    def _possible(self, cosines):
        """Which classes (m, C) are possible: those of a stored copy if there is one, or all met."""
        copies = cosines >= SAME_VECTOR
        return np.where(copies.any(axis=1, keepdims=True), copies, self.seen)

    def _mix(self, Z, cosines, logits):
        """Log-probabilities (m, C) of whitened rows Z (m, d).

        ``cosines`` (m, C) are their highest ones by class, ``logits`` (m, K) are of known classes.
        """
        new = slice(self.n_read, self.entries.size)
        np.add.at(self.sums, self.entries.y[new], self._whitened(self.entries.X[new]))
        np.add.at(self.counts, self.entries.y[new], 1)
        self.n_read = self.entries.size
        scores = self._means_say(Z)
        finite = np.where(self.seen, cosines, 0)
        alpha, beta = self.apart
        a = alpha * scores + beta * finite + self._log_prior()
        rho, sigma, eta = self.among
        b = rho * scores[:, self.known] + sigma * finite[:, self.known] + eta * logits
        total = logsumexp(a[:, self.known], axis=1, keepdims=True)
        a[:, self.known] = total + log_softmax(b, axis=1)
        a[~self._possible(cosines)] = -np.inf
        return a - logsumexp(a, axis=1, keepdims=True)

    def _scores(self, X):
        cosines = nearest_cosines(X, self.entries, self.n_classes)
        return self._mix(self._whitened(X), cosines, self._logits(X))

    def _follow(self, Q):
        Z = self._whitened(Q)
        logits = self._logits(Q)
        nearest = StandingClasses(Q, self.entries, self.n_classes)
        return lambda rows: self._mix(Z[rows], nearest.cosines(rows), logits[rows])

    def storage(self) -> Storage:
        """The head has 4 bytes a parameter, as published, whatever it is computed in."""
        parts = self.mu, self.P, self.sums, self.counts
        size = self.entries.nbytes + sum(part.nbytes for part in parts) + 4 * self.head.size
        return Storage(size, entries=self.entries.size, parameters=self.head.size)


def likeliest_weights(F: np.ndarray, own: np.ndarray) -> tuple[float, ...]:
    """Weights (j,), at least 0, of features F (j, n, K) under which classes own (n,) are likeliest.

    Probabilities are the softmax of the weighted sum of features. Of n rows, each counts as
    (n + 1) / (n + 2) of its class; the rest is shared by the other classes, so that the weights
    stay finite (Platt 1999). Without rows of two classes they are ``USUAL_WEIGHTS``.
    """
    n, K = F.shape[1:]
    if K < 2:
        return USUAL_WEIGHTS[: len(F)]
    scale = F.std(axis=(1, 2)) + 1e-9
    F = F / scale[:, None, None]
    target = np.full((n, K), 1 / (n + 2) / (K - 1))
    target[np.arange(n), own] = (n + 1) / (n + 2)

    def loss(w):
        # mean of -sum_c t_c log p_c,  with log p = log softmax(sum_j w_j F_j)
        log_p = log_softmax(np.tensordot(w, F, axes=1), axis=1)
        gradient = np.einsum("nc,jnc->j", np.exp(log_p) - target, F) / n
        return -np.vdot(target, log_p) / n, gradient

    bounds = [(0, None)] * len(F)
    tight = dict(ftol=1e-14, gtol=1e-8, maxiter=1000)
    start = np.ones(len(F))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=tight)
    return tuple((found.x / scale).tolist())


def shrunk_covariance(R: np.ndarray) -> np.ndarray:
    """Covariance (d, d) of residuals R (n, d), shrunk as by Ledoit and Wolf (2004).

    The weight lambda in ``(1 - lambda) S + lambda tr(S) / d I`` is an estimate of the one that has
    the least expected squared error.
    """
    n, d = R.shape
    S = R.T @ R / n
    # lambda = b^2 / d^2, between 0 and 1, where over rows r
    #   b^2 = sum |r r^T - S|^2 / n^2 = (sum |r|^4 / n - |S|^2) / n
    #   d^2 = |S - tr(S) / d I|^2 = |S|^2 - tr(S)^2 / d
    square = (S**2).sum()
    b2 = ((np.einsum("nd,nd->n", R, R) ** 2).sum() / n - square) / n
    d2 = square - np.trace(S) ** 2 / d
    shrinkage = np.clip(b2 / d2, 0, 1) if d2 > 0 else 1.0
    return (1 - shrinkage) * S + shrinkage * np.trace(S) / d * np.eye(d)
