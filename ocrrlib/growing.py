"""Neighbours of fixed queries among entries that are only ever added to, as in the ledger."""

import numpy as np

from ocrrlib.errors import InputError
from ocrrlib.search import rounding_slack, top_k
from ocrrlib.shared import shared

DEPTH = 30  # neighbours that are first searched for, so that systems that want fewer share the search

_first = shared(keep=2)(top_k)


def _only_added_to(entries):
    if entries.writes != entries.size:
        raise InputError("entries were overwritten; follow such entries with StandingQueries, as Bounded does")


class GrowingNeighbours:
    """What ``StandingQueries`` does, with less work: a neighbour goes only when a nearer entry comes.

    Parameters
    ----------
    Q : (q, d) float32
        The queries.
    entries : Entries
        What is searched; it may grow at any time.
    k : int
        Neighbours wanted.

    Raises
    ------
    InputError
        At any call, if an entry has been overwritten.
    """

    def __init__(self, Q, entries, k):
        _only_added_to(entries)
        self.Q, self.entries, self.slack = Q, entries, rounding_slack(Q.shape[1])
        sims, slots = _first(Q, entries.X, entries.born, max(k, DEPTH))
        self.sims, self.slots = sims[:, :k].copy(), slots[:, :k].copy()
        self.upto = np.full(len(Q), entries.size)  # entries that each query knows of

    def neighbours(self, ids):
        """Cosines and slots, both (len(ids), k), of the queries ``ids``, as ``top_k`` would find them."""
        _only_added_to(self.entries)
        for upto in np.unique(self.upto[ids]):
            if upto < self.entries.size:
                self._catch_up(ids[self.upto[ids] == upto], upto)
        return self.sims[ids], self.slots[ids]

    def _catch_up(self, ids, upto):
        new = self.entries.X[upto:]
        self.upto[ids] = self.entries.size
        near = self.Q[ids] @ new.T >= (self.sims[ids, -1] - self.slack)[:, None]
        touched, came = near.any(axis=1), near.any(axis=0)
        if not touched.any():
            return
        ids = ids[touched]
        fresh = self.Q[ids].astype(np.float64) @ new[came].T.astype(np.float64)
        sims = np.concatenate([self.sims[ids], fresh], axis=1)
        slots = np.broadcast_to(upto + np.flatnonzero(came), fresh.shape)
        slots = np.concatenate([self.slots[ids], slots], axis=1)
        # Of equal cosines the newest comes first: in the ledger, the one in the last slot.
        best = np.lexsort((-slots, -sims), axis=-1)[:, : self.sims.shape[1]]
        rows = np.arange(len(ids))[:, None]
        self.sims[ids], self.slots[ids] = sims[rows, best], slots[rows, best]
