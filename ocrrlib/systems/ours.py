"""Readers of the substrate's ledger, and the system proposed before: two Gaussian models, a head and neighbours."""

from dataclasses import dataclass

import numpy as np

from ocrrlib.systems.base import Storage, best_seen, softmax_seen
from ocrrlib.systems.features import in_a_row
from ocrrlib.systems.gaussians import PLDA, KernelLDA
from ocrrlib.systems.heads import StaticLinear, Trained
from ocrrlib.systems.neighbours import Substrate, shares


class StandingScores:
    """A model's scores of fixed features (q, D), computed again only under classes that changed since."""

    def __init__(self, model, F):
        self.model, self.F = model, F
        self.kept, self.upto = np.empty((len(F), len(model.counts))), np.full(len(F), -1)  # no score is known yet

    def __call__(self, rows):
        """Scores (len(rows), C) of the features ``rows``; a copy."""
        changes, known = self.model.changes, self.upto[rows]
        for upto in np.unique(known[known < len(changes)]):
            stale = rows[known == upto]
            classes = np.arange(self.kept.shape[1]) if upto < 0 else np.unique(changes[upto:])
            self.kept[np.ix_(stale, classes)] = self.model.scores(self.F[in_a_row(stale)], classes)
        self.upto[rows] = len(changes)
        return self.kept[rows]


class LedgerReader(Trained, Substrate):
    """A substrate whose ledger is read by ``models`` and a frozen head beside its neighbours; scores are probabilities.

    The models learn entries when the next prediction asks for them. The head is that of ``static_linear``, and so is
    its size: 4 bytes a parameter, as published.
    """

    def _fit(self, X, y):
        super()._fit(X, y)
        self.head = StaticLinear(self.seed, self.epochs, self.fit_lr, self.weight_decay, self.batch)
        self.head.fit(X, y, range(self.n_classes))
        self.read = len(X)

    def _catch_up(self):
        """Let the models learn the entries written since they last looked."""
        for slot in range(self.read, self.entries.size):
            for model in self.models:
                model.learn(self.entries.X[slot], int(self.entries.y[slot]))
        self.read = self.entries.size

    def _answer(self, p):
        return best_seen(p, self.seen)

    def _chances(self, p):
        return p

    def storage(self):
        head, held = self.head.storage(), self.entries.nbytes + sum(model.nbytes for model in self.models)
        return Storage(held + head.bytes, self.entries.size, head.parameters)


@dataclass(eq=False, kw_only=True)
class LedgerPLDA(LedgerReader):
    """A correction is appended to the ledger, as in ``substrate``; only reading differs.

    Three class distributions are averaged: PLDA, LDA on random kernel features, and the nearest entry of each
    class. The probability of every class first met in the stream is multiplied by ``new_odds``. A frozen head
    then redistributes a share ``head_weight`` of the known classes' probability among them.

    Log-densities are divided by temperatures before the softmax, because both models assume independent coordinates
    and are therefore overconfident.
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
        p += self.neighbour_weight * shares(
            *found, self.entries, self.n_classes, self.neighbour_temperature, nearest=True
        )
        given = self.head_weight * (p @ self.is_known)
        p *= np.where(self.is_known, 1 - self.head_weight, self.new_odds)
        p += given[:, None] * p_head
        return p / p.sum(axis=1, keepdims=True)

    def _scores(self, X):
        self._catch_up()
        scores = [model.scores(model.project(X)) for model in self.models]
        return self._mix(*scores, self.head.probabilities(X), super()._scores(X))

    def _follow(self, Q):
        neighbours, p_head = super()._follow(Q), self.head.probabilities(Q)
        standing = [StandingScores(model, model.project(Q)) for model in self.models]

        def probabilities(rows):
            self._catch_up()
            return self._mix(*(scores(rows) for scores in standing), p_head[rows], neighbours(rows))

        return probabilities
