"""Search for neighbours among vectors that stay in a database.

The client keeps three numbers an entry: place, time, and label. Cosines are computed anew from the
vectors that come back, exactly as in ``ocrrlib.search``, so that an exact search of the database
has the very answers of one in memory.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from ocrrlib.search import SLACK, Entries, top_k

SPARE = 4  # times as many neighbours are asked for at first as are wanted
MANY = 64  # queries from which on all vectors are read once, rather than searched for each


class Source(Protocol):
    """A database of vectors, each at the place of its entry."""

    def vectors(self, places: np.ndarray) -> np.ndarray:
        """Return the vectors (n, d) float32 at places (n,)."""
        ...

    def nearest(
        self, q: np.ndarray, n: int, end: int, without: np.ndarray, ef_search: int | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ``n`` entries nearest to q (d,): places (n,) and vectors (n, d).

        Those before place ``end``, but for those at places ``without``; fewer if there are no more.
        Exactly up to rounding, or with an effort ``ef_search`` by an index.
        """
        ...

    def all_vectors(self, end: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield places (n,), in order, and vectors (n, d) of all entries before a place."""
        ...


class StoredRows:
    """Vectors (n, d) that are fetched when they are indexed, by slots."""

    def __init__(self, source: Source, places: np.ndarray, dim: int):
        self._source = source
        self._places = places
        self.shape = len(places), dim

    def __getitem__(self, slots: Any) -> np.ndarray:
        places = self._places[slots]
        if places.ndim == 0:
            return self._source.vectors(places[None])[0]
        return self._source.vectors(places)


class DatabaseEntries(Entries):
    """Labelled vectors (n, d) in a database; ``y`` are class ids, ``places`` those of the entries.

    Entries at places ``without`` are not found. A search is exact, or takes an effort ``ef_search``
    by an index. ``places`` are told by who appends to them.
    """

    def __init__(
        self,
        source: Source,
        ef_search: int | None,
        dim: int,
        places: Callable[[], np.ndarray],
        y: np.ndarray,
        without: np.ndarray,
    ):
        super().__init__(np.empty((len(y), 0), np.float32), y)
        self.source = source
        self.ef_search = ef_search
        self.dim = dim
        self._places = places
        self._without = without

    @property
    def places(self) -> np.ndarray:
        return self._places()

    @property
    def X(self) -> Any:
        return StoredRows(self.source, self.places, self.dim)

    def extend(self, X: np.ndarray, y: np.ndarray) -> None:
        """Take the class ids y (n,) of vectors X (n, d) that are in the database."""
        super().extend(X[:, :0], y)

    def nearest(self, Q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Cosines and slots (m, k) of neighbours, as ``ocrrlib.search.top_k`` finds them."""
        if self.ef_search is None and len(Q) > MANY:
            return self._read_all(Q, k)
        sims = np.full((len(Q), k), -np.inf)
        slots = np.full((len(Q), k), -1)
        for row, q in enumerate(Q):
            found = self._nearest_to(q, k, self.ef_search)
            sims[row, : len(found[0])] = found[0]
            slots[row, : len(found[1])] = found[1]
        return sims, slots

    def _nearest_to(self, q, k, ef_search):
        """Cosines and slots of the neighbours of one query: ``k``, or all there are."""
        wanted = min(k, self.size)
        n = SPARE * k
        while True:
            sims, slots = self._asked(q, n, ef_search)
            order = np.lexsort((-slots, -sims))[:k]
            if len(sims) < wanted and ef_search is not None:
                return self._nearest_to(q, k, None)  # the index reaches fewer
            if len(sims) < n or ef_search is not None:
                return sims[order], slots[order]
            # What was not sent is below the last that was, but for both errors of rounding.
            if sims.min() + 2 * SLACK * self.dim < sims[order[-1]]:
                return sims[order], slots[order]
            n *= SPARE

    def _asked(self, q, n, ef_search):
        """Exact cosines and slots of the ``n`` nearest, in any order."""
        end = int(self.places[-1]) + 1
        places, X = self.source.nearest(q, n, end, self._without, ef_search)
        known = np.isin(places, self.places)  # vectors that are none are in the base, too
        places = places[known]
        X = X[known]
        sims = X.astype(np.float64) @ q.astype(np.float64)
        return sims, np.searchsorted(self.places, places)

    def _read_all(self, Q, k):
        """As ``nearest``, of many queries: all vectors are read, block by block."""
        sims = np.full((len(Q), k), -np.inf)
        slots = np.full((len(Q), k), -1)
        for places, X in self.source.all_vectors(int(self.places[-1]) + 1):
            counts = np.isin(places, self.places)
            some = np.searchsorted(self.places, places[counts])
            more, rows = top_k(Q, X[counts], some, k)
            all_sims = np.hstack([sims, more])
            all_slots = np.hstack([slots, np.where(rows < 0, -1, np.append(some, -1)[rows])])
            best = np.lexsort((-all_slots, -all_sims), axis=-1)[:, :k]
            sims = np.take_along_axis(all_sims, best, axis=1)
            slots = np.take_along_axis(all_slots, best, axis=1)
        return sims, slots


class WithExtra(Entries):
    """Entries in a database with one more, x (d,) of class id ``y``, and without a place."""

    def __init__(self, entries: DatabaseEntries, x: np.ndarray, y: int, without: int | None):
        self._entries = entries
        self._x = x
        self._gone = np.flatnonzero(entries.places == without)
        self.size = entries.size + 1
        self._y = np.append(entries.y, y)

    @property
    def X(self) -> Any:
        return self._entries.X

    def nearest(self, Q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """As ``DatabaseEntries.nearest``."""
        sims, slots = self._entries.nearest(Q, k + 1)
        gone = np.isin(slots, self._gone)
        sims[gone] = -np.inf
        slots[gone] = -1
        own = Q.astype(np.float64) @ self._x.astype(np.float64)
        sims = np.hstack([sims, own[:, None]])
        slots = np.hstack([slots, np.full((len(Q), 1), self.size - 1)])
        best = np.lexsort((-slots, -sims), axis=-1)[:, :k]
        return np.take_along_axis(sims, best, axis=1), np.take_along_axis(slots, best, axis=1)
