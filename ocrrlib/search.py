"""Exact cosine search: a batch of queries, or standing queries while entries are added and overwritten.

The values of embeddings are multiples of 2**-24 (see ``ocrrlib.embeddings``), so
products of two are multiples of 2**-48, and so is any sum of them.  For unit rows
such sums stay below 2, and a float64 holds them exactly: cosines are the same bit
for bit in any order of summation, batch, number of threads and machine.
"""

import numpy as np

from ocrrlib.shared import shared

BLOCK = 256  # queries searched at once
GROUPS = 256  # groups of entries whose best cosines bound the k-th best
DEPTH = 30  # neighbours searched for at first, so that systems with fewer share that search
CACHED = 2**24  # bytes of entries that fit a processor's cache
SLACK = (
    2.0**-22
)  # times the dimension: upper bound on the difference of two float32 dot products of unit rows


def _grown(array, n, room=0):
    """A copy of the first ``n`` rows with room for more, or for ``room`` in all."""
    grown = np.empty((max(n + max(64, n // 4), room), *array.shape[1:]), array.dtype)
    grown[:n] = array[:n]
    return grown


class Entries:
    """Labelled embeddings in one growing block of memory.

    ``X`` (n, d) float32 are embeddings, ``y`` (n,) int64 class ids, ``born`` (n,) int64 the number
    of writes before each: higher is newer. ``size`` entries are stored after ``writes`` writes,
    overwritten entries included.
    """

    def __init__(self, X, y):
        self.size = self.writes = n = len(X)
        self._X, self._y = _grown(np.asarray(X, np.float32), n), _grown(np.asarray(y, np.int64), n)
        self._born = np.arange(len(self._y))

    X = property(lambda self: self._X[: self.size])
    y = property(lambda self: self._y[: self.size])
    born = property(lambda self: self._born[: self.size])

    @property
    def nbytes(self):
        """Bytes of the entries, without the room for growth."""
        return self.X.nbytes + self.y.nbytes + self.born.nbytes

    def append(self, x, y):
        """Store one row; amortised constant time."""
        self.make_room(self.size + 1)
        self.size += 1
        self._write(self.size - 1, x, y)

    def extend(self, X, y):
        """Store rows; amortised constant time for each."""
        self.make_room(self.size + len(X))
        new, writes = slice(self.size, self.size + len(X)), self.writes + len(X)
        self._X[new], self._y[new], self._born[new] = X, y, np.arange(self.writes, writes)
        self.size, self.writes = new.stop, writes

    def make_room(self, room):
        """Make room for ``room`` entries in all at least; amortised constant time for each."""
        if room > len(self._y):
            self._X, self._y, self._born = (
                _grown(array, self.size, room) for array in (self._X, self._y, self._born)
            )

    def _write(self, slot, x, y):
        self._X[slot], self._y[slot], self._born[slot] = x, y, self.writes
        self.writes += 1

    def since(self, writes):
        """Slots of the entries written after the first ``writes`` writes."""
        if self.size == self.writes:  # never overwritten: slot and birth number agree
            return np.arange(writes, self.size)
        return np.flatnonzero(self.born >= writes)


class Buffer(Entries):
    """Entries that can be overwritten."""

    def overwrite(self, slot, x, y):
        """Store one row in the place of another."""
        self._write(slot, x, y)


def _block_top_k(Q, X, born, k):
    """``top_k`` of one block: float32 finds candidates, float64 decides between them."""
    m, n = len(Q), len(X)
    if m == 1 and X.nbytes > CACHED:
        rough = np.einsum("nd,d->n", X, Q[0])[
            None
        ]  # BLAS reads main memory at half the rate for one query
    else:
        rough = Q @ X.T
    best = rough
    if (
        n >= GROUPS * 2 and k <= GROUPS
    ):  # k groups reach the k-th best of their bests, so k entries do
        best = rough[:, : n - n % GROUPS].reshape(m, -1, GROUPS).max(axis=1)
    if k <= best.shape[1]:
        bound = np.partition(best, -k, axis=1)[:, -k]
        rows, slots = np.divmod(np.flatnonzero(rough >= (bound - SLACK * Q.shape[1])[:, None]), n)
    else:
        rows, slots = np.divmod(np.arange(m * n), n)
    sims = np.einsum("id,id->i", Q[rows].astype(np.float64), X[slots].astype(np.float64))
    order = np.lexsort((-born[slots], -sims, rows))
    rows, slots, sims = rows[order], slots[order], sims[order]
    place = np.arange(len(rows)) - np.searchsorted(rows, np.arange(m))[rows]
    kept = place < k
    top_sims, top_slots = np.full((m, k), -np.inf), np.full((m, k), -1)
    top_sims[rows[kept], place[kept]] = sims[kept]
    top_slots[rows[kept], place[kept]] = slots[kept]
    return top_sims, top_slots


def top_k(Q, X, born, k):
    """The ``k`` entries X (n, d) most similar to each query Q (m, d), both float32 unit rows.

    Of equal cosines the one with the highest birth number, ``born`` (n,), comes first. Returns
    cosines (m, k) float64, best first, and their rows in ``X``, (m, k) int64; -inf and -1 where
    there are fewer than ``k`` entries.
    """
    sims, slots = np.full((len(Q), k), -np.inf), np.full((len(Q), k), -1)
    for start in range(0, len(Q), BLOCK):
        part = slice(start, start + BLOCK)
        sims[part], slots[part] = _block_top_k(Q[part], X, born, k)
    return sims, slots


_first_top_k = shared(keep=2)(top_k)


class StandingQueries:
    """The neighbours of fixed queries Q (q, d), brought up to date whenever they are asked for.

    A query's list holds every entry from its ``floor`` up: the cosine of the worst entry that it
    ever had to drop. An overwritten entry leaves the list; a query is searched again only if fewer
    than ``k`` are left, of which ``spare`` more are kept. ``entries`` may change at any time.
    """

    def __init__(self, Q, entries, k, spare=0):
        self.Q, self.entries, self.k, self.depth = Q, entries, k, k + spare
        sims, slots = _first_top_k(Q, entries.X, entries.born, max(self.depth, DEPTH))
        self.sims, self.slots = sims[:, : self.depth].copy(), slots[:, : self.depth].copy()
        self.floor = self.sims[:, -1].copy()  # -inf while the list holds every entry
        self.upto = np.full(len(Q), entries.writes)  # writes that each query has seen

    def neighbours(self, ids):
        """Cosines and slots, both (len(ids), k), of the queries ``ids``, as ``top_k`` finds them."""
        for upto in set(self.upto[ids].tolist()):
            if upto < self.entries.writes:
                self._catch_up(ids[self.upto[ids] == upto], upto)
        return self.sims[ids, : self.k], self.slots[ids, : self.k]

    def _catch_up(self, ids, upto):
        entries, new = self.entries, self.entries.since(upto)
        self.upto[ids] = entries.writes
        rows = entries.X[new]
        near = self.Q[ids] @ rows.T >= (self.floor[ids] - SLACK * self.Q.shape[1])[:, None]
        gone = entries.born[self.slots[ids]] >= upto  # overwritten, or never there
        touched, came = near.any(axis=1) | gone.any(axis=1), near.any(axis=0)
        if not touched.any():
            return
        ids, rows, new = ids[touched], rows[came], new[came]
        sims, slots, floor = self.sims[ids], self.slots[ids], self.floor[ids]
        sims[gone[touched]], slots[gone[touched]] = -np.inf, -1
        fresh = self.Q[ids].astype(np.float64) @ rows.T.astype(np.float64)
        fresh[fresh < floor[:, None]] = -np.inf
        sims = np.concatenate([sims, fresh], axis=1)
        slots = np.concatenate([slots, np.where(fresh > -np.inf, new, -1)], axis=1)
        best = np.lexsort((-entries.born[slots], -sims), axis=-1)[:, : self.depth]
        sims, slots = (
            np.take_along_axis(sims, best, axis=1),
            np.take_along_axis(slots, best, axis=1),
        )
        floor = np.maximum(floor, sims[:, -1])
        short = (sims[:, self.k - 1] == -np.inf) & (floor > -np.inf)
        if short.any():
            sims[short], slots[short] = top_k(
                self.Q[ids[short]], entries.X, entries.born, self.depth
            )
            floor[short] = sims[short, -1]
        self.sims[ids], self.slots[ids], self.floor[ids] = sims, slots, floor
