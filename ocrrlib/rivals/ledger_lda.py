"""The proposed system: Bayesian linear discriminants that read the substrate's ledger.

Symbols are those of paper/ocrr.md, section "The proposed system".
"""

from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.rivals.covariance import discriminant_basis, ledoit_wolf_shrinkage, oas_shrinkage
from ocrrlib.rivals.even import best_temperature, even_prior
from ocrrlib.rivals.gaussians import GaussianClasses
from ocrrlib.rivals.readers import LedgerReader
from ocrrlib.rivals.standing import StandingScores
from ocrrlib.systems.base import class_means, class_sums, softmax_seen
from ocrrlib.systems.neighbours import nearest_shares

LEFT_OUT = 1000  # initial rows that are left out in turn to set the temperatures
LEAST_SHARE = 1e-3  # of the common variance, in any estimate of one
DENSITY_TEMPERATURE = 10.0  # around which the temperature of densities is searched
COSINE_TEMPERATURE = 0.1  # and that of cosines


class BayesLDA(GaussianClasses):
    """Gaussian classes whose means are held to the mean of all by an estimated prior.

    In coordinates ``z = P^T (x - mu)`` rows vary by ``s`` (C,) around the mean of their class,
    in every direction, and the mean is Gaussian around 0 with variances ``psi`` (d,). ``counts``
    (C,) and ``sums`` (C, d) are numbers and sums of the rows z of each class so far. Features of a
    row are its coordinates and their squared length.
    """

    def __init__(
        self,
        mu: np.ndarray,
        P: np.ndarray,
        psi: np.ndarray,
        s: np.ndarray,
        counts: np.ndarray,
        sums: np.ndarray,
    ):
        super().__init__(counts, sums)
        self.mu = mu
        self.P = P
        self.psi = psi
        self.s = s
        self.weights, self.offset = self.derive(np.arange(len(counts)), counts, sums)

    def derive(
        self, c: int | np.ndarray, n: int | np.ndarray, sums: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights (m, d + 1) and offset (m,) of classes c (m,), given n (m,) rows of sums (m, d).

        Or of one class, (d + 1,) and a number.
        """
        # m_c = psi / (n_c psi + 1) sum_i z_i
        m = self.psi / (np.multiply.outer(n, self.psi) + 1) * sums
        # log p(z | c) = -|z - m_c|^2 / (2 s_c) - d / 2 log s_c
        #              = (z . m_c - |z|^2 / 2) / s_c - (|m_c|^2 / s_c + d log s_c) / 2
        s = self.s[c]
        halves = np.full((*m.shape[:-1], 1), -0.5)
        weights = np.concatenate([m, halves], axis=-1) / s[..., None]
        square = np.einsum("...d,...d->...", m, m)
        return weights, -(square / s + m.shape[-1] * np.log(s)) / 2

    def project(self, X: np.ndarray) -> np.ndarray:
        """Features (m, d + 1) float64 of rows (m, d)."""
        Z = (X - self.mu) @ self.P
        return np.hstack([Z, np.einsum("md,md->m", Z, Z)[:, None]])

    def _add(self, features, y):
        self.counts[y] += 1
        self.sums[y] += features[:-1]
        self.weights[y], self.offset[y] = self.derive(y, self.counts[y], self.sums[y])


@dataclass(eq=False, kw_only=True)
class LedgerLDA(LedgerReader):
    """A correction is appended to the ledger, as in ``substrate``; only reading differs.

    Two class distributions are averaged: Bayesian discriminants, and the nearest entry of each
    class, among the ``k`` nearest. Leave-one-out on the initial rows sets their temperatures. The
    prior of a known class is its frequency there. Once a class first met in the stream has two
    rows, its prior is the number K of known classes over that of new ones. A third of the known
    classes' probability is split among them by the frozen head of ``static_linear``. (A new class
    of one row has the prior of an average known one, and counts among the new.)
    """

    spread_rows: float  #: rows r that the common variance counts for against that of a class

    def _fit(self, X, y):
        super()._fit(X, y)
        self.known = self.seen.copy()
        rows = np.bincount(y, minlength=self.n_classes)
        self.frequency = rows / rows[self.known].mean()
        # Coordinates, priors of means, spreads
        with threadpool_limits(1):  # so that sums are made in one order
            shrinkage = ledoit_wolf_shrinkage(X, y, self.n_classes)
            mu, P, between = discriminant_basis(X, y, self.n_classes, shrinkage)
            Z = (X - mu) @ P
        sums, counts = class_sums(Z, y, self.n_classes)
        error = np.mean(1 / counts[self.known])  # variance of a mean of n_c rows, on average
        psi = variances_of_means(between, error, np.count_nonzero(self.known))
        residuals = Z - class_means(sums, counts)[y]
        s = spreads(residuals, y, counts, self.spread_rows)
        self.model = BayesLDA(mu, P, psi, s, counts, sums)
        self.models = [self.model]
        # Temperatures; a row that is the only one of its class says nothing of rows to come
        several = np.flatnonzero(counts[y] > 1)
        sample = np.random.default_rng([self.seed, 8]).permutation(several)[:LEFT_OUT]
        own = np.searchsorted(np.flatnonzero(self.known), y[sample])
        scores = left_out_scores(self.model, X, y, Z, sample)[:, self.known]
        self.density_temperature = best_temperature(scores, own, DENSITY_TEMPERATURE)
        cosines = left_out_cosines(X, y, sample)
        self.cosine_temperature = best_temperature(cosines, own, COSINE_TEMPERATURE)

    def _mix(self, scores, neighbours, p_head):
        """Class probabilities (m, C) from what each reader says of m rows.

        Log-densities (m, C), cosines and slots (m, k) of neighbours, and the class probabilities
        (m, C) of the head.
        """
        # p_c = (p_model,c + p_near,c) / 2
        p_model = softmax_seen(scores / self.density_temperature, self.seen)
        p_near = nearest_shares(*neighbours, self.entries, self.n_classes, self.cosine_temperature)
        p = p_model / 2 + p_near / 2
        # Prior: n_c / mean n for known classes, K / (number of new ones) for new ones of two rows
        p *= np.where(self.known, self.frequency, even_prior(self.model.counts, self.known))
        # Head: p_c = 2/3 p_c + 1/3 h p_head,c for known classes, with h the sum of p over these
        h = p[:, self.known].sum(axis=1, keepdims=True)
        p[:, self.known] *= 2 / 3
        p += h / 3 * p_head  # which is 0 for new classes
        return p / p.sum(axis=1, keepdims=True)

    def _combine(self, X, near):
        self._catch_up()
        scores = self.model.scores(self.model.project(X))
        return self._mix(scores, near, self.head.predict_proba(X))

    def _follow(self, Q):
        scores = StandingScores(self.model, self.model.project(Q))
        neighbours = super()._follow(Q)
        p_head = self.head.predict_proba(Q)

        def probabilities(rows):
            self._catch_up()
            return self._mix(scores(rows), neighbours(rows), p_head[rows])

        return probabilities


def variances_of_means(between: np.ndarray, error: float, n_classes: int) -> np.ndarray:
    """Variances psi (d,) of class means along coordinates: shrunk by OAS, and above 0.

    ``between`` (d,) are unbiased estimates, from the means of ``n_classes`` classes; ``error`` is
    the variance that a mean has by itself, as it is one of few rows. If the mean of ``between`` is
    not above 0, psi is 1: the prior is worth one row.
    """
    mean = between.mean()
    if not mean > 0:
        return np.ones(len(between))
    # psi = (1 - rho) between + rho mean
    rho = max(oas_shrinkage(np.diag(between + error), n_classes - 1), LEAST_SHARE)
    return np.maximum((1 - rho) * between + rho * mean, LEAST_SHARE * mean)


def spreads(residuals: np.ndarray, y: np.ndarray, counts: np.ndarray, r: float) -> np.ndarray:
    """Variance s (C,) of rows of each class, as multiples of the common one.

    ``residuals`` (n, d) are those of rows of classes y (n,), ``counts`` (C,) the rows of each
    class. The common variance counts for ``r`` rows against a class's own, on a logarithmic scale.
    Classes of one row or none have s = 1.
    """
    # log s_c = (n_c - 1) / (n_c - 1 + r) (log v_c - mean of log v over known classes)
    d = residuals.shape[1]
    dof = np.maximum(counts - 1, 0)
    squares = np.bincount(y, np.einsum("nd,nd->n", residuals, residuals), len(counts)) / d
    log_v = np.log(np.maximum(squares / np.maximum(dof, 1), LEAST_SHARE))
    several = dof > 0
    common = log_v[several].mean() if several.any() else 0.0
    return np.exp(np.where(several, log_v - common, 0) * dof / (dof + r))


def left_out_scores(
    model: BayesLDA, X: np.ndarray, y: np.ndarray, Z: np.ndarray, sample: np.ndarray
) -> np.ndarray:
    """Log-densities (m, C) of rows under a model that has learnt them, each left out of its class.

    ``sample`` (m,) are places in the rows X (n, d), of classes y (n,) and coordinates Z (n, d).
    """
    own = y[sample]
    with threadpool_limits(1):  # so that sums are made in one order
        features = model.project(X[sample])
        scores = model.scores(features)
        # Under its own class, a row is scored by the n_c - 1 others
        weights, offset = model.derive(own, model.counts[own] - 1, model.sums[own] - Z[sample])
        left_out = np.einsum("nd,nd->n", features, weights) + offset
    scores[np.arange(len(sample)), own] = left_out
    return scores


def left_out_cosines(X: np.ndarray, y: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """Highest cosines (m, K) of rows to those of each class, themselves left out.

    ``sample`` (m,) are places in the rows X (n, d); of their classes y (n,) there are K.
    """
    with threadpool_limits(1):  # so that sums are made in one order
        cosines = X[sample].astype(np.float64) @ X.T.astype(np.float64)
    cosines[np.arange(len(sample)), sample] = -np.inf
    order = np.argsort(y, kind="stable")
    starts = np.searchsorted(y[order], np.unique(y))
    return np.maximum.reduceat(cosines[:, order], starts, axis=1)
