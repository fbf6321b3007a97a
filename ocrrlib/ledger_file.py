"""A ledger on disk: one SQLite file, to which entries are only ever added.

What was written is read back as it stands, so that ``verify`` finds what was changed in the file since.

The file's head is the SHA-256 of ``b"OCRR1 names"``, the digest of the class names and the hash of the newest
entry: noted elsewhere, it vouches for names and entries.
"""

import hashlib
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import numpy as np

from ocrrlib.entries import Entries
from ocrrlib.errors import InputError
from ocrrlib.ledger import GENESIS, Fault, Ledger

FORMAT = 2  # 1 had no digest of the names
COLUMNS = {"id": int, "label": int, "x": bytes, "previous": bytes, "hash": bytes}  # of an entry, after its place
_TABLES = """
CREATE TABLE about (format INTEGER NOT NULL, dim INTEGER NOT NULL, names BLOB NOT NULL);
CREATE TABLE classes (label INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE entries (
    place INTEGER PRIMARY KEY, id INTEGER NOT NULL, label INTEGER NOT NULL,
    x BLOB NOT NULL, previous BLOB NOT NULL, hash BLOB NOT NULL
);
"""


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
        head : bytes, optional
            As noted elsewhere, earlier, of the file or, for its entries alone, of the ledger in memory.
        """
        if self.names is not None and self.names != names_hash(self.classes):
            return Fault(0, "renamed")
        sealed = self.names is not None and any(head == _sealed(self.names, own) for own in (GENESIS, *self.hashes))
        return super().verify(None if sealed else head)


def names_hash(classes):
    """SHA-256 of the names of the classes: of each, in order, the length (uint32, little-endian) and its UTF-8."""
    digest = hashlib.sha256()
    for name in map(str, classes):
        digest.update(struct.pack("<I", len(name.encode())) + name.encode())
    return digest.digest()


def _sealed(names, own):
    """The head of a file with names of this digest, whose newest entry has this hash."""
    return hashlib.sha256(b"OCRR1 names" + names + own).digest()


def write(ledger, path, classes):
    """Write a ledger, or add to the file what is new in it; whole or not at all.

    Parameters
    ----------
    ledger : Ledger
        What is written.
    path : path
        Where to. If there is a ledger already, it must be the beginning of this one.
    classes : sequence of str
        Names of the classes, the same each time.

    Returns
    -------
    int
        Entries added.

    Raises
    ------
    InputError
        If the file holds something else, be it one entry or name, or cannot be written.
    """
    path, classes = Path(path), tuple(map(str, classes))
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    try:
        with closing(sqlite3.connect(path)) as base, base:
            if not base.execute("SELECT 1 FROM sqlite_master").fetchone():
                base.executescript("BEGIN;" + _TABLES)
                about = FORMAT, ledger.X.shape[1], names_hash(classes)
                base.execute("INSERT INTO about VALUES (?, ?, ?)", about)
                base.executemany("INSERT INTO classes VALUES (?, ?)", enumerate(classes))
            dim, names = _about(base, path)
            if names != names_hash(classes) or _classes(base, path) != classes:
                raise InputError(f"{path} holds other classes than those given: choose another file")
            there = 0
            for there, row in enumerate(base.execute("SELECT * FROM entries ORDER BY place"), 1):
                if there > ledger.size or row != _row(ledger, there - 1):
                    raise InputError(
                        f"{path} holds another ledger than the one given, from entry {there - 1} on: choose another "
                        "file, or restore this one from a copy"
                    )
            if dim != ledger.X.shape[1]:
                raise InputError(f"{path} holds another ledger than the one given, of {dim} numbers a row")
            rows = (_row(ledger, place) for place in range(there, ledger.size))
            base.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", rows)
    except sqlite3.Error as error:
        raise InputError(f"cannot write a ledger to {path} ({error}): choose another file") from error
    return ledger.size - there


def _row(ledger, place):
    """An entry as a row of its table."""
    x = ledger.X[place].astype("<f4").tobytes()
    return place, ledger.ids[place], int(ledger.y[place]), x, ledger.previous[place], ledger.hashes[place]


def read(path):
    """The ledger of a file, as it stands there: a ``StoredLedger``.

    Raises
    ------
    InputError
        If there is no such file, it is no ledger, or what is in it cannot even be read.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} is missing: give a file that `ocrr ledger write` or ocrrlib.ledger_file.write made")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as base:
            dim, names = _about(base, path)
            classes = _classes(base, path)
            rows = base.execute(f"SELECT {', '.join(COLUMNS)} FROM entries ORDER BY place").fetchall()
    except sqlite3.Error as error:
        raise InputError(f"{path} is no ledger or damaged ({error}): restore it from a copy") from error
    for place, row in enumerate(rows):
        for (column, kind), value in zip(COLUMNS.items(), row):
            if type(value) is not kind:
                raise _damaged(path, f"{column} of entry {place} is not of type {kind.__name__}")
        if len(row[2]) != 4 * dim:
            raise _damaged(path, f"the embedding of entry {place} does not have {dim} numbers")
    ids, labels, blobs, previous, hashes = (list(column) for column in zip(*rows)) if rows else ([], [], [], [], [])
    X = np.frombuffer(b"".join(blobs), "<f4").reshape(-1, dim)
    return StoredLedger(X, np.array(labels, np.int64), ids, previous, hashes, classes, names)


def _damaged(path, what):
    return InputError(f"{path}: {what}: restore it from a copy")


def _about(base, path):
    """Numbers in a row, and the digest of the names, once it is clear that a file is a ledger of a known format."""
    tables = {name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {"about", "classes", "entries"} <= tables:
        raise InputError(f"{path} is a database but no ledger: choose another file")
    formats = [found for (found,) in base.execute("SELECT format FROM about")]
    if len(formats) != 1 or type(formats[0]) is not int:
        raise _damaged(path, "it does not say once of what format it is")
    if formats[0] < FORMAT:
        raise InputError(f"{path} is of format {formats[0]}, without a digest of the names: write it anew")
    if formats[0] > FORMAT:
        raise InputError(f"{path} is of format {formats[0]}, which is not known here: get a newer ocrrlib")
    dim, names = base.execute("SELECT dim, names FROM about").fetchone()
    if type(dim) is not int or dim < 1 or type(names) is not bytes:
        raise _damaged(path, "it does not say how long a row is, or has no digest of the names")
    return dim, names


def _classes(base, path):
    """Names of the classes, as they stand in a file."""
    found = base.execute("SELECT label, name FROM classes ORDER BY label").fetchall()
    if [label for label, _ in found] != list(range(len(found))):
        raise _damaged(path, "the classes are not numbered from 0 on")
    if not all(type(name) is str for _, name in found):
        raise _damaged(path, "the name of a class is not of type str")
    return tuple(name for _, name in found)


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
        If it is not 64 hexadecimal digits.
    """
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != len(GENESIS):
        raise InputError(f"head {text!r} is no hash: give 64 hexadecimal digits")
    return found
