"""The file of a ledger: an SQLite database that is verified as it is read, and only appended to."""

import json
import secrets
import sqlite3
import struct
import threading
import time
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from operator import index
from pathlib import Path

from ocrrlib.chain import Fault, commitment, entry_hash
from ocrrlib.files import InputError, _sync
from ocrrlib.memory.heads import Head
from ocrrlib.memory.tree import Tree

FORMAT = 1
BLOCK, LONGEST, PATIENCE = (
    256,
    2**20,
    60,
)  # rows read at once, bytes of a value at most, seconds to wait for others
LATEST = 2**53  # microseconds since 1970: in 2255; pandas has no dates after 2262
INSERT = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
FIELDS = "place, time, commitment, previous, hash, salt, label, author, text, x"
SCHEMA = [
    "CREATE TABLE about (about TEXT NOT NULL) STRICT",
    "CREATE TABLE entries (place INTEGER PRIMARY KEY, time INTEGER NOT NULL, commitment BLOB NOT NULL, "
    "previous BLOB NOT NULL, hash BLOB NOT NULL, salt BLOB, label TEXT, author TEXT, text TEXT, x BLOB) STRICT",
]
# The file may be a stranger's, and whatever was deleted must be gone.
PRAGMAS = "trusted_schema = OFF", "cell_size_check = ON", "secure_delete = ON", "synchronous = FULL"


class Broken(InputError):
    """A file is not as it was written: ``fault`` is the first broken entry."""

    def __init__(self, path, fault):
        super().__init__(f"{path} is not as it was written, {fault}: restore a copy")
        self.fault = fault


