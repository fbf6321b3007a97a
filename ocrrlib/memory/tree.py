"""Merkle tree over the entry hashes of a ledger (RFC 6962, RFC 9162), and its proofs."""

from hashlib import sha256
from itertools import pairwise


def _node(left, right):
    return sha256(b"\1" + left + right).digest()


def _way(place, size, old=None):
    """From a leaf, or the subtree around it that ends at ``old``, up to the root: it and its siblings."""
    start, stop, siblings = 0, size, []
    while stop - start > 1 and stop != old:
        middle = start + (1 << (stop - start - 1).bit_length() - 1)
        siblings.append((middle, stop) if place < middle else (start, middle))
        start, stop = (start, middle) if place < middle else (middle, stop)
    return [(start, stop), *siblings[::-1]]


def _fold(hash, place, siblings, path, left=False):
    """The root above a subtree around a place, from all siblings or those to its left; None if there are others."""
    if len(siblings) != len(path):
        return None
    for (_, stop), other in zip(siblings, path):
        if stop <= place:
            hash = _node(other, hash)
        elif not left:
            hash = _node(hash, other)
    return hash


class Tree:
    """Merkle tree over entry hashes (RFC 6962, section 2.1). It keeps all perfect subtrees: 64 bytes an entry."""

    def __init__(self):
        self._levels = [bytearray() for _ in range(64)]

    def __len__(self):
        return len(self._levels[0]) // 32

    def extend(self, hashes):
        """Append leaves."""
        self._levels[0] += b"".join(hashes)

    def _grow(self):
        """Hash the subtrees that new leaves completed; amortised constant time for each leaf."""
        for below, above in pairwise(self._levels):
            if not (pairs := range(2 * len(above), len(below) // 64 * 64, 64)):
                break
            above += b"".join([sha256(b"\1" + below[at : at + 64]).digest() for at in pairs])

    def root(self, stop, start=0):
        """Root of the first ``stop`` leaves, or of those from ``start`` on, where a subtree starts."""
        self._grow()
        if not (size := stop - start):
            return sha256().digest()
        level = size.bit_length() - 1
        if size == 1 << level:
            at = 32 * (start >> level)
            return bytes(self._levels[level][at : at + 32])
        middle = start + (1 << level)
        return _node(self.root(middle, start), self.root(stop, middle))

    def inclusion(self, place, size):
        """Proof that the leaf at ``place`` is in the tree of the first ``size``: O(log n) hashes, in O(log n) time."""
        return [self.root(stop, start) for start, stop in _way(place, size)[1:]]

    def consistency(self, old, size):
        """Proof that the tree of the first ``size`` leaves extends that of the first ``old``, likewise."""
        way = _way(old - 1, size, old) if old else []
        return [self.root(stop, start) for start, stop in way if (start, stop) != (0, old)]


def root_of(hash, place, size, path):
    """The root that an inclusion proof leads to from an entry's hash; None if the proof is of another length."""
    return _fold(hash, place, _way(place, size)[1:], path) if place < size else None


def extends(old, new, path):
    """Whether a consistency proof shows that the head ``new`` extends the head ``old``."""
    if not 0 < old.size < new.size:
        return not path and (not old.size or (old.size, old.root) == (new.size, new.root))
    ((start, _), *siblings), place = _way(old.size - 1, new.size, old.size), old.size - 1
    first, *path = (path or [b""]) if start else [old.root, *path]
    return [_fold(first, place, siblings, path, left) for left in (True, False)] == [
        old.root,
        new.root,
    ]
