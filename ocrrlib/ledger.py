"""The append-only ledger: entries linked by SHA-256, so that the past cannot change unseen.

An entry's hash covers its id, label, embedding and the hash of the entry before
it (paper, section 4.3).  A chain proves order and content of what it still
holds; a cut tail or a rewrite of the whole chain shows only against a head hash
that was kept elsewhere (``verify(head=...)``).
"""

import hashlib
import operator
import struct
from dataclasses import dataclass

import numpy as np

from ocrrlib.entries import Entries
from ocrrlib.errors import InputError

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


def as_hash(given):
    """A hash of 32 bytes, from these or from 64 hexadecimal digits.

    Raises
    ------
    InputError
        If it is neither.
    """
    try:
        found = bytes.fromhex(given) if isinstance(given, str) else given
    except ValueError:
        found = None
    if not isinstance(found, bytes) or len(found) != len(GENESIS):
        raise InputError(f"head {given!r} is no hash: give 64 hexadecimal digits, or the 32 bytes that they stand for")
    return found


def _checked(X, y):
    """Rows (n, d) float32 and class ids (n,) int64 that a ledger can hold.

    Raises
    ------
    InputError
        If they are not such.
    """
    try:
        with np.errstate(over="ignore"):  # what is too large for float32 is found as infinite
            X = np.asarray(X, np.float32)
        y = [operator.index(label) for label in np.atleast_1d(y).tolist()]
    except (TypeError, ValueError) as error:
        raise InputError(
            f"not an entry of a ledger ({error}): give embeddings and whole numbers as class ids"
        ) from None
    if X.ndim != 2 or len(X) != len(y):
        raise InputError(f"rows of shape {X.shape} and {len(y)} class ids do not match: give (n, d) and (n,)")
    if not np.isfinite(X).all():
        raise InputError("an embedding has NaN or infinite values: remove or fix it, a hash over it would vouch for it")
    if y and not 0 <= min(y) <= max(y) < 2**63:
        raise InputError(f"class ids from {min(y)} to {max(y)} are out of range: give whole numbers from 0 up")
    return X, np.array(y, np.int64)


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

    Parameters
    ----------
    X : (n, d) float32
        First embeddings, finite.
    y : (n,) int
        Their class ids, from 0 up.

    Attributes
    ----------
    ids : list of int
        An entry's id is its place at the time of writing.
    previous, hashes : list of bytes
        Hash of the entry before, and of the entry itself.

    Raises
    ------
    InputError
        If rows or class ids are not such.
    """

    def __init__(self, X, y):
        _checked(X, y)
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
        """Add an entry and extend the chain; where an entry is refused, the ledger stays as it was.

        Parameters
        ----------
        x : (d,) float32
            An embedding, finite.
        y : int
            Its class id, from 0 up.

        Raises
        ------
        InputError
            If it is not such an entry, or the embedding is not as long as the others.
        """
        if not self._is_entry(x, y):
            x, y = self._as_entry(x, y)
        super().append(x, y)
        id = self.size - 1
        self.ids.append(id)
        self._link(id, y, self._X[id])

    def _is_entry(self, x, y):
        """Whether an entry can be stored as it is, in less time than storing takes; False also where that is open."""
        plain = type(x) is np.ndarray and x.dtype == np.float32 and x.shape == self._X.shape[1:]
        return plain and type(y) is int and 0 <= y < 2**63 and bool(np.isfinite(x).all())

    def _as_entry(self, x, y):
        if np.shape(x) != self._X.shape[1:] or np.ndim(y):
            raise InputError(
                f"an embedding of shape {np.shape(x)} and a class id of shape {np.shape(y)} are no entry of it: "
                f"give {self._X.shape[1:]} and one whole number"
            )
        rows, labels = _checked(np.asarray(x)[None], y)
        return rows[0], int(labels[0])

    def overwrite(self, slot, x, y):
        if slot != self.size - 1 or slot < len(self.hashes):
            raise TypeError("a ledger is append-only: entries are never overwritten")
        super().overwrite(slot, x, y)

    def verify(self, head=None):
        """Walk the chain and return the first ``Fault``, or None if all is as written.

        Parameters
        ----------
        head : bytes or str, optional
            The newest hash as noted elsewhere, earlier, as it is or as hexadecimal digits; without it a cut tail
            or a rewrite of the whole chain goes unnoticed.

        Raises
        ------
        InputError
            If the head is no hash.
        """
        head = None if head is None else as_hash(head)
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