class LedgerFile(AbstractContextManager):
    """A ledger in a file.

    A file that is missing is made, for texts of the encoder of this name, if there is one. Any
    thread may call the methods; what they wrote is on disk when they return. ``len`` counts all
    entries, those that were erased and those that say so included. Raises ``InputError`` if the
    file cannot be used, ``Broken`` if it is not as it was written.
    """

    def __init__(self, path, encoder=None):
        self.path, self._lock = Path(path), threading.RLock()
        with self._held():
            path, how = self.path.resolve(), dict(isolation_level=None, check_same_thread=False)
            self._base = sqlite3.connect(path, PATIENCE, **how)
            try:
                self._prepare(encoder)
                self._catch_up()
            except BaseException:
                self._base.close()
                raise

    def _prepare(self, encoder):
        base = self._base
        base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        for pragma in PRAGMAS:
            base.execute(f"PRAGMA {pragma}")
        if not self._tables():
            self._retried("journal_mode = WAL")
            with base:
                base.execute("BEGIN IMMEDIATE")
                if not self._tables():
                    for table in SCHEMA:
                        base.execute(table)
                    origin = f"{self.path.stem}-{secrets.token_hex(8)}"
                    base.execute(
                        "INSERT INTO about VALUES (?)", [json.dumps([FORMAT, origin, encoder])]
                    )
            _sync(self.path.parent)
        self._check_tables()
        try:
            ((self._about,),) = base.execute("SELECT about FROM about")
            version, self.origin, self.encoder = json.loads(self._about)
        except (ValueError, TypeError, RecursionError):
            version = None
        if version != FORMAT:
            raise sqlite3.DatabaseError("its table about was changed, or is of another version")
        if encoder not in (None, self.encoder):
            raise InputError(
                f"{self.path} was written with encoder {self.encoder}: leave {encoder} out"
            )
        self._restart()

    def _tables(self):
        return [
            sql
            for (sql,) in self._base.execute("SELECT sql FROM sqlite_master ORDER BY name LIMIT 9")
        ]

    def _check_tables(self):
        if self._tables() != SCHEMA:  # a trigger would change what is written
            raise sqlite3.DatabaseError("it is something else, or its tables were changed")

    def _retried(self, pragma):
        """Value of a pragma for which SQLite does not wait while others run it, too; 1 if it is still busy."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                if (
                    value := self._base.execute(f"PRAGMA {pragma}").fetchone()[0]
                ) != 1 or time.monotonic() > end:
                    return value
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
            time.sleep(0.01)

    def _restart(self):
        self._genesis = self._newest = sha256(
            b"OCRR2 " + self._about.encode()
        ).digest()  # before the first entry
        self._tree, self._time, self._erased, self._forgotten, self._version = (
            Tree(),
            0,
            set(),
            set(),
            None,
        )

    def _hold(self, rows):
        """What a subclass does with rows that were verified, or are its own; fields in the order of ``FIELDS``."""

    @contextmanager
    def _held(self):
        try:
            with self._lock:
                yield
        except (sqlite3.Error, OSError, OverflowError, UnicodeDecodeError) as error:
            way_out = (
                "check disk, permissions and other programs, restore a copy, or choose another file"
            )
            why = " ".join(str(error).split())  # it may quote what is in the file
            raise InputError(
                f"cannot use {self.path} as a correction memory ({why}): {way_out}"
            ) from error

    def close(self):
        with self._held():
            self._base.close()

    def __exit__(self, *_):
        self.close()

    def _bytes(self):
        """Size of the file and its log."""
        files = self.path, self.path.with_name(self.path.name + "-wal")
        return sum(file.stat().st_size for file in files if file.exists())

    def __len__(self):
        with self._held():
            self._catch_up()
            return len(self._tree)

    def _catch_up(self):
        """Verify and hold what was written since, by whomever."""
        if (version := self._base.execute("PRAGMA data_version").fetchone()) == self._version:
            return
        self._check_tables()
        size = len(self._tree)
        newest = self._base.execute(
            "SELECT hash FROM entries WHERE place = ?", [size - 1]
        ).fetchone()
        if size and newest != (self._newest,):
            raise Broken(self.path, Fault(size - 1, "forked" if newest else "truncated"))
        while wrong := self._read():
            if not size:
                raise Broken(self.path, Fault(min(wrong), "changed"))
            self._restart()  # an entry that is held was forgotten
            size = 0
        self._version = version

    def _read(self):
        """Verify and hold the entries behind those held; places that were erased, or are said to be, but not both."""
        select = f"SELECT {FIELDS} FROM entries WHERE place >= ? ORDER BY place"
        rows, room = (
            self._base.execute(select, [len(self._tree) or -(2**63)]),
            self._bytes(),
        )  # none is overlooked
        try:
            while block := rows.fetchmany(BLOCK):
                self._verify(block)
                if (room := room - sum(len(row[-1] or b"") for row in block)) < 0:
                    raise InputError(
                        f"{self.path} claims more content than it has room for: restore a copy"
                    )
                self._take(block)
        except BaseException:
            self._restart()  # a block that was interrupted may be held in part
            raise
        return self._erased ^ self._forgotten

    def _take(self, rows):
        self._tree.extend([row[4] for row in rows])
        self._newest, self._time = rows[-1][4], rows[-1][1]
        self._hold(rows)

    def _verify(self, rows):
        """Raise ``Broken`` unless rows follow those held."""
        previous = self._newest
        for place, row in enumerate(rows, len(self._tree)):
            at, when, committed, before, hash, salt, label, author, text, x = row
            try:
                if salt is None:
                    whole = label is author is text is x is None
                    self._erased.add(place)
                else:
                    whole = (
                        len(salt) == 16 and commitment(salt, x, label, author, text) == committed
                    )
                    whole &= (
                        "\0" not in label and "\0" not in author
                    )  # this would blur where they end
                    if not x:
                        self._forgotten.add(int(text))
                fits = (
                    at == place
                    and before == previous
                    and entry_hash(at, when, committed, before) == hash
                )
                whole &= 0 <= when < LATEST
            except (TypeError, ValueError, AttributeError, struct.error):  # values of other types
                whole = fits = False
            if not whole or not fits:
                raise Broken(self.path, self._fault(place, *row[:5], whole))
            previous = hash

    def _fault(self, place, at, when, committed, before, hash, whole):
        """What happened to the entry at ``place``, the first broken one, its content whole or not."""
        befores, hashes = zip(
            *self._base.execute("SELECT previous, hash FROM entries ORDER BY place")
        )
        chain, later, following = (
            [self._genesis, *hashes[:place]],
            hashes[place + 1 :],
            befores[place + 1 : place + 2],
        )
        skipped = chain[-1] in following
        homes = (
            [max(at, 0), *range(2 * len(hashes) + BLOCK)] if whole and before != chain[-1] else []
        )
        home = next(
            (home for home in homes if entry_hash(home, when, committed, before) == hash), None
        )
        if home in (None, place):
            changed = place - (
                home is not None and place > 0 and hash in following
            )  # this one, or the one before
            return Fault(place, "inserted") if skipped else Fault(changed, "changed")
        copied = hashes.count(hash) > 1  # it is intact, but was moved, with or without its number
        if before in later and not copied:
            return Fault(place, "reordered")
        if copied or skipped:
            return Fault(place, "inserted")
        return (
            Fault(chain.index(before), "inserted") if before in chain else Fault(place, "removed")
        )

    @contextmanager
    def _writing(self):
        """A transaction in which all entries are held; if it fails, what it wrote is not."""
        with self._held():
            start = len(self._tree)
            try:
                with self._base:
                    self._base.execute("BEGIN IMMEDIATE")
                    self._catch_up()
                    start = len(self._tree)
                    yield
            except BaseException:
                if len(self._tree) > start:
                    self._restart()
                raise

    def _append(self, contents):
        """Append entries, each of label, author, text and bytes of a vector, in a transaction; their places."""
        start = len(self._tree)
        rows = self._rows(contents, start, max(time.time_ns() // 1000, self._time + 1))
        while block := list(islice(rows, BLOCK)):
            self._base.executemany(INSERT, block)
            self._take(block)
        return range(start, len(self._tree))

    def _rows(self, contents, place, when):
        """The rows of new entries from ``place`` on, in the order of ``FIELDS``."""
        previous = self._newest
        for label, author, text, x in contents:
            if "\0" in label + author:
                raise InputError(f"{label!r} by {author!r} has a zero byte: give words")
            salt = secrets.token_bytes(16)
            try:
                committed = commitment(salt, x, label, author, text)
            except UnicodeEncodeError as error:
                raise InputError(f"{error.object!r} is no Unicode text: mend or drop it") from error
            hash = entry_hash(place, when, committed, previous)
            yield place, when, committed, previous, hash, salt, label, author, text, x
            place, previous = place + 1, hash

    def entry(self, place):
        """The fields of an entry, bytes in hexadecimal digits, without those that were erased."""
        with self._held():
            found = self._base.execute(
                f"SELECT {FIELDS} FROM entries WHERE place = ?", [index(place)]
            ).fetchone()
        if found is None:
            raise InputError(f"there is no entry {place!r} in {self.path}")
        fields = zip(FIELDS.split(", "), found)
        return {
            name: value.hex() if type(value) is bytes else value
            for name, value in fields
            if value is not None
        }

    def verify(self, *heads, keys=()):
        """``ocrrlib.memory.file.verify`` of the file."""
        return verify(self.path, *heads, keys=keys)

    def head(self, key=None):
        """The ``Head`` as of now, to be kept elsewhere as text; signed by a ``Key``, if there is one."""
        with self._held():
            size, now = len(self), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            head = Head(self.origin, size, self._tree.root(size), now)
        return head.signed(key) if key else head


def verify(path, *heads, keys=()):
    """Verify a file from its first entry on: the first ``Fault``, or None if all is as it was written.

    ``heads`` are heads of the file that were kept elsewhere; without one a cut tail or a complete
    rewrite goes unnoticed. A rewrite begins behind the newest head that still fits. Raises
    ``InputError`` if the file cannot be used, or not all ``keys`` signed all heads.
    """
    if not Path(path).is_file():
        raise InputError(f"there is no file {path}")
    for head in (heads := sorted(map(Head.read, heads), key=lambda head: head.size)):
        head.check(keys)
    try:
        with LedgerFile(path) as found:
            fitting = 0
            for head in heads:
                if head.size > len(found):
                    return Fault(len(found), "truncated")
                if (head.origin, head.root) != (found.origin, found._tree.root(head.size)):
                    return Fault(fitting, "forked")
                fitting = head.size
    except Broken as broken:
        return broken.fault
