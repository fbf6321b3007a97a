"""Systems that store entries and ask the nearest: static, unbounded, bounded, approximate, and mixed with a head."""

import numpy as np

from ocrrlib.files import InputError, pick
from ocrrlib.ledger import Ledger
from ocrrlib.search import Buffer, Entries, StandingQueries, top_k
from ocrrlib.systems.base import TEMPERATURE, Storage, System, softmax
from ocrrlib.systems.heads import LinearHead
from ocrrlib.voting import vote

AHEAD = 8  # queries that are answered at once where one is asked about


def shares(sims, slots, entries, n_classes, temperature, nearest=False):
    """Softmax over the neighbours' cosines, summed per class; all zero where nothing is stored.

    Parameters
    ----------
    sims, slots : (m, k)
        Cosines and slots of the neighbours, as from ``ocrrlib.search.top_k``.
    entries : Entries
        Where these slots are.
    temperature : float
        Of the softmax.
    nearest : bool
        Whether each class has the share of the nearest of its neighbours alone, so that classes of few entries are
        not outvoted.

    Returns
    -------
    (m, n_classes) float64
    """
    p = np.zeros((len(sims), n_classes))
    if entries.size:
        found = slots >= 0
        places = np.nonzero(found)[0] * n_classes + entries.y[slots[found]]
        if nearest:
            np.maximum.at(p.ravel(), places, np.exp((sims - sims[:, :1]) / temperature)[found])
            p /= p.sum(axis=1, keepdims=True)
        else:
            np.add.at(p.ravel(), places, softmax(sims / temperature)[found])
    return p


class Neighbours(System):
    """Predicts by a vote of the ``k`` most similar entries; subclasses decide what is stored.

    Entries may only be appended; a subclass that overwrites some has a ``_follow`` of its own, as ``Bounded``.

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

    def _scores(self, X):
        """Cosines and slots of the neighbours, both (m, k)."""
        return top_k(X, self.entries.X, self.entries.born, self.k)

    def _follow(self, Q):
        return StandingQueries(Q, self.entries, self.k).neighbours

    def _answer(self, found):
        sims, slots = found
        labels = self.entries.y[slots] if self.entries.size else slots
        labels[slots < 0] = -1
        return vote(sims, labels, self.margin, self.rule)

    def _chances(self, found):
        return shares(*found, self.entries, self.n_classes, self.temperature)

    def watch(self, Q):
        """Answers change with what is written only, so queries after a single one are answered along with it."""
        answer, answers, written = super().watch(Q), np.empty(len(Q), np.int64), np.full(len(Q), -1)

        def answered(rows):
            if (written[rows] != self.entries.writes).any():
                asked = np.arange(rows[0], min(rows[0] + AHEAD, len(Q))) if len(rows) == 1 else rows
                answers[asked], written[asked] = answer(asked), self.entries.writes
            return answers[rows]

        return answered

    def storage(self):
        return Storage(bytes=self.entries.nbytes, entries=self.entries.size)


class StaticKNN(Neighbours):
    """The substrate's search and vote over the initial entries only (paper, section 4.1)."""

    def _fit(self, X, y):
        self.entries = Entries(X, y)

    def _correct(self, x, y):
        """The point of this baseline: it does not learn."""


class Substrate(Neighbours):
    """The hash-chained ledger: every correction is appended, nothing else changes (paper, section 4.3)."""

    def _fit(self, X, y):
        self.entries = Ledger(X, y)

    def _correct(self, x, y):
        self.entries.append(x, y)


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
    """The substrate's search and vote under a memory budget (paper, section 4.4).

    The initial rows stream through the eviction in file order, as corrections do after them.

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


class SubstrateHNSW(Substrate):
    """The substrate with approximate search, by hnswlib's navigable small worlds (paper, section 6.5).

    A pickled index keeps its rows and links, but not its random generator: it draws other links later.

    Parameters
    ----------
    k, margin, rule
        As for the substrate.
    M, ef_construction, ef : int
        Links of an entry, and the effort of building and of searching (Malkov and Yashunin 2020).
    """

    def __init__(self, seed=0, k=5, margin=0.05, rule="full", M=16, ef_construction=200, ef=64):
        super().__init__(seed, k, margin, rule)
        self.M, self.ef_construction, self.ef = M, ef_construction, ef

    def _fit(self, X, y):
        try:
            from hnswlib import Index
        except ModuleNotFoundError:
            raise InputError(
                "SubstrateHNSW needs hnswlib, which is not installed: pip install chroma-hnswlib"
            ) from None
        super()._fit(X, y)
        self.index = Index("ip", self.dim)
        self.index.init_index(max(1, len(X)), M=self.M, ef_construction=self.ef_construction, random_seed=self.seed)
        self.index.set_num_threads(1)  # with more, the same rows give another index each time
        self.index.set_ef(self.ef)
        if len(X):
            self.index.add_items(X)

    def _correct(self, x, y):
        size = self.entries.size
        super()._correct(x, y)
        if size == self.index.get_max_elements():
            self.index.resize_index(size + max(1, size // 4))
        self.index.add_items(x[None])

    def _nearest(self, X, k):
        """Cosines and slots, (m, k); -inf and -1 where a query reaches fewer entries."""
        if not k or not len(X):
            return np.full((len(X), k), -np.inf), np.full((len(X), k), -1)
        try:
            slots, distances = self.index.knn_query(X, k)
        except RuntimeError:  # some query reaches fewer than k entries
            if len(X) > 1:
                return tuple(map(np.concatenate, zip(*(self._nearest(x[None], k) for x in X))))
            sims, slots = self._nearest(X, k - 1)
            return np.append(sims, [[-np.inf]], axis=1), np.append(slots, [[-1]], axis=1)
        return (1.0 - distances).astype(np.float64), slots.astype(np.int64)

    def _scores(self, X):
        sims, slots = self._nearest(X, self.k)
        order = np.lexsort((-slots, -sims), axis=-1)  # newest first among equals
        return np.take_along_axis(sims, order, axis=1), np.take_along_axis(slots, order, axis=1)

    def _follow(self, Q):
        return lambda rows: self._scores(Q[rows])

    def storage(self):
        index = self.index.__getstate__()[0]  # header, rows and links, as in the index's own file
        links = 96 + 4 * self.entries.size + index["data_level0"].nbytes + index["link_lists"].nbytes
        return Storage(bytes=self.entries.nbytes + links, entries=self.entries.size)


class KNNLM(LinearHead):
    """A frozen head mixed with a growing datastore (paper, section 4.2; Khandelwal et al. 2020).

    Class probabilities are ``weight * p_neighbours + (1 - weight) * p_head``.

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

    def _mix(self, p_head, found):
        near = shares(*found, self.entries, self.n_classes, self.temperature)
        return (1 - self.weight) * p_head + self.weight * near

    def _scores(self, X):
        found = top_k(X, self.entries.X, self.entries.born, self.k)
        return self._mix(softmax(super()._scores(X)), found)

    def _follow(self, Q):
        standing, p_head = StandingQueries(Q, self.entries, self.k), softmax(super()._scores(Q))
        return lambda rows: self._mix(p_head[rows], standing.neighbours(rows))

    def _chances(self, p):
        """The frozen head gives classes to come a little, too; they do not count."""
        p[:, ~self.seen] = 0
        return p / p.sum(axis=1, keepdims=True) if self.seen.any() else p

    def _correct(self, x, y):
        self.entries.append(x, y)

    def storage(self):
        head = super().storage()
        return Storage(head.bytes + self.entries.nbytes, entries=self.entries.size, parameters=head.parameters)
