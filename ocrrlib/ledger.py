"""The append-only ledger: entries linked by SHA-256, so that the past cannot change unseen, and its file.

An entry's hash covers its id, label, embedding and the hash of the entry before it (paper, section 4.3). The chain
proves order and content of the entries that it holds; a cut tail or a rewrite of the whole chain shows only against
a head that was kept elsewhere: ``verify(head)``.
"""

import hashlib
import re
import sqlite3
import struct
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ocrrlib.files import InputError
from ocrrlib.search import Entries
from ocrrlib.shared import shared

GENESIS = bytes(32)  # the hash before the first entry
FORMAT, WIDEST = 2, 2**20  # of the file; numbers in an embedding at most
_HEADER = struct.Struct("<5sqqI")  # tag, id, label, dimension
_SCHEMA = """\
CREATE TABLE about (format INTEGER NOT NULL, dim INTEGER NOT NULL, names BLOB NOT NULL);
CREATE TABLE classes (label INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE entries (
    place INTEGER PRIMARY KEY, id INTEGER NOT NULL, label INTEGER NOT NULL,
    x BLOB NOT NULL, previous BLOB NOT NULL, hash BLOB NOT NULL
)"""
_TYPES = [int, int, int, bytes, bytes, bytes]  # of an entry's columns


def entry_hash(id, label, x, previous):
    """SHA-256 of the canonical encoding of one entry.

    Little-endian throughout: ``b"OCRR1"``, id (int64), label (int64), dimension
    (uint32), embedding (float32 each), hash of the entry before (32 bytes).
    """
    digest = hashlib.sha256(_HEADER.pack(b"OCRR1", id, label, len(x)))
    digest.update(np.ascontiguousarray(x, "<f4"))
    digest.update(previous)
    return digest.digest()


def names_hash(classes):
    """SHA-256 of class names: of each, in order, the length (uint32, little-endian) and its UTF-8."""
    names = [name.encode() for name in classes]
    return hashlib.sha256(b"".join(struct.pack("<I", len(name)) + name for name in names)).digest()


def _sealed(names, newest):
    """The head of a ledger with class names of this digest whose newest entry has this hash."""
    return hashlib.sha256(b"OCRR1 names" + names + newest).digest()


def _checked(X, y):
    """Rows (n, d) float32 and class ids (n,) int64 that a ledger can hold, or an ``InputError``."""
    try:
        with np.errstate(over="ignore"):  # too large for float32 is infinite, and refused
            X, y = np.asarray(X, np.float32), np.asarray(y)
        ids = not y.size or y.dtype.kind in "iu" and 0 <= y.min() and y.max() < 2**63
        if X.ndim == 2 and y.shape == X.shape[:1] and np.isfinite(X).all() and ids:
            return X, y.astype(np.int64)
    except (TypeError, ValueError):  # no numbers
        pass
    raise InputError("a ledger holds rows (n, d) of finite numbers and class ids (n,), whole numbers from 0 up")


@shared(keep=2)
def _chain(X, y):
    """The hash before the first entry of a new ledger, and those of its entries; many runs begin with the same."""
    chain = [GENESIS]
    for x, label in zip(X, y.tolist()):
        chain.append(entry_hash(len(chain) - 1, label, x, chain[-1]))
    return chain


class Fault(NamedTuple):
    """The first broken entry."""

    position: int | None  # None for the class names
    kind: str  # changed, removed (just before), inserted, reordered, or truncated (the head is not reached)

    def __str__(self):
        return f"{'names of the classes' if self.position is None else f'entry {self.position}'}: {self.kind}"


class Ledger(Entries):
    """Entries that can only be appended, each bound to the one before, from X (n, d) finite, y (n,) class ids.

    ``ids``, ``previous`` and ``hashes`` list of each entry its place at the time of writing, the hash of the entry
    before and its own; ``classes`` and ``names`` are class names and their digest, where it was read from a file.
    Raises ``InputError`` if rows are not finite or labels are not class ids.
    """

    classes = names = None

    def __init__(self, X, y):
        X, y = _checked(X, y)
        super().__init__(X, y)
        chain = _chain(X, y)
        self.ids, self.previous, self.hashes = list(range(len(X))), chain[:-1], chain[1:]

    @classmethod
    def from_chain(cls, X, y, ids, previous, hashes, classes=None, names=None):
        """Entries and hashes as found elsewhere, nothing computed again, so that ``verify`` can judge them."""
        ledger = cls(X[:0], [])
        Entries.__init__(ledger, X, y)
        ledger.ids, ledger.previous, ledger.hashes = ids, previous, hashes
        ledger.classes, ledger.names = classes, names
        return ledger

    def _link(self, x, label):
        self.previous.append(self.hashes[-1] if self.hashes else GENESIS)
        self.ids.append(len(self.ids))
        self.hashes.append(entry_hash(self.ids[-1], label, x, self.previous[-1]))

    def append(self, x, y):
        """Add an entry, x (d,) finite, y a class id; if it is none, raise ``InputError`` and change nothing."""
        (x,), (y,) = _checked([x], [y])
        if x.shape != self._X.shape[1:]:
            raise InputError(f"an embedding of length {len(x)} does not fit a ledger of length {self._X.shape[1]}")
        super().append(x, y)
        self._link(x, int(y))

    @property
    def head(self):
        """Hash of the newest entry, sealed with the class names where there are some; keep it elsewhere."""
        newest = self.hashes[-1] if self.hashes else GENESIS
        return newest if self.names is None else _sealed(self.names, newest)

    @property
    def nbytes(self):
        return super().nbytes + self.size * (8 + 32 + 32)  # id and two hashes

    def verify(self, head=None):
        """Walk the chain and return the first ``Fault``, or None if all is as written.

        ``head`` is a head of this ledger that was kept elsewhere, 32 bytes or 64 hexadecimal digits. Without it a cut
        tail or a rewrite of the whole chain goes unnoticed. Raises ``InputError`` if it is no hash.
        """
        head = head.hex() if isinstance(head, bytes) else head
        if head is not None and not re.fullmatch("[0-9a-fA-F]{64}", str(head)):
            raise InputError("the head is no hash: give 64 hexadecimal digits, or the 32 bytes that they stand for")
        if self.names is not None and self.names != names_hash(self.classes):
            return Fault(None, "changed")
        before = GENESIS
        for place in range(self.size):
            own = entry_hash(self.ids[place], int(self.y[place]), self.X[place], self.previous[place])
            if own != self.hashes[place]:
                return Fault(place, "changed")
            if self.previous[place] != before:
                return self._broken_link(place)
            before = own
        known = {GENESIS, *self.hashes}
        known |= {_sealed(self.names, one) for one in known} if self.names else set()
        return None if head is None or bytes.fromhex(head) in known else Fault(self.size, "truncated")

    def _broken_link(self, place):
        """Why the entry at ``place``, intact in itself, does not follow the one before it."""
        wanted, chain, later = self.previous[place], [GENESIS, *self.hashes[:place]], self.hashes[place + 1 :]
        copied = self.hashes.count(self.hashes[place]) > 1
        if wanted in later and not copied:
            return Fault(place, "reordered")
        if copied or later and self.previous[place + 1] == chain[-1]:  # unknown to the next one
            return Fault(place, "inserted")
        if wanted in chain:  # all from there to here
            return Fault(chain.index(wanted), "inserted")
        return Fault(place, "removed")


