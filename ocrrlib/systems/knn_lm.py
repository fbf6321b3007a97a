"""``knn_lm``: a frozen head mixed with a growing datastore (paper, section 4.2; Khandelwal et al. 2020)."""

from ocrrlib.search import Entries, StandingQueries, top_k
from ocrrlib.systems.base import Storage
from ocrrlib.systems.heads import LinearHead, softmax
from ocrrlib.systems.shares import shares


class KNNLM(LinearHead):
    """``weight * p_neighbours + (1 - weight) * p_head``.

    Parameters
    ----------
    weight : float
        Lambda, the share of the neighbours.
    temperature : float
        Tau of the softmax over the ``k`` cosines.
    """

    def __init__(self, seed=0, k=5, weight=0.5, temperature=0.1, **head):
        super().__init__(seed, **head)
        self.k, self.weight, self.temperature = k, weight, temperature

    def _fit(self, X, y):
        super()._fit(X, y)
        self.entries = Entries(X, y)

    def _mix(self, p_head, sims, slots):
        near = shares(sims, slots, self.entries, self.n_classes, self.temperature)
        return (1 - self.weight) * p_head + self.weight * near

    def _among_met(self, p):
        """The frozen head gives classes to come a little, too; they do not count."""
        p[:, ~self._is_met] = 0
        return p / p.sum(axis=1, keepdims=True) if self.met else p

    def _mixed(self, X):
        return self._mix(softmax(self._logits(X)), *top_k(X, self.entries.X, self.entries.born, self.k))

    def _follow(self, Q):
        standing, p_head = StandingQueries(Q, self.entries, self.k), softmax(self._logits(Q))
        return lambda rows: self._mix(p_head[rows], *standing.neighbours(rows))

    def _predict(self, X):
        return self._mixed(X).argmax(axis=1)

    def _probabilities(self, X):
        return self._among_met(self._mixed(X))

    def watch(self, Q):
        mixed = self._follow(Q)
        return lambda rows: mixed(rows).argmax(axis=1)

    def watch_probabilities(self, Q):
        mixed = self._follow(Q)
        return lambda rows: self._among_met(mixed(rows))

    def _correct(self, x, y):
        self.entries.append(x, y)

    def storage(self):
        head = super().storage()
        return Storage(head.bytes + self.entries.nbytes, entries=self.entries.size, parameters=head.parameters)
