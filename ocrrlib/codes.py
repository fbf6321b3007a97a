"""Entries in int8, and which of them may be nearest to a query: exact search for less reading.

A code errs by no more than a bound. What may be among the nearest within that bound is left to be
computed from the entries themselves, so that the answers are those of a search without codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

UNITS = ("icelake", "alder", "sapphireamx", "graniteamx")  # numkong's names of VNNI and AMX
BLOCK = 4096  # entries packed together
PRODUCTS = 2**18  # of few queries and entries, looked at together
GROUPS = 256  # groups of entries whose best cosines bound the k-th best
PAIRS = 128  # compared at once, so that they fit a processor's cache
LOWEST = np.iinfo(np.int32).min
MANY = 1 / 32  # share of all pairs from which on it takes longer to compare them one by one
# Times the dimension: upper bound on the difference of two float32 dot products of unit rows.
SLACK = 2.0**-22


@cache
def library() -> Any:
    """The library numkong, where it is installed and the processor multiplies int8; else None."""
    try:
        import numkong
    except ImportError:
        return None
    able = numkong.get_capabilities()
    return numkong if any(able.get(unit) for unit in UNITS) else None


class Pairs(NamedTuple):
    """Pairs of queries and entries: their rows (p,), slots (p,) and cosines (p,) float64."""

    rows: np.ndarray
    slots: np.ndarray
    cosines: np.ndarray


def pairs_of(Q: np.ndarray, X: np.ndarray, rows: np.ndarray, slots: np.ndarray) -> Pairs:
    """Pairs of queries ``rows`` of Q (m, d) and entries ``slots`` of X (n, d)."""
    queries = Q.astype(np.float64)
    cosines = np.empty(len(rows))
    for start in range(0, len(rows), PAIRS):
        part = slice(start, start + PAIRS)
        entries = X[slots[part]].astype(np.float64)
        cosines[part] = np.einsum("id,id->i", queries[rows[part]], entries)
    return Pairs(rows, slots, cosines)


@dataclass(frozen=True)
class Codes:
    """Codes of the first ``size`` of some entries, after so many ``writes``.

    A row is x = s c + e, with a code c (d,) int8, a scale s that all of them share, for values up
    to the ``largest``, and an error e, of norm ``error`` at most.
    """

    # Proof that no neighbour is lost. With a query q = t b + f, of a code b, and unit rows,
    #     q.x = (t b).(s c) + (t b).e + f.x,
    # so q.x differs from t s b.c, which int32 holds for d < 2**17, by no more than
    #     r = (1 + |f|) |e| + |f|.
    # |e| and |f| are computed in float32 from the codes and scales that are used: residuals err by
    # 2**-24 |s c|, their norms by d 2**-24 of themselves. SLACK d is more than both, and leaves
    # room for rows of nearly unit length and for the float64 below.
    # Let K be the k-th highest of the maxima of b.c in groups: k entries have cosines of t s K - r
    # or more. So has the k-th best, and an entry that reaches it, or ties with it, has
    # b.c >= K - 2 r / (t s). Of entries with b.c >= K there are k or more: the lowest of their
    # cosines, computed exactly, is another such bound, which needs t s b.c + r to reach it.

    packed: tuple[Any, ...] = ()
    size: int = 0
    writes: int = 0
    largest: float = 0.0
    error: float = 0.0

    def __reduce__(self):
        return Codes, ()  # packed for this processor: with a copy they are made anew

    def extended(self, X: np.ndarray, writes: int) -> Codes:
        """Codes of entries X (n, d) that have been appended to since."""
        size = len(X) - len(X) % GROUPS
        new = X[self.size : size]
        largest = max(self.largest, float(new.max()), -float(new.min()))
        if largest > self.largest:  # another scale
            packed = []
            error = 0.0
        else:
            packed = [*self.packed[: self.size // BLOCK]]
            error = self.error
        for start in range(BLOCK * len(packed), size, BLOCK):
            codes, _, errors = _quantised(X[start : min(start + BLOCK, size)], largest)
            packed.append(library().dots_pack(codes))
            error = max(error, float(errors.max()))
        return Codes(tuple(packed), size, writes, largest, error)

    def near(self, Q: np.ndarray, X: np.ndarray, k: int) -> Pairs | None:
        """Pairs of queries Q (m, d) and entries X (n, d), the ``k`` nearest of each among them.

        None if they are too many to gain by it. ``k`` is at most ``GROUPS``.
        """
        codes, t, f = _quantised(Q, np.abs(Q).max(axis=1, keepdims=True))
        unit = t * _scale(self.largest)
        r = ((1 + f) * self.error + f) / unit  # in units of b.c
        rows, slots, dots, kth = self._reaching(codes, r, k)
        if len(rows) > MANY * len(Q) * len(X):
            return None
        sure = dots >= kth[rows, 0]
        first = pairs_of(Q, X, rows[sure], slots[sure])
        lowest = np.full(len(Q), np.inf)
        np.minimum.at(lowest, first.rows, first.cosines)
        more = (dots + r[rows, 0]) * unit[rows, 0] >= lowest[rows]
        more[sure] = False
        second = pairs_of(Q, X, rows[more], slots[more])
        uncoded = Q @ X[self.size :].T >= lowest[:, None] - SLACK * Q.shape[1]
        queries, places = np.nonzero(uncoded)
        third = pairs_of(Q, X, queries, self.size + places)
        return Pairs(*map(np.concatenate, zip(first, second, third)))

    def _reaching(self, codes, r, k):
        """Rows of queries (m, d) int8, and slots of entries, whose products reach K - 2 r.

        Also these products, and K (m, 1), as in the proof above.
        """
        m = len(codes)
        step = max(1, PRODUCTS // (m * BLOCK))
        best = np.full((m, GROUPS), LOWEST)
        found = []
        for start in range(0, len(self.packed), step):
            blocks = self.packed[start : start + step]
            parts = [np.asarray(library().dots_packed(codes, block)) for block in blocks]
            dots = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
            dots = dots.reshape(m, -1, GROUPS)
            maxima = dots.max(axis=1)
            best = np.maximum(best, maxima)
            kth = np.partition(best, -k, axis=1)[:, [-k]]  # of those so far: no more than K
            least = np.maximum(np.floor(kth - 2 * r), LOWEST).astype(np.int32)
            rows, groups = np.divmod(np.flatnonzero(maxima >= least), GROUPS)
            members = dots[rows, :, groups]
            pairs, ranks = np.divmod(np.flatnonzero(members >= least[rows]), members.shape[1])
            slots = start * BLOCK + ranks * GROUPS + groups[pairs]
            found.append((rows[pairs], slots, members[pairs, ranks]))
        return *map(np.concatenate, zip(*found)), kth


def _scale(largest):
    """The scale of codes for values up to the largest."""
    return np.float32(largest) / np.float32(127)


def _quantised(X, largest):
    """Codes (n, d) int8 of rows, their scales, and bounds (n, 1) on the norms of their errors."""
    scale = _scale(largest)
    codes = np.rint(X / scale)
    residuals = X - codes * scale
    norms = np.sqrt(np.einsum("nd,nd->n", residuals, residuals)).astype(np.float64)
    return codes.astype(np.int8), scale.astype(np.float64), norms[:, None] + SLACK * X.shape[1]
