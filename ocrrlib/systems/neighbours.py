"""Systems that store entries and ask the nearest ones, by exact or approximate search."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Self

import numpy as np

from ocrrlib.chain import Ledger
from ocrrlib.files import InputError
from ocrrlib.search import Buffer, Entries, StandingClasses, StandingQueries, top_k
from ocrrlib.systems.base import Storage, System
from ocrrlib.systems.heads import LinearHead
from ocrrlib.voting import TEMPERATURE, softmax, vote


def neighbour_shares(
    sims: np.ndarray, slots: np.ndarray, entries: Entries, n_classes: int, temperature: float
) -> np.ndarray:
    """Class probabilities (m, C) float64: a softmax over the neighbours' cosines, summed by class.

    ``sims`` and ``slots`` (m, k) are cosines and slots of neighbours among ``entries``, as from
    ``top_k``; slots below 0 are empty.
    """
    # p(c) = sum of exp(cos_i / temperature) over neighbours i of class c, over the sum of all
    found = slots >= 0
    rows, _ = np.nonzero(found)
    p = np.zeros((len(sims), n_classes))
    np.add.at(p, (rows, entries.y[slots[found]]), softmax(sims / temperature)[found])
    return p


@dataclass(eq=False)
class Neighbours(System):
    """A vote of the ``k`` most similar entries; subclasses decide what is stored.

    Evidence about rows are cosines and slots of their neighbours, both (m, k).
    """

    k: int = 5  #: neighbours that may vote
    margin: float = 0.05  #: cosine distance from the best neighbour within which they do
    rule: str = "full"  #: how they vote, a name in ``ocrrlib.voting.RULES``
    entries: Entries = field(init=False, repr=False)
    probabilistic = True
    temperature = TEMPERATURE  # of the softmax over cosines
    spare = 0  # neighbours that a watched query keeps in reserve, for when others are overwritten

    def _evidence(self, X):
        return self._near(X)

    def _near(self, X):
        return self.entries.nearest(X, self.k)

    def _follow(self, Q):
        return StandingQueries(Q, self.entries, self.k, self.spare).neighbours

    def _follow_whole(self, Q):
        return StandingClasses(Q, self.entries, self.n_classes).cosines

    def _answer(self, evidence):
        sims, slots = evidence
        labels = np.where(slots < 0, -1, self.entries.y[slots])
        return vote(sims, labels, self.margin, self.rule)

    def _probabilities(self, evidence):
        sims, slots = evidence
        return neighbour_shares(sims, slots, self.entries, self.n_classes, self.temperature)

    def storage(self) -> Storage:
        return Storage(bytes=self.entries.nbytes, entries=self.entries.size)


class StaticKNN(Neighbours):
    """The substrate's search and vote over the initial entries only (paper, section 4.1)."""

    learns = False

    def _fit(self, X, y):
        self.entries = Entries(X, y)


