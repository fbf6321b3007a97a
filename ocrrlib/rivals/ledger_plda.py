"""The system proposed before: a ledger read by two Gaussian models, a head and neighbours."""

from dataclasses import dataclass

import numpy as np

from ocrrlib.rivals.gaussians import PLDA, KernelLDA
from ocrrlib.rivals.readers import LedgerReader
from ocrrlib.rivals.standing import StandingScores
from ocrrlib.systems.base import softmax_seen
from ocrrlib.systems.neighbours import nearest_shares


@dataclass(eq=False, kw_only=True)
class LedgerPLDA(LedgerReader):
    """A correction is appended to the ledger, as in ``substrate``; only reading differs.

    Three class distributions are averaged: PLDA, LDA on random kernel features, and the nearest
    entry of each class. The probability of every class first met in the stream is multiplied by
    ``new_odds``. A frozen head then splits a share ``head_weight`` of the known classes'
    probability among them.

    Log-densities are divided by temperatures before the softmax, because both models assume
    independent coordinates and are therefore overconfident.
    """

    neighbour_temperature: float  #: of the softmax over the cosines of the ``k`` neighbours
    neighbour_weight: float  #: share of the neighbours in the average
    kernel_weight: float  #: share of the LDA on kernel features; PLDA has the rest
    new_odds: float  #: factor on the probability of each class first met in the stream
    head_weight: float  #: share of the known classes' probability that the head redistributes
    model_temperature: float  #: of PLDA
    kernel_temperature: float  #: of the LDA on kernel features
    model: dict  #: settings of ``PLDA``
    kernel: dict  #: settings of ``KernelLDA``

    def _fit(self, X, y):
        super()._fit(X, y)
        self.is_known = self.seen.astype(np.float64)
        plda = PLDA(X, y, self.n_classes, **self.model)
        kernel_lda = KernelLDA(X, y, self.n_classes, seed=self.seed, **self.kernel)
        self.models = [plda, kernel_lda]

    def _mix(self, plda_scores, kernel_scores, neighbours, p_head):
        """Class probabilities (m, C) from what each reader says of m rows.

        Log-densities (m, C) of PLDA and of LDA on kernel features, cosines and slots (m, k) of
        neighbours, and class probabilities (m, C) of the head.
        """
        p_plda = softmax_seen(plda_scores / self.model_temperature, self.seen)
        p_kernel = softmax_seen(kernel_scores / self.kernel_temperature, self.seen)
        p_near = nearest_shares(
            *neighbours, self.entries, self.n_classes, self.neighbour_temperature
        )
        # Average, with a = kernel_weight, b = neighbour_weight:
        # p = (1 - b - a) p_plda + a p_kernel + b p_near
        p = p_plda * (1 - self.neighbour_weight - self.kernel_weight)
        p += self.kernel_weight * p_kernel
        p += self.neighbour_weight * p_near
        # With w = head_weight and h = sum of p over known classes:
        # p_c = (1 - w) p_c + w h p_head,c  if c is known, or new_odds p_c
        h = p @ self.is_known
        p *= np.where(self.is_known, 1 - self.head_weight, self.new_odds)
        p += (self.head_weight * h)[:, None] * p_head
        return p / p.sum(axis=1, keepdims=True)

    def _combine(self, X, near):
        self._catch_up()
        scores = [model.scores(model.project(X)) for model in self.models]
        return self._mix(*scores, near, self.head.predict_proba(X))

    def _follow(self, Q):
        plda, kernel_lda = [StandingScores(model, model.project(Q)) for model in self.models]
        neighbours = super()._follow(Q)
        p_head = self.head.predict_proba(Q)

        def probabilities(rows):
            self._catch_up()
            return self._mix(plda(rows), kernel_lda(rows), neighbours(rows), p_head[rows])

        return probabilities