@contextmanager
def _opened(path, mode):
    """A database in one transaction, committed at the end or left as it was; and whether it holds a ledger yet."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, isolation_level=None)) as base:
            base.execute("PRAGMA synchronous = EXTRA")  # as FULL, and the folder once the journal is gone
            base.execute("BEGIN IMMEDIATE" if mode == "rwc" else "BEGIN")
            found = [sql for (sql,) in base.execute("SELECT sql FROM sqlite_master ORDER BY name")]
            if found != _SCHEMA.split(";\n") and (found or mode == "rw"):
                raise InputError(f"{path} holds no ledger, or its tables were changed: choose another file")
            yield base, bool(found)
            base.execute("COMMIT")
    except sqlite3.Error as error:
        way_out = "check disk, permissions and other programs, restore a copy, or choose another file"
        raise InputError(f"cannot use {path} as a ledger ({error}): {way_out}") from error


def write(ledger, path, classes):
    """Write a ledger to an SQLite file, or add its new entries; return their number once they are on disk.

    Raises ``InputError``, and writes nothing, if the file holds another ledger, other class names or something else,
    if it cannot be written, or if a label has no name.
    """
    path, about = Path(path), (FORMAT, ledger.X.shape[1], names_hash(classes))
    if ledger.size and ledger.y.max() >= len(classes):
        raise InputError(f"{path} is not written: label {ledger.y.max()} has no name among {len(classes)} classes")
    with _opened(path, "rwc") as (base, exists):
        if not exists:
            for statement in _SCHEMA.split(";\n"):
                base.execute(statement)
            base.execute("INSERT INTO about VALUES (?, ?, ?)", about)
            base.executemany("INSERT INTO classes VALUES (?, ?)", enumerate(classes))
        newest = base.execute("SELECT place + 1, hash FROM entries ORDER BY place DESC LIMIT 1").fetchone()
        start, last = newest or (0, GENESIS)
        same = start <= ledger.size and last == (ledger.hashes[start - 1] if start else GENESIS)
        if not same or base.execute("SELECT * FROM about").fetchall() != [about]:
            raise InputError(f"{path} holds another ledger or other classes: continue that one, or choose another file")
        for place in range(start, ledger.size):
            x, label = ledger.X[place].astype("<f4").tobytes(), int(ledger.y[place])
            row = place, ledger.ids[place], label, x, ledger.previous[place], ledger.hashes[place]
            base.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", row)
    return ledger.size - start


def read(path):
    """The ledger in a file, with its ``classes``, as it stands there: ``verify`` finds what was changed.

    Raises ``InputError`` if the file is missing, is no ledger, or was changed so that it cannot be read.
    """
    with _opened(Path(path), "rw") as (base, _):  # "rw", as SQLite first undoes a write that was killed
        about, names, rows = (
            base.execute(f"SELECT * FROM {table}").fetchall()
            for table in ("about", "classes ORDER BY label", "entries ORDER BY place")
        )

    def check(part, whole):
        if not whole:
            raise InputError(f"{path}: {part} changed since it was written: restore it from a copy")

    check("table about", [list(map(type, row)) for row in about] == [[int, int, bytes]])
    ((format, dim, digest),) = about
    check("table about", format == FORMAT and 0 < dim <= WIDEST)
    check("names of the classes", all(type(name) is str and i == label for i, (label, name) in enumerate(names)))
    for place, row in enumerate(rows):
        check(f"entry {place}", list(map(type, row)) == _TYPES and len(row[3]) == 4 * dim)
    places, ids, labels, blobs, previous, hashes = map(list, zip(*rows)) if rows else ([] for _ in _TYPES)
    X, classes = np.frombuffer(b"".join(blobs), "<f4").reshape(-1, dim), tuple(name for _, name in names)
    ledger = Ledger.from_chain(X, labels, ids, previous, hashes, classes, digest)
    check("places of entries", places == list(range(len(rows))) or ledger.verify())
    return ledger
