"""Readers of the substrate's ledger, and the system proposed before: two Gaussian models, a head and neighbours."""

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
    ``new_odds``. A frozen head then redistributes a share ``head_weight`` of the known classes'
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
        data = X, y, self.n_classes
        self.models = PLDA(*data, **self.model), KernelLDA(*data, seed=self.seed, **self.kernel)

    def _mix(self, scores, bent, p_head, found):
        p = softmax_seen(scores / self.model_temperature, self.seen)
        p *= 1 - self.neighbour_weight - self.kernel_weight
        p += self.kernel_weight * softmax_seen(bent / self.kernel_temperature, self.seen)
        p += self.neighbour_weight * nearest_shares(
            *found, self.entries, self.n_classes, self.neighbour_temperature
        )
        given = self.head_weight * (p @ self.is_known)
        p *= np.where(self.is_known, 1 - self.head_weight, self.new_odds)
        p += given[:, None] * p_head
        return p / p.sum(axis=1, keepdims=True)

    def _evidence(self, X):
        self._catch_up()
        scores = [model.scores(model.project(X)) for model in self.models]
        return self._mix(*scores, self.head.predict_proba(X), super()._evidence(X))

    def _follow(self, Q):
        neighbours, p_head = super()._follow(Q), self.head.predict_proba(Q)
        standing = [StandingScores(model, model.project(Q)) for model in self.models]

        def probabilities(rows):
            self._catch_up()
            return self._mix(*(scores(rows) for scores in standing), p_head[rows], neighbours(rows))

        return probabilities
