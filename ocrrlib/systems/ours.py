"""The proposed system: the substrate's ledger, read through two Gaussian models, a frozen head and its neighbours."""

import numpy as np

from ocrrlib.systems.base import Storage, best_seen, softmax, softmax_seen
from ocrrlib.systems.gaussians import PLDA, KernelLDA
from ocrrlib.systems.heads import train_head
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
            self.kept[np.ix_(stale, classes)] = self.model.scores(self.F[stale], classes)
        self.upto[rows] = len(changes)
        return self.kept[rows]


class LedgerPLDA(Substrate):
    """A correction is appended to the ledger, as in ``substrate``; only reading differs.

    Three class distributions are averaged: PLDA, LDA on random kernel features, and the nearest entry of each
    class. The probability of every class first met in the stream is multiplied by ``new_odds``. A frozen head
    then redistributes a share ``head_weight`` of the known classes' probability among them. The models learn
    entries when the next prediction asks for them.

    Parameters
    ----------
    k : int
        Neighbours.
    neighbour_temperature : float
        Of the softmax over their cosines.
    neighbour_weight, kernel_weight : float
        Shares of the neighbours and of the LDA on kernel features in the average; PLDA has the rest.
    new_odds : float
        Factor on the probability of each class first met in the stream.
    head_weight : float
        Share of the known classes' probability that the head redistributes.
    model_temperature, kernel_temperature : float
        Each model's log-densities are divided by this before the softmax, because both assume independent
        coordinates and are therefore overconfident.
    model, kernel : dict
        Settings of ``PLDA`` and of ``KernelLDA``.
    training
        Of the head, as for ``ocrrlib.systems.heads.train``.
    """

    def __init__(
        self,
        seed=0,
        *,
        k,
        neighbour_temperature,
        neighbour_weight,
        kernel_weight,
        new_odds,
        head_weight,
        model_temperature,
        kernel_temperature,
        model,
        kernel,
        **training,
    ):
        super().__init__(seed, k=k)
        self.neighbour_temperature, self.neighbour_weight = neighbour_temperature, neighbour_weight
        self.model_temperature, self.kernel_temperature = model_temperature, kernel_temperature
        self.kernel_weight, self.head_weight, self.new_odds = kernel_weight, head_weight, new_odds
        self.settings, self.training = (model, kernel), training

    def _fit(self, X, y):
        super()._fit(X, y)
        self.known, ranks = np.unique(y, return_inverse=True)
        self.is_known = np.isin(np.arange(self.n_classes), self.known).astype(np.float64)
        if len(self.known):
            self.W, self.b = train_head(X, ranks, len(self.known), self.seed, **self.training)
        model, kernel = self.settings
        self.model = PLDA(X, y, self.n_classes, **model)
        self.kernel = KernelLDA(X, y, self.n_classes, seed=self.seed, **kernel)
        self.read = self.entries.size

    def _catch_up(self):
        """Let the models learn the entries written since they last looked."""
        for slot in range(self.read, self.entries.size):
            for model in (self.model, self.kernel):
                model.learn(self.entries.X[slot], int(self.entries.y[slot]))
        self.read = self.entries.size

    def _head(self, X):
        """Probabilities of the known classes, (m, C); zero for the others."""
        p = np.zeros((len(X), self.n_classes))
        if len(self.known):
            p[:, self.known] = softmax(X @ self.W.T + self.b)
        return p

    def _mix(self, scores, bent, p_head, found):
        p = softmax_seen(scores / self.model_temperature, self.model.seen)
        p *= 1 - self.neighbour_weight - self.kernel_weight
        p += self.kernel_weight * softmax_seen(bent / self.kernel_temperature, self.kernel.seen)
        p += self.neighbour_weight * shares(
            *found, self.entries, self.n_classes, self.neighbour_temperature, nearest=True
        )
        given = self.head_weight * (p @ self.is_known)
        p *= np.where(self.is_known, 1 - self.head_weight, self.new_odds)
        p += given[:, None] * p_head
        return p / p.sum(axis=1, keepdims=True) if self.seen.any() else p

    def _scores(self, X):
        self._catch_up()
        scores = [model.scores(model.project(X)) for model in (self.model, self.kernel)]
        return self._mix(*scores, self._head(X), super()._scores(X))

    def _follow(self, Q):
        neighbours, p_head = super()._follow(Q), self._head(Q)
        standing = [StandingScores(model, model.project(Q)) for model in (self.model, self.kernel)]

        def probabilities(rows):
            self._catch_up()
            return self._mix(*(scores(rows) for scores in standing), p_head[rows], neighbours(rows))

        return probabilities

    def _answer(self, p):
        return best_seen(p, self.seen)

    def _chances(self, p):
        return p

    def storage(self):
        """Ledger and models as they are held; the head, like all heads, as published: 4 bytes a parameter."""
        head = self.W.size + self.b.size if len(self.known) else 0
        models = self.model.nbytes + self.kernel.nbytes
        return Storage(self.entries.nbytes + models + 4 * head, self.entries.size, head)
