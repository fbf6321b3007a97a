"""``ledger_plda``: the substrate's ledger, read through two Gaussian models, a frozen head and its neighbours."""

import numpy as np

from ocrrlib.systems.base import Storage
from ocrrlib.systems.heads import softmax, train_head
from ocrrlib.systems.kernel_lda import KernelLDA
from ocrrlib.systems.linear import best_seen, softmax_seen
from ocrrlib.systems.plda import PLDA
from ocrrlib.systems.shares import nearest_shares
from ocrrlib.systems.standing import StandingScores, span
from ocrrlib.systems.substrate import Substrate


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
    epochs, fit_lr, weight_decay, batch
        Training of the head.
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
        epochs,
        fit_lr,
        weight_decay,
        batch,
    ):
        super().__init__(seed, k=k)
        self.temperature, self.neighbour_weight = neighbour_temperature, neighbour_weight
        self.model_temperature, self.kernel_temperature = model_temperature, kernel_temperature
        self.kernel_weight, self.head_weight, self.new_odds = kernel_weight, head_weight, new_odds
        self.settings = model, kernel
        self.training = dict(epochs=epochs, lr=fit_lr, weight_decay=weight_decay, batch=batch)

    def _fit(self, X, y):
        super()._fit(X, y)
        self.known, ranks = np.unique(y, return_inverse=True)
        self.is_known = np.isin(np.arange(self.n_classes), self.known).astype(np.float64)
        if len(self.known):
            self.W, self.b = train_head(X, ranks, len(self.known), self.seed, **self.training)
        model, kernel = self.settings
        self.model = PLDA(X, y, self.n_classes, **model)
        self.kernel = KernelLDA(X, y, self.n_classes, seed=self.seed, **kernel)
        self.read = self.entries.writes

    def _catch_up(self):
        """Let the models learn what was written since they last looked."""
        for slot in range(self.read, self.entries.size):
            x, label = self.entries.X[slot : slot + 1], int(self.entries.y[slot])
            for model in (self.model, self.kernel):
                model.add(model.project(x)[0], label)
        self.read = self.entries.size

    def _head(self, X):
        """Probabilities of the known classes, (m, C); zero for the others."""
        p = np.zeros((len(X), self.n_classes))
        if len(self.known):
            p[:, self.known] = softmax(X @ self.W.T + self.b)
        return p

    def _share(self, sims, slots):
        return nearest_shares(sims, slots, self.entries, self.n_classes, self.temperature)

    def _mix(self, scores, bent, p_head, sims, slots):
        p = softmax_seen(scores / self.model_temperature, self.model.seen)
        p *= 1 - self.neighbour_weight - self.kernel_weight
        p += self.kernel_weight * softmax_seen(bent / self.kernel_temperature, self.kernel.seen)
        p += self.neighbour_weight * self._share(sims, slots)
        given = self.head_weight * (p @ self.is_known)
        p *= np.where(self.is_known, 1 - self.head_weight, self.new_odds)
        p += given[:, None] * p_head
        return p / p.sum(axis=1, keepdims=True) if self.model.seen.any() else p

    def _probabilities(self, X):
        self._catch_up()
        Z, F = self.model.project(X), self.kernel.project(X)
        return self._mix(self.model.scores(Z, Z**2), self.kernel.scores(F), self._head(X), *self._search(X))

    def watch_probabilities(self, Q):
        neighbours, p_head = self._follow(Q), self._head(Q)
        Z, F = self.model.project_often(Q), self.kernel.project_often(Q)
        squares = Z**2
        standing = StandingScores(
            lambda rows, classes: self.model.scores(Z[span(rows)], squares[span(rows)], classes),
            len(Q),
            self.n_classes,
            self.model.changes,
        )
        bent = StandingScores(
            lambda rows, classes: self.kernel.scores(F[span(rows)], classes),
            len(Q),
            self.n_classes,
            self.kernel.changes,
        )

        def probabilities(rows):
            self._catch_up()
            return self._mix(standing(rows), bent(rows), p_head[span(rows)], *neighbours(rows))

        return probabilities

    def _predict(self, X):
        return best_seen(self._probabilities(X), self.model.seen)

    def watch(self, Q):
        probabilities = self.watch_probabilities(Q)
        return lambda rows: best_seen(probabilities(rows), self.model.seen)

    def storage(self):
        """Ledger and models as they are held; the head, like all heads, as published: 4 bytes a parameter."""
        head = self.W.size + self.b.size if len(self.known) else 0
        models = self.model.nbytes + self.kernel.nbytes
        return Storage(self.entries.nbytes + models + 4 * head, self.entries.size, head)
