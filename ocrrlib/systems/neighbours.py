"""Systems that store entries and ask the nearest: static, unbounded, bounded, approximate, and mixed with a head."""

from dataclasses import dataclass

import numpy as np

from ocrrlib.chain import Ledger
from ocrrlib.files import InputError
from ocrrlib.metrics import rivals
from ocrrlib.search import Buffer, Entries, StandingQueries, top_k
from ocrrlib.systems.base import TEMPERATURE, Storage, System, softmax
from ocrrlib.systems.heads import LinearHead
from ocrrlib.voting import vote


def shares(sims, slots, entries, n_classes, temperature, nearest=False):
    """Class probabilities, (m, n_classes) float64: the softmax over the neighbours' cosines, summed per class.

    ``sims`` and ``slots`` (m, k) are cosines and slots of neighbours among ``entries``, as from
    ``top_k``, ``temperature`` is that of the softmax. With ``nearest``, each class has the share of
    the nearest of its neighbours alone, so that classes of few entries are not outvoted.
    """
    p, found = np.zeros((len(sims), n_classes)), slots >= 0
    places = np.nonzero(found)[0] * n_classes + entries.y[slots[found]]
    if nearest:
        np.maximum.at(p.ravel(), places, np.exp((sims - sims[:, :1]) / temperature)[found])
        p /= p.sum(axis=1, keepdims=True)
    else:
        np.add.at(p.ravel(), places, softmax(sims / temperature)[found])
    return p


@dataclass(eq=False)
class Neighbours(System):
    """Predicts by a vote of the ``k`` most similar entries; subclasses decide what is stored."""

    k: int = 5  #: neighbours that may vote
    margin: float = 0.05  #: cosine distance from the best neighbour within which they do
    rule: str = "full"  #: how they vote, a name in ``ocrrlib.voting.RULES``
    temperature = TEMPERATURE  # of the softmax over cosines
    spare = 0  # neighbours that a watched query keeps in reserve, for when others are overwritten

    def _scores(self, X):
        """Cosines and slots of the neighbours, both (m, k)."""
        return top_k(X, self.entries.X, self.entries.born, self.k)

    def _follow(self, Q):
        return StandingQueries(Q, self.entries, self.k, self.spare).neighbours

    def _answer(self, found):
        sims, slots = found
        return vote(sims, self._labels(slots), self.margin, self.rule)

    def _labels(self, slots):
        return np.where(slots < 0, -1, self.entries.y[slots])

    def _probabilities(self, found):
        return shares(*found, self.entries, self.n_classes, self.temperature)

    def _rivals(self, found, new):
        if type(self)._probabilities is not Neighbours._probabilities:
            return super()._rivals(found, new)
        sims, slots = found
        labels, powers = self._labels(slots), np.exp((sims - sims[:, :1]) / self.temperature)
        same = labels[:, :, None] == labels[:, None, :]
        return rivals((same @ powers[:, :, None])[:, :, 0], new, labels=labels, log=True)

    def storage(self):
        return Storage(bytes=self.entries.nbytes, entries=self.entries.size)


class StaticKNN(Neighbours):
    """The substrate's search and vote over the initial entries only (paper, section 4.1)."""

    def _fit(self, X, y):
        self.entries = Entries(X, y)

    def _correct(self, x, y):
        """The point of this baseline: it does not learn, and watched answers stay."""
        self.corrections = 0


class Substrate(Neighbours):
    """The hash-chained ledger: every correction is appended, nothing else changes (paper, section 4.3)."""

    store = Ledger  # ``CorrectionMemory`` replaces it by its own, which has more entries than those to fit on

    def _fit(self, X, y):
        self.entries = self.store(X, y)

    def _correct(self, x, y):
        self.entries.append(x, y)

    def read(self, entries, n_first, n_classes):
        """Fit on the first ``n_first`` of these entries, which are shared and not copied."""
        self.store = lambda X, y: entries
        return self.fit(entries.X[:n_first], entries.y[:n_first], range(n_classes))

    def answer(self, X):
        """Class ids (m,), probabilities (m, C), and cosines and slots (m, k) of the nearest."""
        self.seen[self.entries.y] = True
        scores = self._scores(X)
        found = scores
        if not isinstance(scores, tuple):
            found = top_k(X, self.entries.X, self.entries.born, self.k)
        p = np.array(self._probabilities(scores))
        return self._answer(scores), p, *found


def reservoir(write, budget, rng):
    """Slot of write number ``write``, kept if below ``budget``: at any time a uniform sample (Vitter 1985, R)."""
    return write if write < budget else int(rng.integers(0, write + 1))


