"""A ledger on disk: one SQLite file, to which entries are only ever added.

What was written is read back as it stands, so that ``verify`` finds what was changed in the file since.
"""

import os
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from ocrrlib.errors import InputError
from ocrrlib.stored_ledger import Broken, Damage, StoredLedger, names_hash

FORMAT = 2  # 1 had no digest of the names
COLUMNS = {"id": int, "label": int, "x": bytes, "previous": bytes, "hash": bytes}  # of an entry, after its place
_NOT_ALLOWED = sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR
_TABLES = """
CREATE TABLE about (format INTEGER NOT NULL, dim INTEGER NOT NULL, names BLOB NOT NULL);
CREATE TABLE classes (label INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE entries (
    place INTEGER PRIMARY KEY, id INTEGER NOT NULL, label INTEGER NOT NULL,
    x BLOB NOT NULL, previous BLOB NOT NULL, hash BLOB NOT NULL
);
"""


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
    Broken
        If the file holds a ledger that was changed since it was written.
    InputError
        If the file holds something else, be it one entry or name, or cannot be written, or the ledger was changed, or
        has rows that are not finite or labels without a name.
    """
    if isinstance(classes, str):
        raise InputError(f"classes {classes!r} are one text: give a sequence of names")
    path, classes, dim = Path(path), tuple(map(str, classes)), ledger.X.shape[1]
    _check_entries(ledger, classes, path)
    if fault := ledger.verify():
        raise InputError(f"the ledger given was changed ({fault}): nothing is written to {path}")
    _check_place(path)
    with _opened(path, "rwc") as base:
        if not _tables(base):
            base.executescript("BEGIN;" + _TABLES)
            base.execute("INSERT INTO about VALUES (?, ?, ?)", (FORMAT, dim, names_hash(classes)))
            base.executemany("INSERT INTO classes VALUES (?, ?)", enumerate(classes))
        there = _stored(base, path)
        _check_unbroken(there, path, classes)
        if there.X.shape[1] != dim:
            raise InputError(f"{path} holds another ledger than the one given, of {there.X.shape[1]} numbers a row")
        common = zip(there.hashes, ledger.hashes)  # both are unbroken, so that hashes stand for all else
        same = next((place for place, (one, other) in enumerate(common) if one != other), min(there.size, ledger.size))
        if same < there.size:
            raise InputError(
                f"{path} holds another ledger than the one given, from entry {same} on: read it again and append to "
                "that, or choose another file"
            )
        rows = (_row(ledger, place) for place in range(there.size, ledger.size))
        base.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", rows)
    return ledger.size - there.size


def _check_entries(ledger, classes, path):
    """Refuse what could be written and never be right: rows that are not finite, labels that no name stands for."""
    nameless = (ledger.y < 0) | (ledger.y >= len(classes))
    infinite = ~np.isfinite(ledger.X).all(axis=1)
    for wrong, what in ((infinite, "is not finite"), (nameless, f"has a label without a name, of {len(classes)}")):
        if len(places := np.flatnonzero(wrong)):
            raise InputError(f"entry {places[0]} of the ledger {what}: nothing is written to {path}")


def check_target(path, classes=None):
    """Refuse now what ``write`` would refuse, whatever the ledger will be: before something that takes long.

    Parameters
    ----------
    path : path
        Where a ledger is to be written.
    classes : sequence of str, optional
        Names of its classes, once they are known.

    Raises
    ------
    Broken
        If the file holds a ledger that was changed since it was written.
    InputError
        If the file holds no ledger or one of other classes, or cannot be written.
    """
    path = Path(path)
    _check_place(path)
    if path.exists():
        with _opened(path, "rw") as base:
            if _tables(base):
                _check_unbroken(_stored(base, path), path, classes)


def _check_place(path):
    """Refuse a path to which no file can be written."""
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; give a file in it")
    for needed in (path.parent, path):
        if needed.exists() and not os.access(needed, os.W_OK):
            raise InputError(f"cannot write {path}: {needed} is read-only; choose another file")


def _check_unbroken(there, path, classes):
    """Refuse a stored ledger that was changed, or has other classes than these."""
    if fault := there.verify():
        raise Broken(path, fault)
    if classes is not None and there.classes != tuple(map(str, classes)):
        raise InputError(f"{path} holds other classes than those given: choose another file")


def _row(ledger, place):
    """An entry as a row of its table."""
    x = ledger.X[place].astype("<f4").tobytes()
    return place, ledger.ids[place], int(ledger.y[place]), x, ledger.previous[place], ledger.hashes[place]


def read(path):
    """The ledger of a file, as it stands there: a ``StoredLedger``.

    Raises
    ------
    Broken
        If something in it was changed so that it cannot even be read.
    InputError
        If there is no such file, or it is no ledger.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} is missing: give a file that `ocrr ledger write` or ocrrlib.ledger_file.write made")
    with _opened(path, "rw" if _is_interrupted(path) else "ro") as base:
        return _stored(base, path)


