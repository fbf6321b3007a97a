"""``bounded_*``: the substrate's search and vote under a memory budget (paper, section 4.4)."""

import numpy as np

from ocrrlib.errors import InputError, pick
from ocrrlib.search import Buffer, StandingQueries
from ocrrlib.systems.substrate import Neighbours


class Reservoir:
    """Algorithm R (Vitter 1985): at any time a uniform sample of all writes."""

    def __init__(self, budget, seed):
        self.budget, self.seen, self.rng = budget, 0, np.random.default_rng(seed)

    def slot(self):
        """Where the next write goes, or None if it is not kept."""
        slot = self.seen if self.seen < self.budget else int(self.rng.integers(0, self.seen + 1))
        self.seen += 1
        return slot if slot < self.budget else None


class FIFO:
    """The newest ``budget`` writes."""

    def __init__(self, budget, seed):
        self.budget, self.seen = budget, 0

    def slot(self):
        """Where the next write goes."""
        slot = self.seen % self.budget
        self.seen += 1
        return slot


EVICTIONS = {"reservoir": Reservoir, "fifo": FIFO}


class Bounded(Neighbours):
    """The initial rows stream through the eviction in file order, as corrections do after them.

    Parameters
    ----------
    budget : int
        Entries kept at most.
    eviction : str
        ``reservoir`` or ``fifo``.
    """

    spare = 15  # neighbours that a query keeps in reserve, for when others are overwritten

    def __init__(self, seed=0, budget=1000, eviction="reservoir", **voting):
        super().__init__(seed, **voting)
        if budget < 1:
            raise InputError(f"a budget of {budget} entries is too small; give at least 1")
        self.budget, self.eviction = budget, pick("eviction", eviction, EVICTIONS)

    def _fit(self, X, y):
        self.evict = self.eviction(self.budget, self.seed)
        rows = np.full(min(self.budget, len(y)), -1)
        for row in range(len(y)):
            slot = self.evict.slot()
            if slot is not None:
                rows[slot] = row
        self.entries = Buffer(X[rows], y[rows], born=rows, writes=len(y))

    def _follow(self, Q):
        return StandingQueries(Q, self.entries, self.k, self.spare).neighbours

    def _correct(self, x, y):
        slot = self.evict.slot()
        if slot is None:
            return
        if slot == self.entries.size:
            self.entries.append(x, y)
        else:
            self.entries.overwrite(slot, x, y)
