"""The paper's ledger: entries bound to one another by a hash chain (section 4.3)."""

import struct
from hashlib import sha256
from typing import NamedTuple

from ocrrlib.search import Entries
from ocrrlib.shared import shared

_entry, _length = struct.Struct("<7sQq").pack, struct.Struct("<I").pack
GENESIS = bytes(32)  # the hash before the first entry of a ledger in memory


def commitment(salt, x, label, author="", text=None):
    """SHA-256 of an entry's content; once ``salt`` and content are erased, it reveals nothing about them.

    Encoded as: ``salt`` (bytes), length of ``x`` in bytes (uint32, little-endian), ``x`` (float32
    each, little-endian), and ``label``, ``author`` and ``text``, if there is one, in UTF-8,
    separated by zero bytes.
    """
    words = f"{label}\0{author}" if text is None else f"{label}\0{author}\0{text}"
    return sha256(b"".join((salt, _length(len(x)), x, words.encode()))).digest()


def entry_hash(place, time, committed, previous):
    """Hash of an entry, as RFC 6962 hashes a leaf.

    SHA-256 over a zero byte and the entry: ``b"OCRR2 "``, place (uint64), time (int64, microseconds
    since 1970, UTC), all little-endian, commitment to the content, hash of the entry before (32
    bytes each).
    """
    return sha256(_entry(b"\0OCRR2 ", place, time) + committed + previous).digest()


class Fault(NamedTuple):
    """The first broken entry."""

    position: int
    kind: str  # changed, removed (just before), inserted, reordered, truncated (before the head), forked (off the head)

    def __str__(self):
        return f"entry {self.position}: {self.kind}"


@shared(keep=2)
def _chain(X, y):
    """The hash before the first entry of a new ledger, and those of its entries; many runs begin with the same."""
    chain = [GENESIS]
    for x, label in zip(X, y.tolist()):
        chain.append(_hash(len(chain) - 1, x, label, chain[-1]))
    return chain


def _hash(place, x, label, previous):
    return entry_hash(place, 0, commitment(b"", x.tobytes(), str(label)), previous)


class Ledger(Entries):
    """Entries in memory, each bound to the one before; they can only be appended.

    ``hashes`` lists those of all entries. Times are 0, authors and salts empty, class ids written
    as decimal numbers.
    """

    def __init__(self, X, y):
        super().__init__(X, y)
        self.hashes = _chain(self.X, self.y)[1:]

    def append(self, x, y):
        super().append(x, y)
        self.hashes.append(
            _hash(self.size - 1, self.X[-1], int(y), self.hashes[-1] if self.hashes else GENESIS)
        )

    @property
    def nbytes(self):
        return super().nbytes + self.size * (8 + 32 + 32)  # id and two hashes