def _is_interrupted(path):
    """Whether there is what a write leaves that goes on or was killed; SQLite undoes the latter, if it may write."""
    return any(Path(f"{path.resolve()}{suffix}").exists() for suffix in ("-journal", "-wal"))


@contextmanager
def _opened(path, mode):
    """A database that is committed in the end, or left as it was; its errors are ``InputError``."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True)) as base, base:
            base.text_factory = _text
            yield base
    except sqlite3.Error as error:
        code = _code(error)
        if code == sqlite3.SQLITE_BUSY:
            way_out = f"{path} is being written by somebody else: wait until that is done"
        elif code in _NOT_ALLOWED and _is_interrupted(path):
            way_out = (
                f"{path}: a write was interrupted, and cannot be undone here: run `ocrr ledger write` again or make "
                "the folder writable"
            )
        elif mode == "rwc":
            way_out = f"cannot write a ledger to {path} ({error}): choose another file"
        else:
            way_out = f"{path} is no ledger or damaged ({error}): restore it from a copy"
        raise InputError(way_out) from error


def _code(error):
    """SQLite's number for an error, without what says more."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _text(raw):
    """A text as str; what is no UTF-8 stays bytes, and is refused for its type."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _tables(base):
    return {name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _stored(base, path):
    """The ``StoredLedger`` in a database."""
    tables = _tables(base)
    if not tables:
        raise InputError(f"{path} is empty, as no write to it has come to its end: run `ocrr ledger write`")
    if not {"about", "classes", "entries"} <= tables:
        raise InputError(f"{path} is a database but no ledger: choose another file")
    try:
        dim, names = _about(base, path)
        classes = _classes(base, path)
        found = base.execute(f"SELECT place, {', '.join(COLUMNS)} FROM entries ORDER BY place").fetchall()
    except sqlite3.Error as error:
        if _code(error) not in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT):
            raise
        raise Broken(path, Damage(0, "tables", str(error))) from error
    rows, damage = [row[1:] for row in found], None
    for place, row in enumerate(rows):
        if what := _unlike_written(row, dim):
            rows, damage = rows[:place], Damage(place, "changed", what)
            break
    ids, labels, blobs, previous, hashes = (list(column) for column in zip(*rows)) if rows else ([], [], [], [], [])
    X = np.frombuffer(b"".join(blobs), "<f4").reshape(-1, dim)
    ledger = StoredLedger(X, np.array(labels, np.int64), ids, previous, hashes, classes, names)
    moved = next((place for place, row in enumerate(found) if place != row[0]), None)
    if damage:
        raise Broken(path, ledger.verify() or damage)
    if moved is not None and not ledger.verify():  # else what was removed or inserted is found in the chain
        raise Broken(path, Damage(moved, "changed", f"its place is {found[moved][0]}"))
    return ledger


def _unlike_written(row, dim):
    """What no written entry has; None if there is nothing."""
    for (column, kind), value in zip(COLUMNS.items(), row):
        if type(value) is not kind:
            return f"its {column} is not of type {kind.__name__}"
    return None if len(row[2]) == 4 * dim else f"its embedding does not have {dim} numbers"


def _about(base, path):
    """Numbers in a row, and the digest of the names, once it is clear that a ledger is of a known format."""
    formats = [found for (found,) in base.execute("SELECT format FROM about")]
    if len(formats) != 1 or type(formats[0]) is not int:
        raise Broken(path, Damage(0, "about", "it does not say once of what format the file is"))
    if formats[0] < FORMAT:
        raise InputError(f"{path} is of format {formats[0]}, without a digest of the names: write it anew")
    if formats[0] > FORMAT:
        raise InputError(f"{path} is of format {formats[0]}, which is not known here: get a newer ocrrlib")
    dim, names = base.execute("SELECT dim, names FROM about").fetchone()
    if type(dim) is not int or dim < 1 or type(names) is not bytes:
        raise Broken(path, Damage(0, "about", "it does not say how long a row is, or has no digest of the names"))
    return dim, names


def _classes(base, path):
    """Names of the classes, as they stand in a file."""
    found = base.execute("SELECT label, name FROM classes ORDER BY label").fetchall()
    if [label for label, _ in found] != list(range(len(found))):
        raise Broken(path, Damage(0, "renamed", "they are not numbered from 0 on"))
    for label, name in found:
        if type(name) is not str:
            raise Broken(path, Damage(0, "renamed", f"the name of class {label} is not of type str"))
    return tuple(name for _, name in found)
