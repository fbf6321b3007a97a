"""A ledger on disk: one SQLite file, to which entries are only ever added.

What was written is read back as it stands, so that ``verify`` finds what was changed in the file since.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np

from ocrrlib.entries import Entries
from ocrrlib.errors import InputError
from ocrrlib.ledger import GENESIS, Ledger

FORMAT = 1
_TABLES = """
CREATE TABLE about (format INTEGER NOT NULL, dim INTEGER NOT NULL);
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
    """

    def __init__(self, X, y, ids, previous, hashes, classes):
        Entries.__init__(self, X, y)
        self.ids, self.previous, self.hashes, self.classes = ids, previous, hashes, classes


def write(ledger, path, classes):
    """Write a ledger, or add to the file what is new in it; whole or not at all.

    Parameters
    ----------
    ledger : Ledger
        What is written.
    path : path
        Where to. If there is a ledger already, it must be the beginning of this one.
    classes : sequence of str
        Names of the classes.

    Returns
    -------
    int
        Entries added.

    Raises
    ------
    InputError
        If the file holds something else, or cannot be written.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    try:
        with closing(sqlite3.connect(path)) as base, base:
            if not base.execute("SELECT 1 FROM sqlite_master").fetchone():
                base.executescript("BEGIN;" + _TABLES)
                base.execute("INSERT INTO about VALUES (?, ?)", (FORMAT, ledger.X.shape[1]))
                base.executemany("INSERT INTO classes VALUES (?, ?)", enumerate(map(str, classes)))
            there = _length(base, path)
            last = base.execute("SELECT hash FROM entries ORDER BY place DESC LIMIT 1").fetchone()
            if there > ledger.size or (last and last[0] != ledger.hashes[there - 1]):
                raise InputError(f"{path} holds another ledger than the one given: choose another file")
            base.executemany(
                "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)",
                (
                    (
                        place,
                        ledger.ids[place],
                        int(ledger.y[place]),
                        ledger.X[place].astype("<f4").tobytes(),
                        ledger.previous[place],
                        ledger.hashes[place],
                    )
                    for place in range(there, ledger.size)
                ),
            )
    except sqlite3.Error as error:
        raise InputError(f"cannot write a ledger to {path} ({error}): choose another file") from error
    return ledger.size - there


def read(path):
    """The ledger of a file, as it stands there: a ``StoredLedger``.

    Raises
    ------
    InputError
        If there is no such file, it is no ledger, or its entries cannot even be read.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} is missing: give a file that `ocrr ledger write` or ocrrlib.ledger_file.write made")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as base:
            _length(base, path)
            (dim,) = base.execute("SELECT dim FROM about").fetchone()
            classes = tuple(name for (name,) in base.execute("SELECT name FROM classes ORDER BY label"))
            rows = base.execute("SELECT id, label, x, previous, hash FROM entries ORDER BY place").fetchall()
    except sqlite3.Error as error:
        raise InputError(f"{path} is no ledger or damaged ({error}): restore it from a copy") from error
    ids, labels, blobs, previous, hashes = (list(column) for column in zip(*rows)) if rows else ([], [], [], [], [])
    short = [place for place, blob in enumerate(blobs) if len(blob) != 4 * dim]
    if short:
        raise InputError(
            f"{path}: the embedding of entry {short[0]} does not have {dim} numbers: restore it from a copy"
        )
    X = np.frombuffer(b"".join(blobs), "<f4").reshape(-1, dim)
    return StoredLedger(X, np.array(labels, np.int64), ids, previous, hashes, classes)


def _length(base, path):
    """Entries in a file, once it is clear that it is a ledger of a known format."""
    tables = {name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {"about", "classes", "entries"} <= tables:
        raise InputError(f"{path} is a database but no ledger: choose another file")
    (found,) = base.execute("SELECT format FROM about").fetchone()
    if found != FORMAT:
        raise InputError(f"{path} is of format {found}, which is not known here: get a newer ocrrlib")
    return base.execute("SELECT COUNT(*) FROM entries").fetchone()[0]


def head(ledger):
    """Hash of the newest entry as hexadecimal digits: note it elsewhere."""
    return ledger.head.hex()


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
