"""``substrate``: the hash-chained ledger that votes with its neighbours (paper, section 4.3)."""

from ocrrlib.ledger import Ledger
from ocrrlib.search import StandingQueries, top_k
from ocrrlib.systems.base import Storage, System
from ocrrlib.systems.linear import TEMPERATURE
from ocrrlib.systems.shares import shares
from ocrrlib.voting import vote


class Neighbours(System):
    """Predicts by a vote of the ``k`` most similar entries; subclasses say what is stored.

    Entries are followed as ones that are only added to; a subclass that overwrites some has a ``_follow`` of its
    own, as ``Bounded`` has.

    Parameters
    ----------
    k : int
        Neighbours that may vote.
    margin : float
        Cosine distance from the best neighbour within which they do.
    rule : str
        How they vote, a name in ``ocrrlib.voting.RULES``.
    """

    temperature = TEMPERATURE  # of the softmax over cosines

    def __init__(self, seed=0, k=5, margin=0.05, rule="full"):
        super().__init__(seed)
        self.k, self.margin, self.rule = k, margin, rule

    def _elect(self, sims, slots):
        labels = self.entries.y[slots] if self.entries.size else slots
        labels[slots < 0] = -1
        return vote(sims, labels, self.margin, self.rule)

    def _share(self, sims, slots):
        return shares(sims, slots, self.entries, self.n_classes, self.temperature)

    def _search(self, X):
        """Cosines and slots of the neighbours, both (m, k)."""
        return top_k(X, self.entries.X, self.entries.born, self.k)

    def _follow(self, Q):
        """The same for fixed queries, by row number."""
        return StandingQueries(Q, self.entries, self.k).neighbours

    def _predict(self, X):
        return self._elect(*self._search(X))

    def _probabilities(self, X):
        return self._share(*self._search(X))

    def watch(self, Q):
        neighbours = self._follow(Q)
        return lambda rows: self._elect(*neighbours(rows))

    def watch_probabilities(self, Q):
        neighbours = self._follow(Q)
        return lambda rows: self._share(*neighbours(rows))

    def storage(self):
        return Storage(bytes=self.entries.nbytes, entries=self.entries.size)


class Substrate(Neighbours):
    """Every correction is appended to the ledger; nothing else changes."""

    def _fit(self, X, y):
        self.entries = Ledger(X, y)

    def _correct(self, x, y):
        self.entries.append(x, y)