class LedgerReader(System):
    """A system that answers from a hash-chained ledger: every correction is appended (section 4.3).

    The ``k`` nearest entries explain an answer.
    """

    given: Entries | None = None  # entries that others write to, see ``read``
    asks_neighbours = False  # and nothing else of the entries: these may be in a database
    k = 5

    def _fit(self, X, y):
        self.entries = Ledger(X, y) if self.given is None else self.given

    def _correct(self, x, y):
        self.entries.append(x, y)

    def _near(self, X):
        return self.entries.nearest(X, self.k)

    def _combine(self, X, near):
        """Evidence about rows X (m, d), given their neighbours."""
        return self._evidence(X)

    def read(self, entries: Entries, n_first: int, n_classes: int) -> Self:
        """Read entries that others write to; they are shared, not copied.

        The system is fitted on the first ``n_first`` of them, later ones count as corrections.
        """
        self.given = entries
        n = 1 if self.asks_neighbours else n_first
        self.n_seen = n  # entries whose classes were noted
        return self.fit(entries.X[:n], entries.y[:n], range(n_classes))

    def answer(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Answer rows X (m, d) from the entries that are read, the newest included.

        Returns class ids (m,), probabilities (m, C), and cosines and slots (m, k) of neighbours.
        """
        self.seen[self.entries.y[self.n_seen :]] = True
        self.n_seen = self.entries.size
        X = self._known_rows(X)
        near = self._near(X)
        evidence = self._combine(X, near)
        return self._answer(evidence), self._probabilities(evidence), *near


class Substrate(LedgerReader, Neighbours):
    """The ledger's nearest entries vote (paper, section 4.3)."""

    asks_neighbours = True

    def _combine(self, X, near):
        return near


def reservoir(write: int, budget: int, rng: np.random.Generator) -> int:
    """Slot of write number ``write``; it is kept if the slot is below ``budget``.

    At any time the entries are a uniform sample of all writes (Vitter 1985, algorithm R).
    """
    return write if write < budget else int(rng.integers(0, write + 1))


def fifo(write: int, budget: int, rng: np.random.Generator) -> int:
    """Slot of write number ``write``, so that the newest ``budget`` writes are kept."""
    return write % budget


EVICTIONS: dict[str, Callable[[int, int, np.random.Generator], int]] = {
    "reservoir": reservoir,
    "fifo": fifo,
}


@dataclass(eq=False)
class Bounded(Neighbours):
    """The substrate's search and vote under a memory budget (paper, section 4.4).

    The initial rows stream through the eviction in file order, as corrections do after them.
    """

    budget: int = 1000  #: entries kept at most
    eviction: str = "reservoir"  #: or ``fifo``
    spare = 15

    def _fit(self, X, y):
        self.offered = 0
        self.rng = np.random.default_rng(self.seed)
        self.entries = Buffer(X[:0], y[:0])
        for x, label in zip(X, y.tolist()):
            self._correct(x, label)
        # Corrections are the writes since then, though not every initial row was kept.
        self.entries.writes = len(y)

    def _correct(self, x, y):
        slot = EVICTIONS[self.eviction](self.offered, self.budget, self.rng)
        self.offered += 1
        if slot >= self.budget:
            return
        if slot == self.entries.size:
            self.entries.append(x, y)
        else:
            self.entries.overwrite(slot, x, y)


@dataclass(eq=False)
class SubstrateHNSW(Substrate):
    """The substrate with approximate search by hnswlib's small worlds (paper, section 6.5).

    A pickled index keeps its rows and links, but not its random generator: it draws other links
    later. A deep copy builds its index anew and goes on as the original does.
    """

    asks_neighbours = False
    M: int = 16  #: links of an entry
    ef_construction: int = 200  #: effort of building (Malkov and Yashunin 2020)
    ef: int = 64  #: effort of searching

    def _fit(self, X, y):
        super()._fit(X, y)
        self._build()

    def __deepcopy__(self, memo):
        twin = copy.copy(self)
        twin.entries = copy.deepcopy(self.entries, memo)
        twin.seen = self.seen.copy()
        twin._build()
        return twin

    def _build(self):
        try:
            from hnswlib import Index
        except ModuleNotFoundError:
            raise InputError(
                "substrate_hnsw needs hnswlib, not installed: pip install chroma-hnswlib"
            ) from None
        self.index = Index("ip", self.dim)
        self.index.init_index(
            self.entries.size,
            M=self.M,
            ef_construction=self.ef_construction,
            random_seed=self.seed,
        )
        self.index.set_num_threads(1)  # with more, the same rows give another index each time
        self.index.set_ef(self.ef)
        self.copies: dict[bytes, list[int]] = {}  # slots of each vector, by a hash of it
        self.slots_of: dict[int, list[int]] = {}  # of each vector stored twice, by its first slot
        self.n_read = 0  # entries that were read for the index
        self._catch_up()

    def _correct(self, x, y):
        super()._correct(x, y)
        self._catch_up()

    def _catch_up(self):
        """Index the entries written since, of equal vectors the first one.

        Copies of one vector would link to each other alone, and be a dead end for the search.
        """
        new = []
        for slot in range(self.n_read, self.entries.size):
            slots = self.copies.setdefault(sha256(self.entries.X[slot]).digest(), [])
            slots.append(slot)
            if len(slots) == 1:
                new.append(slot)
            else:
                self.slots_of[slots[0]] = slots
        self.n_read = self.entries.size
        if not new:
            return
        size = self.index.get_current_count() + len(new)
        room = self.index.get_max_elements()
        if size > room:
            self.index.resize_index(max(size, room + room // 4))
        self.index.add_items(self.entries.X[new], new)

    def _near(self, X):
        self._catch_up()
        try:
            slots, distances = self.index.knn_query(X, self.k)
        except RuntimeError:  # some query reaches fewer than k entries: it is searched exactly
            if len(X) == 1:
                return super()._near(X)
            found = [self._near(x[None]) for x in X]
            return tuple(np.concatenate(parts) for parts in zip(*found))
        sims = (1.0 - distances).astype(np.float64)
        slots = slots.astype(np.int64)
        for row in np.flatnonzero(np.isin(slots, list(self.slots_of)).any(axis=1)):
            sims[row], slots[row] = self._with_copies(sims[row], slots[row])
        order = np.lexsort((-slots, -sims), axis=-1)  # newest first among equals
        return np.take_along_axis(sims, order, axis=1), np.take_along_axis(slots, order, axis=1)

    def _with_copies(self, sims, slots):
        """The ``k`` best of a query's neighbours (k,) and of the entries with equal vectors."""
        groups = [self.slots_of.get(slot, [slot]) for slot in slots.tolist()]
        all_sims = np.repeat(sims, [len(group) for group in groups])
        all_slots = np.concatenate(groups)
        best = np.lexsort((-all_slots, -all_sims))[: self.k]
        return all_sims[best], all_slots[best]

    _follow = System._follow  # asks the index each time

    def storage(self) -> Storage:
        index = self.index.__getstate__()[0]  # header, rows and links, as in the index's own file
        header = 96 + 4 * self.index.get_current_count()
        links = header + index["data_level0"].nbytes + index["link_lists"].nbytes
        return Storage(bytes=self.entries.nbytes + links, entries=self.entries.size)


@dataclass(eq=False)
class KNNLM(LinearHead):
    """A frozen head mixed with a growing datastore (paper, section 4.2; Khandelwal et al. 2020).

    p = weight * p_neighbours + (1 - weight) * p_head
    """

    k: int = 5
    weight: float = 0.5  #: lambda, the share of the neighbours
    temperature: float = 0.1  #: tau of the softmax over the ``k`` cosines
    probabilistic = True

    def _fit(self, X, y):
        super()._fit(X, y)
        self.entries = Entries(X, y)

    def _mix(self, p_head, sims, slots):
        near = neighbour_shares(sims, slots, self.entries, self.n_classes, self.temperature)
        return (1 - self.weight) * p_head + self.weight * near

    def _evidence(self, X):
        near = top_k(X, self.entries.X, self.entries.born, self.k)
        return self._mix(softmax(self._scores(X)), *near)

    def _follow(self, Q):
        standing = StandingQueries(Q, self.entries, self.k)
        p_head = softmax(self._scores(Q))
        return lambda rows: self._mix(p_head[rows], *standing.neighbours(rows))

    def _follow_whole(self, Q):
        standing = StandingClasses(Q, self.entries, self.n_classes)
        p_head = softmax(self._scores(Q))

        def log_probabilities(rows):
            # As ``_mix``, with the nearest entry of each class in place of the k nearest
            near = softmax(standing.cosines(rows) / self.temperature)
            p = (1 - self.weight) * p_head[rows] + self.weight * near
            with np.errstate(divide="ignore"):
                return np.log(np.where(self.seen, p, 0.0))

        return log_probabilities

    def _probabilities(self, evidence):
        """The frozen head gives classes to come a little, too; they do not count."""
        p = np.where(self.seen, evidence, 0.0)
        return p / p.sum(axis=1, keepdims=True)

    def _correct(self, x, y):
        self.entries.append(x, y)

    def storage(self) -> Storage:
        head = super().storage()
        size = head.bytes + self.entries.nbytes
        return Storage(size, entries=self.entries.size, parameters=head.parameters)
