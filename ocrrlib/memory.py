"""A correction memory for applications: a ledger in an SQLite file, read by a system of the registry."""

import json
import secrets
import sqlite3
import struct
import threading
import time
from array import array
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ocrrlib.embeddings import encode, halve, widen
from ocrrlib.encoders import load_encoder, name_of
from ocrrlib.files import InputError, _sync, atomic
from ocrrlib.ledger import Fault, Head, Tree, broken_link, commitment, entry_hash, genesis, proof, request
from ocrrlib.search import Entries, top_k
from ocrrlib.systems import make
from ocrrlib.systems.neighbours import Substrate

FORMAT, NEIGHBOURS, LEAST_ROOM = 1, 5, 16
BLOCK, LONGEST, PATIENCE = 1024, 2**20, 60  # rows read at once, bytes of a value at most, seconds to wait for others
LATEST = 2**53  # microseconds since 1970: in 2255; pandas has no dates after 2262
FIELDS = "place, time, commitment, previous, hash, salt, label, author, text, x"
SCHEMA = [
    "CREATE TABLE about (about TEXT NOT NULL) STRICT",
    "CREATE TABLE entries (place INTEGER PRIMARY KEY, time INTEGER NOT NULL, commitment BLOB NOT NULL, "
    "previous BLOB NOT NULL, hash BLOB NOT NULL, salt BLOB, label TEXT, author TEXT, text TEXT, x BLOB) STRICT",
]
# The file may be a stranger's, and whatever was deleted must be gone.
PRAGMAS = "trusted_schema = OFF", "cell_size_check = ON", "secure_delete = ON", "synchronous = FULL"


class Neighbour(NamedTuple):
    """An entry near a query."""

    entry: int
    label: str
    text: str | None
    cosine: float
    when: datetime


class Answer(NamedTuple):
    """The answer to a query: a class, its probability, and the nearest entries, best first."""

    label: str
    confidence: float
    neighbours: list[Neighbour]


class Broken(InputError):
    """A file is not as it was written: ``fault`` is the first broken entry."""

    def __init__(self, path, fault):
        super().__init__(f"{path} is not as it was written, {fault}: restore a copy")
        self.fault = fault


