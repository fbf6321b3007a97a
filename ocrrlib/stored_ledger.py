"""A ledger as it was found in a file, its head, and what vouches for it.

The head is the SHA-256 of ``b"OCRR1 names"``, the digest of the class names and the hash of the newest entry: noted
elsewhere, it vouches for names and entries.
"""

import hashlib
import struct
from dataclasses import dataclass

from ocrrlib.entries import Entries
from ocrrlib.errors import InputError
from ocrrlib.ledger import GENESIS, Fault, Ledger, as_hash


@dataclass(frozen=True)
class Damage(Fault):
    """Something in a file that was not written so, and for which no entries can be made of it.

    Of ``kind`` ``changed`` (an entry), ``renamed``, ``about`` or ``tables``; ``what`` was found is said in words.
    """

    what: str

    def __str__(self):
        where = {"about": "table about: changed", "tables": "tables: changed"}.get(self.kind, super().__str__())
        return f"{where} ({self.what})"


class Broken(InputError):
    """A file that was changed since it was written.

    Attributes
    ----------
    fault : Fault
        The first that was found.
    """

    def __init__(self, path, fault):
        super().__init__(f"{path}: {fault}: restore it from a copy")
        self.fault = fault


class StoredLedger(Ledger):
    """Entries and hashes as they were found; nothing is computed anew, so that it can be verified.

    Attributes
    ----------
    classes : tuple of str
        Names of the classes; a label is a position in it.
    names : bytes or None
        Digest of the names as they were written; None if the entries are not from a file.
    """

    def __init__(self, X, y, ids, previous, hashes, classes, names=None):
        Entries.__init__(self, X, y)
        self.ids, self.previous, self.hashes, self.classes, self.names = ids, previous, hashes, classes, names

    @property
    def head(self):
        """What vouches for names and entries; for entries alone where there are no names."""
        return super().head if self.names is None else _sealed(self.names, super().head)

    def verify(self, head=None):
        """As for every ledger, of the names of the classes, too.

        Parameters
        ----------
        head : bytes or str, optional
            As noted elsewhere, earlier, of the file or, for its entries alone, of the ledger in memory; as it is or
            as hexadecimal digits.

        Raises
        ------
        InputError
            If the head is no hash.
        """
        head = None if head is None else as_hash(head)
        if self.names is not None and self.names != names_hash(self.classes):
            return Fault(0, "renamed")
        return super().verify(None if head is not None and self.vouched(head) else head)

    def vouched(self, head):
        """What a head stands for.

        Returns
        -------
        entries : int
            How many entries it vouches for, from the first on.
        names : bool
            Whether it vouches for the names of the classes, too: a file's head does, that of a ledger in memory not.

        Or None, if no part of this ledger has or had this head.
        """
        for size, own in enumerate((GENESIS, *self.hashes)):
            if self.names is not None and head == _sealed(self.names, own):
                return size, True
            if size and head == own:
                return size, False
        return None


def names_hash(classes):
    """SHA-256 of the names of the classes: of each, in order, the length (uint32, little-endian) and its UTF-8."""
    digest = hashlib.sha256()
    for name in map(str, classes):
        digest.update(struct.pack("<I", len(name.encode())) + name.encode())
    return digest.digest()


def _sealed(names, own):
    """The head of a file with names of this digest, whose newest entry has this hash."""
    return hashlib.sha256(b"OCRR1 names" + names + own).digest()


def head(ledger, classes=None):
    """The head as hexadecimal digits: note it elsewhere.

    Parameters
    ----------
    ledger : Ledger
        As read from a file, or in memory.
    classes : sequence of str, optional
        Names that a ledger in memory is written with: the head is then that of the file.
    """
    own = ledger.hashes[-1] if ledger.hashes else GENESIS
    return (ledger.head if classes is None else _sealed(names_hash(classes), own)).hex()


def from_hex(text):
    """A head hash as ``head`` writes it.

    Raises
    ------
    InputError
        If it is not 64 hexadecimal digits, or the hash that stands before every first entry.
    """
    found = as_hash(text)
    if found == GENESIS:
        raise InputError(
            "head 0000... stands before the first entry of every ledger: give one that was noted of a file"
        )
    return found
