"""Exact cosine search: for a batch of queries, or for standing queries while entries change.

The values of embeddings are multiples of 2**-24 (see ``ocrrlib.embeddings``), so products of two
are multiples of 2**-48, and so is any sum of them. For unit rows such sums stay below 2, and a
float64 holds them exactly: cosines are the same bit for bit in any order of summation, batch,
number of threads and machine.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from ocrrlib.codes import GROUPS, SLACK, Codes, library, pairs_of
from ocrrlib.shared import shared

QUERIES_AT_ONCE = 256
DEPTH = 30  # neighbours searched for at first, so that systems with fewer share that search
CACHED = 2**24  # bytes of entries that fit a processor's cache
SAME_VECTOR = 1 - 1e-5  # cosine from which two vectors are one; unit rows are rounded
FEW = 8  # queries compared with all classes one by one
CODED = 4096  # entries from which on codes are faster
CODED_AFTER = 256  # queries in whose time entries are coded
ALONE = 16  # queries of a batch that take the time of one alone


class Entries:
    """Labelled embeddings in one growing block of memory.

    ``X`` (n, d) float32 are embeddings, ``y`` (n,) int64 class ids, ``born`` (n,) int64 the number
    of writes before each: higher is newer. ``size`` entries are stored after ``writes`` writes,
    overwritten entries included.
    """

    def __init__(self, X: np.ndarray, y: np.ndarray):
        self.size = len(X)
        self.writes = len(X)
        self._X = _grown(np.asarray(X, np.float32), self.size)
        self._y = _grown(np.asarray(y, np.int64), self.size)
        self._born = np.arange(len(self._y))
        self._codes = Codes()
        self._uncoded = 0  # queries since the entries were last coded

    @classmethod
    def sharing(cls, X: np.ndarray, y: np.ndarray) -> Entries:
        """Entries whose vectors X (n, d) are not copied until one is added."""
        entries = cls(X[:0], y[:0])
        entries._X = X
        entries._y = np.asarray(y, np.int64)
        entries._born = np.arange(len(X))
        entries.size = len(X)
        entries.writes = len(X)
        return entries

    @property
    def X(self) -> np.ndarray:
        return self._X[: self.size]

    @property
    def y(self) -> np.ndarray:
        return self._y[: self.size]

    @property
    def born(self) -> np.ndarray:
        return self._born[: self.size]

    @property
    def nbytes(self) -> int:
        """Bytes of the entries, without the room for growth."""
        return self.X.nbytes + self.y.nbytes + self.born.nbytes

    def append(self, x: np.ndarray, y: int) -> None:
        """Store one row; amortised constant time."""
        self.make_room(self.size + 1)
        self.size += 1
        self._write(self.size - 1, x, y)

    def extend(self, X: np.ndarray, y: np.ndarray) -> None:
        """Store rows; amortised constant time for each."""
        self.make_room(self.size + len(X))
        new = slice(self.size, self.size + len(X))
        self._X[new] = X
        self._y[new] = y
        self._born[new] = np.arange(self.writes, self.writes + len(X))
        self.size += len(X)
        self.writes += len(X)

    def make_room(self, room: int) -> None:
        """Make room for ``room`` entries in all at least; amortised constant time for each."""
        if room > len(self._y):
            self._X = _grown(self._X, self.size, room)
            self._y = _grown(self._y, self.size, room)
            self._born = _grown(self._born, self.size, room)

    def _write(self, slot, x, y):
        self._X[slot] = x
        self._y[slot] = y
        self._born[slot] = self.writes
        self.writes += 1

    def nearest(self, Q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Cosines and slots (m, k) of the entries nearest to queries Q (m, d), as by ``top_k``."""
        return top_k(Q, self.X, self.born, k, self._codes_for(len(Q)))

    def _codes_for(self, m):
        """Codes of most entries, for a search of ``m`` queries; None where they do not pay."""
        if self.size < CODED or library() is None:
            return None
        codes = self._codes
        written = self.since(codes.writes)
        if len(written) and written[0] < codes.size:  # overwritten
            codes = Codes()
            self._uncoded = 0
        self._uncoded += max(m, ALONE)
        if self._uncoded >= CODED_AFTER and self.size - codes.size >= GROUPS:
            codes = codes.extended(self.X, self.writes)
            self._uncoded = 0
        self._codes = codes
        return codes if codes.size else None

    def since(self, writes: int) -> np.ndarray:
        """Slots of the entries written after the first ``writes`` writes."""
        if self.size == self.writes:  # never overwritten: slot and birth number agree
            return np.arange(writes, self.size)
        return np.flatnonzero(self.born >= writes)

    def lost_since(self, writes: int) -> set[int]:
        """Classes of the entries overwritten after the first ``writes`` writes."""
        return set()