def fifo(write, budget, rng):
    """Slot of write number ``write``: the newest ``budget`` writes."""
    return write % budget


EVICTIONS = {"reservoir": reservoir, "fifo": fifo}


@dataclass(eq=False)
class Bounded(Neighbours):
    """The substrate's search and vote under a memory budget (paper, section 4.4).

    The initial rows stream through the eviction in file order, as corrections do after them.
    """

    budget: int = 1000  #: entries kept at most
    eviction: str = "reservoir"  #: or ``fifo``
    spare = 15

    def _fit(self, X, y):
        self.offered, self.rng = 0, np.random.default_rng(self.seed)
        self.entries = Buffer(X[:0], y[:0])
        for x, label in zip(X, y.tolist()):
            self._correct(x, label)
        self.entries.writes = len(
            y
        )  # corrections are those since then, though not every row was kept

    def _correct(self, x, y):
        slot = EVICTIONS[self.eviction](self.offered, self.budget, self.rng)
        self.offered += 1
        if slot == self.entries.size < self.budget:
            self.entries.append(x, y)
        elif slot < self.budget:
            self.entries.overwrite(slot, x, y)


@dataclass(eq=False)
class SubstrateHNSW(Substrate):
    """The substrate with approximate search, by hnswlib's navigable small worlds (paper, section 6.5).

    A pickled index keeps its rows and links, but not its random generator: it draws other links
    later.
    """

    M: int = 16  #: links of an entry
    ef_construction: int = 200  #: effort of building (Malkov and Yashunin 2020)
    ef: int = 64  #: effort of searching

    def _fit(self, X, y):
        try:
            from hnswlib import Index
        except ModuleNotFoundError:
            raise InputError(
                "substrate_hnsw needs hnswlib, not installed: pip install chroma-hnswlib"
            ) from None
        super()._fit(X, y)
        self.index = Index("ip", self.dim)
        self.index.init_index(
            len(X), M=self.M, ef_construction=self.ef_construction, random_seed=self.seed
        )
        self.index.set_num_threads(1)  # with more, the same rows give another index each time
        self.index.set_ef(self.ef)
        self._catch_up()

    def _correct(self, x, y):
        super()._correct(x, y)
        self._catch_up()

    def _catch_up(self):
        """Index the entries written since."""
        while (size := self.index.get_current_count()) < self.entries.size:
            if size == (room := self.index.get_max_elements()):
                self.index.resize_index(room := size + max(1, size // 4))
            self.index.add_items(self.entries.X[size:room])

    def _scores(self, X):
        self._catch_up()
        try:
            slots, distances = self.index.knn_query(X, self.k)
        except RuntimeError:  # some query reaches fewer than k entries: it is searched exactly
            if len(X) == 1:
                return super()._scores(X)
            return tuple(map(np.concatenate, zip(*(self._scores(x[None]) for x in X))))
        sims, slots = (1.0 - distances).astype(np.float64), slots.astype(np.int64)
        order = np.lexsort((-slots, -sims), axis=-1)  # newest first among equals
        return np.take_along_axis(sims, order, axis=1), np.take_along_axis(slots, order, axis=1)

    _follow = System._follow  # asks the index each time

    def storage(self):
        index = self.index.__getstate__()[0]  # header, rows and links, as in the index's own file
        links = (
            96 + 4 * self.entries.size + index["data_level0"].nbytes + index["link_lists"].nbytes
        )
        return Storage(bytes=self.entries.nbytes + links, entries=self.entries.size)


@dataclass(eq=False)
class KNNLM(LinearHead):
    """A frozen head mixed with a growing datastore (paper, section 4.2; Khandelwal et al. 2020).

    Class probabilities are ``weight * p_neighbours + (1 - weight) * p_head``.
    """

    k: int = 5
    weight: float = 0.5  #: lambda, the share of the neighbours
    temperature: float = 0.1  #: tau of the softmax over the ``k`` cosines

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

    def _probabilities(self, p):
        """The frozen head gives classes to come a little, too; they do not count."""
        p[:, ~self.seen] = 0
        return p / p.sum(axis=1, keepdims=True)

    def _rivals(self, p, new):
        return rivals(p, new, self.seen, log=True)

    def _correct(self, x, y):
        self.entries.append(x, y)

    def storage(self):
        head = super().storage()
        return Storage(
            head.bytes + self.entries.nbytes, entries=self.entries.size, parameters=head.parameters
        )
