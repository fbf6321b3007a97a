"""The append-only ledger: entries linked by SHA-256, so that the past cannot change unseen.

An entry's hash covers its id, label, embedding and the hash of the entry before
it (paper, section 4.3).  A chain proves order and content of what it still
holds; a cut tail or a rewrite of the whole chain shows only against a head hash
that was kept elsewhere (``verify(head=...)``).
"""

import hashlib
import struct
from dataclasses import dataclass

import numpy as np

from ocrrlib.entries import Entries

GENESIS = bytes(32)
_HEADER = struct.Struct("<5sqqI")  # tag, id, label, dimension


def entry_hash(id, label, x, previous):
    """SHA-256 of the canonical encoding of one entry.

    Little-endian throughout: ``b"OCRR1"``, id (int64), label (int64), dimension
    (uint32), embedding (float32 each), hash of the entry before (32 bytes).
    """
    digest = hashlib.sha256(_HEADER.pack(b"OCRR1", id, label, len(x)))
    digest.update(np.ascontiguousarray(x, "<f4"))
    digest.update(previous)
    return digest.digest()


@dataclass(frozen=True)
class Fault:
    """The first broken entry: its place in the ledger and what was done.

    ``kind`` is ``changed``, ``removed`` (just before this place), ``inserted``,
    ``reordered`` or ``truncated`` (the chain does not contain the head noted elsewhere);
    or, of a ledger on disk, ``renamed``: classes do not have the names that they were written with.
    """

    position: int
    kind: str

    def __str__(self):
        return "names of the classes: changed" if self.kind == "renamed" else f"entry {self.position}: {self.kind}"


class Ledger(Entries):
    """Entries that can only be appended, each bound to the one before.

    Attributes
    ----------
    ids : list of int
        An entry's id is its place at the time of writing.
    previous, hashes : list of bytes
        Hash of the entry before, and of the entry itself.
    """

    def __init__(self, X, y):
        super().__init__(X, y)
        self.ids, self.previous, self.hashes = list(range(self.size)), [], []
        for id, (x, label) in enumerate(zip(self.X, self.y.tolist())):
            self._link(id, label, x)

    def _link(self, id, label, x):
        before = self.hashes[-1] if self.hashes else GENESIS
        self.previous.append(before)
        self.hashes.append(entry_hash(id, label, x, before))

    @property
    def head(self):
        """Hash of the newest entry; keep it elsewhere to notice a cut tail or a full rewrite."""
        return self.hashes[-1] if self.hashes else GENESIS

    @property
    def nbytes(self):
        return super().nbytes + self.size * (8 + 32 + 32)  # id and the two hashes

    def append(self, x, y):
        """Add an entry and extend the chain."""
        super().append(x, y)
        id = self.size - 1
        self.ids.append(id)
        self._link(id, y, self._X[id])

    def overwrite(self, slot, x, y):
        if slot != self.size - 1 or slot < len(self.hashes):
            raise TypeError("a ledger is append-only: entries are never overwritten")
        super().overwrite(slot, x, y)

    def verify(self, head=None):
        """Walk the chain and return the first ``Fault``, or None if all is as written.

        Parameters
        ----------
        head : bytes, optional
            The newest hash as noted elsewhere, earlier; without it a cut tail or a rewrite of
            the whole chain goes unnoticed.
        """
        before = GENESIS
        for place in range(self.size):
            own = entry_hash(self.ids[place], int(self.y[place]), self.X[place], self.previous[place])
            if own != self.hashes[place]:
                return Fault(place, "changed")
            if self.previous[place] != before:
                return self._broken_link(place)
            before = own
        if head is not None and head != GENESIS and head not in self.hashes:
            return Fault(self.size, "truncated")
        return None

    def _broken_link(self, place):
        """Say why the entry at ``place``, intact in itself, does not follow the one before it."""
        wanted, chain, later = self.previous[place], [GENESIS, *self.hashes[:place]], self.hashes[place + 1 :]
        if self.hashes[place] in chain or self.hashes[place] in later:
            return Fault(place, "inserted")  # a copy
        if wanted in later:
            return Fault(place, "reordered")
        if later and self.previous[place + 1] == chain[-1]:
            return Fault(place, "inserted")  # the next one does not know it
        if wanted in chain:
            return Fault(chain.index(wanted), "inserted")  # all from there to here
        return Fault(place, "removed")