class CorrectionMemory:
    """A ledger of texts or vectors with labels in a file; see ``open``.

    ``labels`` lists all labels, oldest first. ``len`` counts all entries, those that were erased and those that say so
    included. Any thread may call the methods; what they wrote is on disk when they return.
    """

    @classmethod
    def open(cls, path, encoder=None, reader="substrate"):
        """Make a file, or open and verify it.

        Parameters
        ----------
        path : path
            An SQLite file in a folder that can be written.
        encoder : str, callable or object with ``encode``, optional
            Embeds texts, see ``ocrrlib.encoders.load_encoder``. A file that exists names its own; one that was made
            without holds vectors.
        reader : str
            The system that answers: one in the registry that reads a ledger. It is fitted on the entries of the first
            write and corrected by those of later ones.

        Raises
        ------
        InputError
            If the file cannot be used, was written with another encoder, or is not as it was written (``Broken``).
        """
        memory, name = cls(), None if encoder is None else name_of(encoder)
        memory.path, memory._lock, memory._embed, memory._reads = Path(path), threading.RLock(), None, reader
        if not isinstance(make(reader), Substrate):
            raise InputError(f"{reader} reads no ledger: give substrate or ledger_plda")
        with memory._held():
            memory._connect(name)
            memory._encoder = encoder or memory.encoder
            if name not in (None, memory.encoder):
                memory._base.close()
                raise InputError(f"{path} was written with encoder {memory.encoder}: leave {name} out")
            memory._catch_up()
        return memory

    def _connect(self, encoder):
        uri = f"{self.path.resolve().as_uri()}?mode=rwc"
        self._base = base = sqlite3.connect(uri, PATIENCE, isolation_level=None, check_same_thread=False, uri=True)
        base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        for pragma in PRAGMAS:
            base.execute(f"PRAGMA {pragma}")
        tables = "SELECT sql FROM sqlite_master ORDER BY name LIMIT 9"
        if not base.execute(tables).fetchall():
            self._retried("journal_mode = WAL")
            with base:
                base.execute("BEGIN IMMEDIATE")
                if not base.execute(tables).fetchall():
                    for table in SCHEMA:
                        base.execute(table)
                    origin = f"{self.path.stem}-{secrets.token_hex(8)}"
                    base.execute("INSERT INTO about VALUES (?)", [json.dumps([FORMAT, origin, encoder])])
            _sync(self.path.parent)
        if [sql for (sql,) in base.execute(tables)] != SCHEMA:
            raise sqlite3.DatabaseError("it is something else, or its tables were changed")
        try:
            ((self._about,),) = base.execute("SELECT about FROM about")
            version, self.origin, self.encoder = json.loads(self._about)
        except (ValueError, TypeError, RecursionError):
            version = None
        if version != FORMAT:
            raise sqlite3.DatabaseError("its table about was changed, or is of another version")
        self._restart()

    def _retried(self, pragma):
        """Value of a pragma for which SQLite does not wait while others run it, too; 1 if it is still busy."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                if (value := self._base.execute(f"PRAGMA {pragma}").fetchone()[0]) != 1 or time.monotonic() > end:
                    return value
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
            time.sleep(0.01)

    def _restart(self):
        self._tree, self._genesis, self._time = Tree(), genesis(self._about), 0
        self._newest, self._erased, self._forgotten, self._version = self._genesis, set(), set(), None
        self.labels, self._ids, self._places, self._reader = [], {}, array("q"), None
        self.entries, self._initial, self._read = Entries(np.empty((0, 0), np.float32), []), [], 0

    @contextmanager
    def _held(self):
        try:
            with self._lock:
                yield
        except (sqlite3.Error, OSError, OverflowError, UnicodeDecodeError) as error:
            said = " ".join(str(error).split())  # SQLite may quote the file
            way_out = "check disk, permissions and other programs, restore a copy, or choose another file"
            raise InputError(f"cannot use {self.path} as a correction memory ({said}): {way_out}") from error

    def close(self):
        with self._held():
            self._base.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __len__(self):
        with self._held():
            self._catch_up()
            return len(self._tree)

    def _catch_up(self):
        """Verify and hold what was written since, by whomever."""
        if (version := self._base.execute("PRAGMA data_version").fetchone()) == self._version:
            return
        again = self._version is not None
        rows = self._base.execute(f"SELECT {FIELDS} FROM entries WHERE place >= ? ORDER BY place", [len(self._tree)])
        try:
            while block := rows.fetchmany(BLOCK):
                self._verify(block)
                self._hold([row for row in block if row[-1]])
        except BaseException:
            self._restart()  # a block that was interrupted may be held in part
            raise
        if wrong := self._erased ^ self._forgotten:
            if not again:
                raise Broken(self.path, Fault(min(wrong), "changed"))
            self._restart()  # an entry that is held here was forgotten
            return self._catch_up()
        self._version = version

    def _verify(self, rows):
        place, previous, hashes = len(self._tree), self._newest, []
        for at, when, committed, before, hash, salt, label, author, text, x in rows:
            try:
                if salt is None:
                    whole = label is author is text is x is None
                    self._erased.add(place)
                else:
                    whole = len(salt) == 16 and commitment(salt, x, label, author, text) == committed
                    whole &= "\0" not in label and "\0" not in author  # this would blur where they end
                    if not x:
                        self._forgotten.add(int(text))
                whole &= at == place and 0 <= when < LATEST and entry_hash(at, when, committed, before) == hash
            except (TypeError, ValueError, AttributeError, struct.error):  # values of other types
                whole = False
            if not whole:
                raise Broken(self.path, Fault(place, "changed"))
            if before != previous:
                befores, all_hashes = zip(*self._base.execute("SELECT previous, hash FROM entries ORDER BY place"))
                raise Broken(self.path, broken_link(place, befores, [self._genesis, *all_hashes]))
            previous, place = hash, place + 1
            hashes.append(hash)
        self._tree.extend(hashes)
        self._newest, self._time = previous, when

    def _hold(self, rows):
        """Hold the vectors and labels of rows that were verified."""
        if not rows:
            return
        if not self._places:
            self.entries = Entries(np.empty((0, len(rows[0][-1]) // 4), np.float32), [])
        dim = self.entries.X.shape[1]
        if whole := dim and all(len(row[-1]) == 4 * dim for row in rows):
            X = np.frombuffer(b"".join([row[-1] for row in rows]), "<f4").reshape(-1, dim)
            with np.errstate(over="ignore", invalid="ignore"):
                whole = (np.abs(np.linalg.norm(X, axis=1) - 1) < 0.01).all()
        if not whole:
            raise InputError(f"{self.path} holds vectors of several lengths: its writer was another program")
        y = [self._ids.setdefault(row[6], len(self._ids)) for row in rows]
        self.labels = list(self._ids)
        ((newest,),) = self._base.execute("SELECT max(place) FROM entries")
        self.entries.extend(X, y, min(newest + 1, self.path.stat().st_size // (4 * dim)))
        self._places.extend(row[0] for row in rows)
        self._initial += [row[1] for row in rows if row[1] == (self._initial or [rows[0][1]])[0]]

    def _embedded(self, items):
        """Texts, or None for each vector, and unit rows (n, d) float32."""
        if len(items) and all(isinstance(item, str) and item.strip() for item in items):
            if self.encoder is None:
                raise InputError(f"{self.path} was made without an encoder: give vectors")
            self._embed = self._embed or load_encoder(self._encoder)
            texts, halves = list(items), encode(list(items), self._embed)
        else:
            with suppress(ValueError, TypeError):
                items = np.asarray(items, np.float64)
            if not isinstance(items, np.ndarray) or items.ndim != 2:
                raise InputError("give texts, none of them empty, or vectors, numbers (n, d)")
            texts, halves = [None] * len(items), halve(items)
        return texts, widen(halves)

    def _fit_in(self, X):
        if self._places and X.shape[1] != self.entries.X.shape[1]:
            raise InputError(f"the vectors have {X.shape[1]} values, those in the file {self.entries.X.shape[1]}")

    def learn(self, texts, labels, by=""):
        """Append texts (n,), or vectors (n, d), with their labels (n,), all or none; return their places, a range.

        ``by`` is the author, kept in each entry.
        """
        texts, X = self._embedded(texts)
        if len(labels) != len(texts):
            raise InputError(f"there are {len(texts)} rows and {len(labels)} labels: give one for each")
        labels = list(map(str, labels))
        if bad := [label for label in labels if not label.strip()]:
            raise InputError(f"{bad[0]!r} is no label: give words")
        return self._append(((label, str(by), text, x.tobytes()) for label, text, x in zip(labels, texts, X)), X)

    def correct(self, text, label, by=""):
        """Append a text, or a vector (d,), with its right label; return its place."""
        return self.learn([text], [label], by)[0]

    def forget(self, place, by=""):
        """Erase text, label, author and vector of an entry; hashes and all other proofs still hold.

        An entry that says so is appended. Raises ``InputError`` if there is nothing to erase, or if the pages with the
        old content stay in the log because others read them.
        """
        with self._held():
            if not (entry := self.entry(place)).get("x"):
                raise InputError(f"entry {place} holds nothing to erase")
            place = entry["place"]
            self._append([("", str(by), str(place), b"")], erased=place)
            if self._retried("wal_checkpoint(TRUNCATE)"):
                raise InputError(f"entry {place} was erased, but others still read {self.path}: close them, then this")

    def _append(self, contents, X=None, erased=None):
        """Append entries in one transaction: label, author, text and bytes of the vector of each."""
        with self._held():
            with self._base:
                self._base.execute("BEGIN IMMEDIATE")
                self._catch_up()
                if X is not None:
                    self._fit_in(X)
                start = place = len(self._tree)
                when, previous = max(time.time_ns() // 1000, self._time + 1), self._newest
                if erased is not None:
                    nothing = "salt = NULL, label = NULL, author = NULL, text = NULL, x = NULL"
                    self._base.execute(f"UPDATE entries SET {nothing} WHERE place = ?", [erased])
                for label, author, text, x in contents:
                    if "\0" in label + author:
                        raise InputError(f"{label!r} by {author!r} has a zero byte: give words")
                    salt = secrets.token_bytes(16)
                    try:
                        committed = commitment(salt, x, label, author, text)
                    except UnicodeEncodeError as error:
                        raise InputError(f"{error.object!r} is no Unicode text: mend or drop it") from error
                    hash = entry_hash(place, when, committed, previous)
                    row = place, when, committed, previous, hash, salt, label, author, text, x
                    self._base.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
                    place, previous = place + 1, hash
            self._version = -1
            self._catch_up()
        return range(start, place)

    def _ready(self):
        """The reader, up to date."""
        self._catch_up()
        if not self._places:
            raise InputError(f"{self.path} is empty: learn first")
        if self._reader is None or len(self.labels) > self._reader.n_classes:
            room = LEAST_ROOM  # for labels to come, too
            while room < len(self.labels):
                room *= 2
            self._reader, self._read, known = make(self._reads), 0, len(self._initial)
            self._reader.store = lambda X, y: self.entries
            self._reader.fit(self.entries.X[:known], self.entries.y[:known], range(room))
        self._reader.seen[self.entries.y[self._read :]] = True
        self._read = self.entries.size
        return self._reader

    def predict(self, query):
        """The ``Answer`` to a text or vector (d,), or to each of texts (m,) or vectors (m, d) in a list."""
        one = isinstance(query, str) or isinstance(query, np.ndarray) and query.ndim == 1
        _, X = self._embedded([query] if one else query)
        with self._held(), self._base:
            self._base.execute("BEGIN")  # what others erase meanwhile is still there
            reader, entries = self._ready(), self.entries
            self._fit_in(X)
            scores = reader._scores(X)
            found = scores if isinstance(scores, tuple) else top_k(X, entries.X, entries.born, NEIGHBOURS)
            chances = np.array(reader._chances(scores))
            given = zip(reader._answer(scores), chances, *found)
            answers = [Answer(self.labels[id], float(p[id]), self._near(*near)) for id, p, *near in given]
        return answers[0] if one else answers

    def _near(self, sims, slots):
        near = []
        for cosine, slot in zip(sims.tolist(), slots[slots >= 0].tolist()):
            entry = self.entry(self._places[slot])
            when = datetime.fromtimestamp(entry["time"] / 1e6, UTC)
            near.append(Neighbour(entry["place"], entry["label"], entry.get("text"), cosine, when))
        return near

    def entry(self, place):
        """The fields of an entry, bytes in hexadecimal digits, without those that were erased."""
        with self._held():
            at = int(place) if isinstance(place, (int, np.integer)) else -1
            found = self._base.execute(f"SELECT {FIELDS} FROM entries WHERE place = ?", [at]).fetchone()
        if found is None:
            raise InputError(f"there is no entry {place!r} in {self.path}")
        fields = zip(FIELDS.split(", "), found)
        return {name: value.hex() if type(value) is bytes else value for name, value in fields if value is not None}

    def verify(self, *heads, keys=()):
        """Verify the file from its first entry on: the first ``Fault``, or None if all is as it was written.

        ``heads`` are heads of this file that were kept elsewhere; without one a cut tail or a complete rewrite goes
        unnoticed. A rewrite begins behind the newest head that still fits. Raises ``InputError`` if not all ``keys``
        signed all heads.
        """
        for head in (heads := sorted(map(Head.read, heads), key=lambda head: head.size)):
            head.check(keys)
        try:
            with CorrectionMemory.open(self.path) as again:
                fitting = 0
                for head in heads:
                    if head.size > len(again):
                        return Fault(len(again), "truncated")
                    if (head.origin, head.root) != (again.origin, again._tree.root(head.size)):
                        return Fault(fitting, "forked")
                    fitting = head.size
        except Broken as broken:
            return broken.fault

    def head(self, key=None):
        """The ``Head`` as of now, to be kept elsewhere as text; signed by a ``Key``, if there is one."""
        with self._held():
            size, now = len(self), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            head = Head(self.origin, size, self._tree.root(size), now)
        return head.signed(key) if key else head

    def prove(self, what, key=None):
        """Prove to somebody who has only a head that an entry is in the file, or that the file extends that head.

        ``what`` is the entry's place, or the head. Returns a C2SP tlog-proof, see ``ocrrlib.ledger.proven``; or a
        request for ``ocrrlib.ledger.witness``. ``key`` signs the head in it.
        """
        with self._held():
            head = self.head(key)
            if isinstance(what, (int, np.integer)):
                return proof(self.entry(what), self._tree.inclusion(what, head.size), head)
            old = Head.read(what)
            if old.origin != head.origin or old.size > head.size:
                raise InputError(f"{self.path} does not extend the head of {old.origin} at {old.time}: verify it")
            return request(old.size, self._tree.consistency(old.size, head.size), head)

    def table(self):
        """All entries, a row each; what was erased is missing."""
        with self._held():
            table = pd.read_sql_query(f"SELECT {FIELDS} FROM entries ORDER BY place", self._base)
        return table.assign(time=pd.to_datetime(table["time"], unit="us", utc=True))

    def export(self, path):
        """Write ``table`` to a file, whole or not at all: in CSV, without bytes, or in parquet."""
        with atomic(path) as temporary:
            if temporary.suffix == ".csv":
                self.table().drop(columns=["x", "salt", "commitment", "previous", "hash"]).to_csv(temporary, index=False)
            else:
                self.table().to_parquet(temporary, index=False)
