"""Merkle tree over the entry hashes of a ledger, and its proofs (RFC 6962, RFC 9162).

Entry hashes are leaves as RFC 6962 hashes them. With k the largest power of two smaller than n::

    MTH({})  = SHA-256()
    MTH({h}) = h
    MTH(D_n) = SHA-256(0x01 || MTH(D[0:k]) || MTH(D[k:n]))

    size 7, the audit path of leaf 2 in brackets, from the leaf up:

                    root
                /          \\
            *                 [*]
          /    \\            /     \\
       [*]      *          *       |
       / \\    /  \\       /  \\      |
      0   1   2   [3]    4    5     6
"""

from collections.abc import Iterable
from hashlib import sha256
from itertools import pairwise

HASH = 32  # bytes


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()


def _split(size: int) -> int:
    """The largest power of two smaller than ``size``, which is at least 2."""
    return 1 << (size - 1).bit_length() - 1


class Tree:
    """Merkle tree that only grows (RFC 6962, section 2.1).

    ``leaves`` are hashes, one after the other, to which more may be added. All perfect subtrees are
    kept: 64 bytes an entry. A root, an audit path or a consistency proof takes O(log n) time;
    ``size`` is at most the number of leaves.
    """

    def __init__(self, leaves: Iterable[bytes] = ()):
        self.leaves = bytearray().join(leaves)
        self._levels = [self.leaves, *(bytearray() for _ in range(63))]

    def root(self, size: int) -> bytes:
        """Return the root of the tree of the first ``size`` leaves."""
        if size == 0:
            return sha256().digest()
        self._complete()
        return self._subtree(0, size)

    def _complete(self):
        """Hash the perfect subtrees that new leaves completed; amortised constant time a leaf."""
        for below, above in pairwise(self._levels):
            pairs = range(2 * len(above), len(below) // (2 * HASH) * (2 * HASH), 2 * HASH)
            if not pairs:
                break
            above += b"".join([sha256(b"\1" + below[at : at + 64]).digest() for at in pairs])

    def _subtree(self, start: int, stop: int) -> bytes:
        """Root over the leaves from ``start``, where a subtree begins, up to ``stop``."""
        size = stop - start
        level = size.bit_length() - 1
        if size == 1 << level:  # a perfect one
            at = HASH * (start >> level)
            return bytes(self._levels[level][at : at + HASH])
        middle = start + _split(size)
        return _node(self._subtree(start, middle), self._subtree(middle, stop))

    def inclusion_proof(self, index: int, size: int) -> list[bytes]:
        """Return the audit path of the leaf at ``index`` in the tree of the first ``size`` leaves.

        PATH(m, D_n) of RFC 9162, section 2.1.3.1; requires 0 <= index < size.
        """
        self._complete()
        path = []
        start = 0
        stop = size
        while stop - start > 1:
            middle = start + _split(stop - start)
            if index < middle:
                path.append(self._subtree(middle, stop))
                stop = middle
            else:
                path.append(self._subtree(start, middle))
                start = middle
        return path[::-1]

    def consistency_proof(self, old: int, size: int) -> list[bytes]:
        """Return the proof that the first ``size`` leaves extend the first ``old`` ones.

        PROOF(m, D_n) of RFC 9162, section 2.1.4.1; requires 0 <= old <= size. It is
        empty if either tree is empty or both are the same.
        """
        if old in (0, size):
            return []
        self._complete()
        path = []
        start = 0
        stop = size
        while stop != old:
            middle = start + _split(stop - start)
            if old <= middle:
                path.append(self._subtree(middle, stop))
                stop = middle
            else:
                path.append(self._subtree(start, middle))
                start = middle
        if start > 0:  # else the subtree is the old tree, whose root the verifier has
            path.append(self._subtree(start, stop))
        return path[::-1]


def root_from_inclusion_proof(
    hash: bytes, index: int, size: int, path: list[bytes]
) -> bytes | None:
    """Return the root to which an audit path leads from the leaf ``hash`` at ``index``.

    RFC 9162, section 2.1.3.2, with its names fn and sn. None if ``index`` is not in a tree of this
    size, or the path has another length.
    """
    if not 0 <= index < size:
        return None
    fn = index
    sn = size - 1
    for sibling in path:
        if sn == 0:
            return None
        if fn & 1 or fn == sn:
            hash = _node(sibling, hash)
            while fn and not fn & 1:
                fn >>= 1
                sn >>= 1
        else:
            hash = _node(hash, sibling)
        fn >>= 1
        sn >>= 1
    return hash if sn == 0 else None


def verify_consistency(
    old: int, old_root: bytes, size: int, root: bytes, path: list[bytes]
) -> bool:
    """Whether a consistency proof shows that a tree extends an older one.

    RFC 9162, section 2.1.4.2, with its names fn, sn, fr and sr. Every tree extends the empty one,
    and the same tree itself; both need no proof.
    """
    if old > size:
        return False
    if old == 0:
        return not path
    if old == size:
        return not path and old_root == root
    if not path:
        return False
    if old & (old - 1) == 0:  # a power of two: the old root is a node of the new tree
        path = [old_root, *path]
    fn = old - 1
    sn = size - 1
    while fn & 1:
        fn >>= 1
        sn >>= 1
    fr = path[0]
    sr = path[0]
    for sibling in path[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            fr = _node(sibling, fr)
            sr = _node(sibling, sr)
            while fn and not fn & 1:
                fn >>= 1
                sn >>= 1
        else:
            sr = _node(sr, sibling)
        fn >>= 1
        sn >>= 1
    return sn == 0 and fr == old_root and sr == root
