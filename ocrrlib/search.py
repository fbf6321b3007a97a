"""Exact cosine search: of any queries at once, and of standing queries as entries come and go.

The values of embeddings are multiples of 2**-24 (see ``ocrrlib.embeddings``), so
products of two are multiples of 2**-48, and so is any sum of them.  For unit rows
such sums stay below 2, and a float64 holds them exactly: cosines are the same bit
for bit whatever the order of summation, the batch, the threads or the machine.
"""

import numpy as np

from ocrrlib.shared import shared

BLOCK = 256  # queries searched at once
GROUPS = 256  # groups of entries whose best cosines bound the k-th best
CACHED = 2**24  # bytes of entries that a processor's cache may hold


def rounding_slack(d):
    """More than the float32 rounding of two dot products of unit rows of length ``d`` can differ."""
    return d * 2.0**-22


def _rough_cosines(Q, X):
    """Cosines in float32, (m, n): they find candidates, float64 decides."""
    if len(Q) == 1 and X.nbytes > CACHED:
        return np.einsum("nd,d->n", X, Q[0])[None]  # BLAS reads main memory at half the rate for one query
    return Q @ X.T


def _kth_best(rows, values, k, m):
    """The k-th highest of the values of each of ``m`` rows, -inf where a row has fewer."""
    order = np.lexsort((-values, rows))
    first, end = np.searchsorted(rows[order], [np.arange(m), np.arange(1, m + 1)])
    kth = values[order][np.minimum(first + k, end) - 1]
    return np.where(first + k <= end, kth, -np.inf)


def _block_top_k(Q, X, born, k):
    m, n = len(Q), len(X)
    rough = _rough_cosines(Q, X)
    slack = rounding_slack(Q.shape[1])
    bound = np.full(m, -np.inf)
    if n >= GROUPS * 2 and k <= GROUPS:
        width = n // GROUPS
        best = rough[:, : GROUPS * width].reshape(m, width, GROUPS).max(axis=1)
        bound = np.partition(best, GROUPS - k, axis=1)[:, GROUPS - k]  # k groups reach it, so k entries do
    rows, slots = np.divmod(np.flatnonzero(rough >= (bound - slack)[:, None]), n)
    near = rough[rows, slots]
    likely = near >= _kth_best(rows, near, k, m)[rows] - slack
    rows, slots = rows[likely], slots[likely]
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
    """The ``k`` entries most similar to each query.

    Parameters
    ----------
    Q : (m, d) float32
        Queries, unit rows.
    X : (n, d) float32
        Entries, unit rows.
    born : (n,) int64
        Birth numbers; of equal cosines the newest comes first.
    k : int
        Neighbours wanted.

    Returns
    -------
    sims : (m, k) float64
        Cosines, best first; -inf where there are fewer than ``k`` entries.
    slots : (m, k) int64
        Their rows in ``X``; -1 where there are fewer.
    """
    sims, slots = np.full((len(Q), k), -np.inf), np.full((len(Q), k), -1)
    if len(X):
        for start in range(0, len(Q), BLOCK):
            part = slice(start, start + BLOCK)
            sims[part], slots[part] = _block_top_k(Q[part], X, born, k)
    return sims, slots


_initial_top_k = shared(keep=2)(top_k)


class StandingQueries:
    """The neighbours of fixed queries, brought up to date whenever they are asked for.

    A query keeps more neighbours than are needed when entries can be overwritten,
    so that it is searched anew only after it has lost too many of them.

    Parameters
    ----------
    Q : (q, d) float32
        The queries.
    entries : Entries
        What is searched; it may change at any time.
    k : int
        Neighbours wanted.
    spare : int
        Neighbours kept beyond ``k``.
    """

    def __init__(self, Q, entries, k, spare=0):
        self.Q, self.entries, self.k = Q, entries, k
        self.depth, self.slack = k + spare, rounding_slack(Q.shape[1])
        self.sims, self.slots = _initial_top_k(Q, entries.X, entries.born, self.depth)
        self.sims, self.slots = self.sims.copy(), self.slots.copy()
        self.born = self._birth_numbers(self.slots)
        self.upto = np.full(len(Q), entries.writes)  # writes each query knows of
        self.whole = np.full(len(Q), entries.size <= self.depth)  # whether its list has every entry

    def _birth_numbers(self, slots):
        return np.where(slots >= 0, self.entries.born[slots], -1) if self.entries.size else slots.copy()

    def neighbours(self, ids):
        """Cosines and slots, both (len(ids), k), of the queries ``ids``, as ``top_k`` would find them."""
        for upto in np.unique(self.upto[ids]):
            if upto < self.entries.writes:
                self._catch_up(ids[self.upto[ids] == upto], upto)
        return self.sims[ids, : self.k], self.slots[ids, : self.k]

    def _catch_up(self, ids, upto):
        entries = self.entries
        sims, slots, born = self.sims[ids], self.slots[ids], self.born[ids]
        gone = (slots >= 0) & (entries.born[slots] != born)
        sims[gone], slots[gone], born[gone] = -np.inf, -1, -1
        valid = np.where(self.whole[ids], self.depth, (slots >= 0).sum(axis=1))

        new = entries.since(upto)
        consecutive = len(new) == new[-1] - new[0] + 1
        rows = entries.X[new[0] : new[-1] + 1] if consecutive else entries.X[new]
        last = np.where(slots >= 0, sims, np.inf).min(axis=1)
        last[self.whole[ids]] = -np.inf  # a list of everything stays one
        near = (self.Q[ids] @ rows.T >= (last - self.slack)[:, None]).any(axis=0)
        new = new[near]
        fresh = self.Q[ids].astype(np.float64) @ rows[near].T.astype(np.float64)

        sims = np.concatenate([sims, fresh], axis=1)
        slots = np.concatenate([slots, np.broadcast_to(new, fresh.shape)], axis=1)
        born = np.concatenate([born, np.broadcast_to(entries.born[new], fresh.shape)], axis=1)
        kept = np.lexsort((-born, -sims), axis=-1)[:, : self.depth]
        sims, slots, born = (np.take_along_axis(a, kept, axis=1) for a in (sims, slots, born))
        beyond = np.arange(self.depth) >= valid[:, None]  # nothing is known past what stayed
        sims[beyond], slots[beyond], born[beyond] = -np.inf, -1, -1

        self.whole[ids] &= entries.size <= self.depth
        short = (valid < self.k) & (entries.size > valid)
        if short.any():
            sims[short], slots[short] = top_k(self.Q[ids[short]], entries.X, entries.born, self.depth)
            born[short] = self._birth_numbers(slots[short])
        self.sims[ids], self.slots[ids], self.born[ids] = sims, slots, born
        self.upto[ids] = entries.writes
