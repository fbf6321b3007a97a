"""``substrate``: the hash-chained ledger that votes with its neighbours (paper, section 4.3)."""

from ocrrlib.ledger import Ledger
from ocrrlib.search import StandingQueries, top_k
from ocrrlib.systems.base import Storage, System
from ocrrlib.voting import vote


class Neighbours(System):
    """Predicts by a vote of the ``k`` most similar entries; subclasses say what is stored.

    Parameters
    ----------
    k : int
        Neighbours that may vote.
    margin : float
        Cosine distance from the best neighbour within which they do.
    rule : str
        How they vote, a name in ``ocrrlib.voting.RULES``.
    """

    spare = 0  # neighbours a standing query keeps in reserve, for systems that evict

    def __init__(self, seed=0, k=5, margin=0.05, rule="full"):
        super().__init__(seed)
        self.k, self.margin, self.rule = k, margin, rule

    def _elect(self, sims, slots):
        labels = self.entries.y[slots] if self.entries.size else slots
        labels[slots < 0] = -1
        return vote(sims, labels, self.margin, self.rule)

    def _predict(self, X):
        return self._elect(*top_k(X, self.entries.X, self.entries.born, self.k))

    def watch(self, Q):
        standing = StandingQueries(Q, self.entries, self.k, self.spare)
        return lambda rows: self._elect(*standing.neighbours(rows))

    def storage(self):
        return Storage(bytes=self.entries.nbytes, entries=self.entries.size)


class Substrate(Neighbours):
    """Every correction is appended to the ledger; nothing else changes."""

    def _fit(self, X, y):
        self.entries = Ledger(X, y)

    def _correct(self, x, y):
        self.entries.append(x, y)