class Buffer(Entries):
    """Entries that can be overwritten."""

    def __init__(self, X: np.ndarray, y: np.ndarray):
        super().__init__(X, y)
        self.lost: list[tuple[int, int]] = []  # number of the write, class of what it overwrote

    def overwrite(self, slot: int, x: np.ndarray, y: int) -> None:
        """Store one row in the place of another."""
        self.lost.append((self.writes, int(self._y[slot])))
        self._write(slot, x, y)

    def lost_since(self, writes: int) -> set[int]:
        """Classes of the entries overwritten after the first ``writes`` writes."""
        first = bisect_left(self.lost, (writes, -1))
        return {label for _, label in self.lost[first:]}


def _grown(array, n, room=0):
    """A copy of the first ``n`` rows with room for more, or for ``room`` in all."""
    rows = max(n + max(64, n // 4), room)
    grown = np.empty((rows, *array.shape[1:]), array.dtype)
    grown[:n] = array[:n]
    return grown


def top_k(
    Q: np.ndarray, X: np.ndarray, born: np.ndarray, k: int, codes: Codes | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` entries X (n, d) most similar to each query Q (m, d), both float32 unit rows.

    Of equal cosines the one with the highest birth number, ``born`` (n,), comes first. Returns
    cosines (m, k) float64, best first, and their rows in ``X``, (m, k) int64; -inf and -1 where
    there are fewer than ``k`` entries. With ``codes`` of the first entries the same are found.
    """
    sims = np.full((len(Q), k), -np.inf)
    slots = np.full((len(Q), k), -1)
    for start in range(0, len(Q), QUERIES_AT_ONCE):
        part = slice(start, start + QUERIES_AT_ONCE)
        pairs = None
        if codes is not None and k <= GROUPS // 4:
            pairs = codes.near(Q[part], X, k)
        if pairs is None:
            pairs = _near(Q[part], X, k)
        sims[part], slots[part] = _best(pairs, born, len(Q[part]), k)
    return sims, slots


def _near(Q, X, k):
    """Pairs of queries and entries among which the ``k`` nearest of each query are, by float32."""
    m = len(Q)
    n = len(X)
    rough = _rough_cosines(Q, X)
    best = rough
    if n >= GROUPS * 2 and k <= GROUPS:
        # The best entries of k groups are k entries: the least of them is a bound.
        best = rough[:, : n - n % GROUPS].reshape(m, -1, GROUPS).max(axis=1)
    if k > best.shape[1]:
        return pairs_of(Q, X, *np.divmod(np.arange(m * n), n))
    bound = np.partition(best, -k, axis=1)[:, -k]
    near = rough >= (bound - SLACK * Q.shape[1])[:, None]
    return pairs_of(Q, X, *np.divmod(np.flatnonzero(near), n))


def _rough_cosines(Q, X):
    """Cosines (m, n) of queries and entries in float32."""
    if len(Q) == 1 and X.nbytes > CACHED:  # BLAS reads main memory at half the rate for one query
        return np.einsum("nd,d->n", X, Q[0])[None]
    return Q @ X.T


def _best(pairs, born, m, k):
    """Cosines and slots (m, k) of the best pairs of each of m queries."""
    rows, slots, sims = pairs
    order = np.lexsort((-born[slots], -sims, rows))
    rows = rows[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, np.arange(m))[rows]
    kept = rank < k
    top_sims = np.full((m, k), -np.inf)
    top_slots = np.full((m, k), -1)
    top_sims[rows[kept], rank[kept]] = sims[order][kept]
    top_slots[rows[kept], rank[kept]] = slots[order][kept]
    return top_sims, top_slots


_first_top_k = shared(keep=2)(top_k)


class StandingQueries:
    """The neighbours of fixed queries Q (q, d), brought up to date whenever they are asked for.

    A query's list holds every entry from its ``floor`` up: the cosine of the worst entry that it
    ever had to drop. An overwritten entry leaves the list; a query is searched again only if fewer
    than ``k`` are left, of which ``spare`` more are kept. ``entries`` may change at any time.
    """

    def __init__(self, Q: np.ndarray, entries: Entries, k: int, spare: int = 0):
        self.Q = Q
        self.entries = entries
        self.k = k
        self.depth = k + spare
        sims, slots = _first_top_k(Q, entries.X, entries.born, max(self.depth, DEPTH))
        self.sims = sims[:, : self.depth].copy()
        self.slots = slots[:, : self.depth].copy()
        self.floor = self.sims[:, -1].copy()  # -inf while the list holds every entry
        self.upto = np.full(len(Q), entries.writes)  # writes that each query has seen

    def neighbours(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cosines and slots, both (m, k), of the queries ``ids`` (m,), as ``top_k`` finds them."""
        for upto in set(self.upto[ids].tolist()):
            if upto < self.entries.writes:
                self._catch_up(ids[self.upto[ids] == upto], upto)
        return self.sims[ids, : self.k], self.slots[ids, : self.k]

    def _catch_up(self, ids, upto):
        """Merge what was written since write ``upto`` into the lists of queries ``ids``."""
        entries = self.entries
        self.upto[ids] = entries.writes
        slots = entries.since(upto)
        rough = self.Q[ids] @ entries.X[slots].T
        near = rough >= (self.floor[ids] - SLACK * self.Q.shape[1])[:, None]
        gone = entries.born[self.slots[ids]] >= upto  # overwritten, or never there
        touched = near.any(axis=1) | gone.any(axis=1)
        if touched.any():
            self._merge(ids[touched], slots[near.any(axis=0)], gone[touched])

    def _merge(self, ids, new, gone):
        """Drop list entries that are ``gone``, add the slots ``new``, keep the best ``depth``."""
        entries = self.entries
        floor = self.floor[ids]
        old_sims = np.where(gone, -np.inf, self.sims[ids])
        old_slots = np.where(gone, -1, self.slots[ids])
        new_sims = self.Q[ids].astype(np.float64) @ entries.X[new].T.astype(np.float64)
        new_sims[new_sims < floor[:, None]] = -np.inf
        new_slots = np.where(new_sims > -np.inf, new, -1)
        sims = np.concatenate([old_sims, new_sims], axis=1)
        slots = np.concatenate([old_slots, new_slots], axis=1)
        best = np.lexsort((-entries.born[slots], -sims), axis=-1)[:, : self.depth]
        sims = np.take_along_axis(sims, best, axis=1)
        slots = np.take_along_axis(slots, best, axis=1)
        floor = np.maximum(floor, sims[:, -1])
        short = (sims[:, self.k - 1] == -np.inf) & (floor > -np.inf)
        if short.any():
            again = top_k(self.Q[ids[short]], entries.X, entries.born, self.depth)
            sims[short], slots[short] = again
            floor[short] = sims[short, -1]
        self.sims[ids] = sims
        self.slots[ids] = slots
        self.floor[ids] = floor


def class_cosines(Q: np.ndarray, X: np.ndarray, y: np.ndarray, n_classes: int) -> np.ndarray:
    """Highest cosine (m, C) float64 of each query Q (m, d) to the entries X (n, d) of each class.

    ``y`` (n,) are classes; -inf where a class has no entry.
    """
    best = np.full((len(Q), n_classes), -np.inf)
    order = np.argsort(y, kind="stable")
    labels, starts = np.unique(y[order], return_index=True)
    if len(labels) == 0:
        return best
    grouped = X[order].T.astype(np.float64)
    for start in range(0, len(Q), QUERIES_AT_ONCE):
        part = slice(start, start + QUERIES_AT_ONCE)
        cosines = Q[part].astype(np.float64) @ grouped
        best[part, labels] = np.maximum.reduceat(cosines, starts, axis=1)
    return best


def nearest_cosines(Q: np.ndarray, entries: Entries, n_classes: int) -> np.ndarray:
    """Highest cosines (m, C) of queries Q (m, d) to each class, as by ``class_cosines``.

    Few queries are compared in float32 first, and exactly where that leaves a doubt.
    """
    X = entries.X
    y = entries.y
    if len(Q) > FEW:
        return class_cosines(Q, X, y, n_classes)
    best = np.full((len(Q), n_classes), -np.inf)
    for row, q in zip(best, Q):
        rough = _rough_cosines(q[None], X)[0]
        bound = np.full(n_classes, -np.inf, np.float32)
        np.maximum.at(bound, y, rough)
        slots = np.flatnonzero(rough >= bound[y] - SLACK * len(q))
        exact = np.einsum("nd,d->n", X[slots].astype(np.float64), q.astype(np.float64))
        np.maximum.at(row, y[slots], exact)
    return best


_first_class_cosines = shared(keep=2)(class_cosines)


class StandingClasses:
    """The highest cosine of fixed queries Q (q, d) to the entries of each of ``n_classes`` classes.

    It is brought up to date whenever it is asked for; ``entries`` may change at any time.
    """

    def __init__(self, Q: np.ndarray, entries: Entries, n_classes: int):
        self.Q = Q
        self.entries = entries
        self.best = _first_class_cosines(Q, entries.X, entries.y, n_classes).copy()
        self.upto = np.full(len(Q), entries.writes)  # writes that each query has seen

    def cosines(self, ids: np.ndarray) -> np.ndarray:
        """Highest cosines (m, C) of the queries ``ids`` (m,), as ``class_cosines`` finds them."""
        for upto in set(self.upto[ids].tolist()):
            if upto < self.entries.writes:
                self._catch_up(ids[self.upto[ids] == upto], upto)
        return self.best[ids]

    def _catch_up(self, ids, upto):
        """Take in what was written since write ``upto`` for the queries ``ids``."""
        entries = self.entries
        self.upto[ids] = entries.writes
        lost = entries.lost_since(upto)
        added = entries.since(upto)
        self.best[np.ix_(ids, list(lost))] = -np.inf
        again = np.union1d(added, np.flatnonzero(np.isin(entries.y, list(lost))))
        n_classes = self.best.shape[1]
        found = class_cosines(self.Q[ids], entries.X[again], entries.y[again], n_classes)
        self.best[ids] = np.maximum(self.best[ids], found)
