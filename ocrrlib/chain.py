"""The paper's ledger: entries bound to one another by a hash chain (section 4.3).

Numbers are little-endian, words UTF-8, hashes SHA-256. The content of an entry is hashed first::

    commitment = SHA-256(length of x as uint32, in bytes; x, float32 a value; label 0x00 author)

then the entry, in the form of an RFC 6962 leaf::

    entry hash = SHA-256(
        0x00  "OCRR2 "        7 bytes
        place                 uint64: 0, 1, 2 ...
        time                  int64; 0 here
        commitment            32 bytes
        hash of the entry before, at place 0 the genesis: 32 zero bytes
    )

The ledger of a run has no authors. ``commitment`` takes what a ledger in a file has besides: a salt
before all else, the time in microseconds since 1970, a text and an act.
"""

import struct
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from ocrrlib.search import Entries
from ocrrlib.shared import shared

GENESIS = bytes(32)  # the hash before the first entry of a ledger in memory
HAS_ACT = 2**31  # added to the length of x, which is never as long

_pack_length = struct.Struct("<I").pack
_pack_link = struct.Struct("<7sQq").pack


def file_genesis(about: str) -> bytes:
    """Return the hash before the first entry of a file, from what the file says about itself."""
    return sha256(b"OCRR2 " + about.encode()).digest()


def commitment(
    salt: bytes,
    x: bytes,
    label: str,
    author: str = "",
    text: str | None = None,
    act: str | None = None,
) -> bytes:
    """Return the commitment to an entry's content; ``x`` are the bytes of its embedding."""
    words = f"{label}\0{author}"
    if text is not None:
        words += f"\0{text}"
    if act is None:
        return sha256(salt + _pack_length(len(x)) + x + words.encode()).digest()
    acted = act.encode()
    sizes = _pack_length(len(x) | HAS_ACT), _pack_length(len(acted))
    return sha256(salt + sizes[0] + x + sizes[1] + acted + words.encode()).digest()


def entry_hash(place: int, time: int, committed: bytes, previous: bytes) -> bytes:
    """Return the hash of an entry; ``committed`` is the commitment to its content."""
    return sha256(_pack_link(b"\0OCRR2 ", place, time) + committed + previous).digest()


class ChainLink(NamedTuple):
    """An entry as the chain binds it: by its commitment, the hash before it, and its own hash."""

    place: int
    time: int
    commitment: bytes
    previous: bytes
    hash: bytes


def verify_entry(link: ChainLink, place: int, previous: bytes) -> bool:
    """Whether an entry stands at ``place``, names the hash before it, and has the right hash."""
    if link.place != place or link.previous != previous:
        return False
    return entry_hash(link.place, link.time, link.commitment, link.previous) == link.hash


class Fault(NamedTuple):
    """The first broken entry of a ledger.

    ``kind`` is *changed* (it does not follow the entries before), *inserted* (in memory: it has no
    hash), *truncated* (shorter than its hashes or a head say), *forked* (another history than that
    of a head) or, in a memory, *void* (as it was written, but it counts for nothing).
    """

    position: int
    kind: str

    def __str__(self):
        return f"entry {self.position}: {self.kind}"


def _next_hash(place: int, x: np.ndarray, label: int, previous: bytes) -> bytes:
    """Hash of an entry of a ledger in memory: no salt, no author, no text, time 0."""
    return entry_hash(place, 0, commitment(b"", x.tobytes(), str(label)), previous)


@shared(keep=2)  # many runs begin with the same rows
def _chain(X, y):
    """Genesis and the hashes of all entries of a new ledger."""
    chain = [GENESIS]
    for place, label in enumerate(y.tolist()):
        chain.append(_next_hash(place, X[place], label, chain[-1]))
    return chain


class Ledger(Entries):
    """Entries in memory, each bound to the one before; they can only be appended.

    ``hashes`` lists the hashes of all entries. Class ids are hashed as decimal numbers.
    """

    def __init__(self, X: np.ndarray, y: np.ndarray):
        super().__init__(X, y)
        self.hashes = _chain(self.X, self.y)[1:]

    def append(self, x: np.ndarray, y: int):
        super().append(x, y)
        previous = self.hashes[-1] if self.hashes else GENESIS
        self.hashes.append(_next_hash(self.size - 1, self.X[-1], int(y), previous))

    def verify(self) -> Fault | None:
        """Recompute all hashes: the first ``Fault``, or None.

        The hash before an entry is not stored with it, so a removed, inserted or moved entry shows
        as *changed*. A missing or surplus tail of ``hashes`` shows as *inserted* or *truncated*.
        """
        previous = GENESIS
        for place, (x, label, hash) in enumerate(zip(self.X, self.y.tolist(), self.hashes)):
            content = commitment(b"", x.tobytes(), str(label))
            if not verify_entry(ChainLink(place, 0, content, previous, hash), place, previous):
                return Fault(place, "changed")
            previous = hash
        if len(self.hashes) < self.size:
            return Fault(len(self.hashes), "inserted")
        if len(self.hashes) > self.size:
            return Fault(self.size, "truncated")
        return None

    @property
    def nbytes(self) -> int:
        # As published, an entry counts an id and two hashes, its own and the one before.
        return super().nbytes + self.size * (8 + 32 + 32)
