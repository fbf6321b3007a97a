"""A correction memory for applications: a ledger in an SQLite file, read by a system of the registry."""

from contextlib import suppress
from datetime import UTC, datetime
from numbers import Integral
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pandas as pd

from ocrrlib.embeddings import encode, halve, widen
from ocrrlib.encoders import load_encoder, name_of
from ocrrlib.files import InputError, atomic
from ocrrlib.memory.file import FIELDS, LedgerFile
from ocrrlib.memory.heads import Head
from ocrrlib.memory.proofs import proof, request
from ocrrlib.search import Entries, top_k
from ocrrlib.systems import make
from ocrrlib.systems.neighbours import Substrate

NEIGHBOURS, LEAST_ROOM = 5, 16


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


class CorrectionMemory(LedgerFile):
    """Texts or vectors with labels in a ledger's file, and a system that answers from them; see ``open``.

    ``labels`` lists all labels, oldest first; ``entries`` has the vectors that are not erased.
    """

    def __init__(self, path, encoder=None, reader="substrate"):
        if not isinstance(make(reader), Substrate):
            raise InputError(f"{reader} reads no ledger: give substrate or ledger_lda")
        self._given, self._function, self._reads = encoder, None, reader
        super().__init__(path, None if encoder is None else name_of(encoder))

    @classmethod
    def open(cls, path, encoder=None, reader="substrate"):
        """Make a file, or open and verify it.

        Parameters
        ----------
        path : path
            An SQLite file in a folder that can be written.
        encoder : str, callable or object with ``encode``, optional
            Embeds texts, see ``ocrrlib.encoders.load_encoder``. A file that exists names its own;
            one that was made without holds vectors.
        reader : str
            The system that answers: one in the registry that reads a ledger. It is fitted on the
            entries of the first write and corrected by those of later ones.

        Raises
        ------
        InputError
            If the file cannot be used, was written with another encoder, or is not as it was
            written (``Broken``).
        """
        return cls(path, encoder, reader)

    def _restart(self):
        super()._restart()
        self.labels, self._ids, self._places, self._first, self._reader = [], {}, [], 0, None
        self.entries = Entries(np.empty((0, 0), np.float32), [])

    def _hold(self, rows):
        if not (rows := [row for row in rows if row[-1]]):  # the others were erased, or say so
            return
        places, times, labels, vectors = (tuple(map(itemgetter(at), rows)) for at in (0, 1, 6, 9))
        if not self._places:
            self._began = times[0]
            self._admit(self._bytes() // len(vectors[0]), len(vectors[0]) // 4)
        dim = self.entries.X.shape[1]
        if whole := set(map(len, vectors)) == {4 * dim}:
            X = np.frombuffer(b"".join(vectors), "<f4").reshape(-1, dim)
            with np.errstate(over="ignore", invalid="ignore"):
                whole = (abs(np.einsum("nd,nd->n", X, X) - 1) < 0.01).all()  # NaN is not
        if not whole:
            raise InputError(
                f"{self.path} holds vectors of other lengths: its writer was another program"
            )
        self.entries.extend(X, [self._ids.setdefault(label, len(self._ids)) for label in labels])
        self.labels = list(self._ids)
        self._places += places
        self._first += times.count(self._began)

    def _admit(self, n, dim):
        """Make room for ``n`` more vectors, and refuse those of another length."""
        if dim != (held := self.entries.X.shape[1]):
            if self._places:
                raise InputError(f"the vectors have {dim} values, those in {self.path} {held}")
            self.entries = Entries(np.empty((0, dim), np.float32), [])
        self.entries.make_room(self.entries.size + n)

    def _embedded(self, items, vectors=None):
        """Texts, or None for each vector, and unit rows (n, d) float32."""
        if isinstance(items, (str, bytes)) or not hasattr(items, "__len__"):
            raise InputError("give a list of texts, or vectors, numbers (n, d)")
        texts = (
            list(items)
            if all(isinstance(item, str) and item.strip() for item in items)
            else [None] * len(items)
        )
        if vectors is None and any(texts):
            if self.encoder is None:
                raise InputError(f"{self.path} was made without an encoder: give vectors")
            self._function = self._function or load_encoder(self._given or self.encoder)
            return texts, widen(encode(texts, self._function))
        with suppress(ValueError):  # rows of several lengths
            vectors = np.asarray(items if vectors is None else vectors)
        if (
            not isinstance(vectors, np.ndarray)
            or vectors.ndim != 2
            or vectors.dtype.kind not in "fiu"
        ):
            raise InputError("give texts, none of them empty, or vectors, numbers (n, d)")
        return texts, widen(halve(vectors))

    def learn(self, texts, labels, by="", vectors=None):
        """Append texts (n,), or vectors (n, d), with their labels (n,), all or none; return their places, a range.

        ``by`` is the author, kept in each entry; ``vectors`` (n, d) are those of the texts, where
        they are known.
        """
        texts, X = self._embedded(texts, vectors)
        if not len(labels) == len(texts) == len(X):
            raise InputError(
                f"there are {len(texts)} rows and {len(labels)} labels: give one for each"
            )
        if not all(
            isinstance(label, Integral) or isinstance(label, str) and label.strip()
            for label in labels
        ):
            raise InputError("a label is missing, empty or no word: give words or whole numbers")
        contents = (
            (str(label), str(by), text, x.tobytes()) for label, text, x in zip(labels, texts, X)
        )
        with self._writing():
            self._admit(*X.shape)
            return self._append(contents)

    def correct(self, text, label, by="", vector=None):
        """Append a text, or a vector (d,), with its right label; return its place."""
        return self.learn([text], [label], by, None if vector is None else [vector])[0]

    def _ready(self):
        """The reader, up to date."""
        self._catch_up()
        if not self._places:
            raise InputError(f"{self.path} is empty: learn first")
        if self._reader is None or len(self.labels) > self._reader.n_classes:
            room = max(
                LEAST_ROOM, 1 << (len(self.labels) - 1).bit_length()
            )  # for labels to come, too
            self._reader, first = make(self._reads), self._first
            self._reader.store = lambda X, y: self.entries
            self._reader.fit(self.entries.X[:first], self.entries.y[:first], range(room))
        self._reader.seen[: len(self.labels)] = True
        return self._reader

    def predict(self, query):
        """The ``Answer`` to a text or vector (d,), or to each of texts (m,) or vectors (m, d) in a list."""
        one = isinstance(query, str) or isinstance(query, np.ndarray) and query.ndim == 1
        _, X = self._embedded([query] if one else query)
        with self._held(), self._base:
            self._base.execute("BEGIN")  # what others erase meanwhile is still there
            reader, entries = self._ready(), self.entries
            self._admit(0, X.shape[1])
            scores = reader._evidence(X)
            found = (
                scores
                if isinstance(scores, tuple)
                else top_k(X, entries.X, entries.born, NEIGHBOURS)
            )
            chances = np.array(reader._probabilities(scores))
            given = zip(reader._answer(scores), chances, *found)
            answers = [
                Answer(self.labels[id], float(p[id]), self._near(*near)) for id, p, *near in given
            ]
        return answers[0] if one else answers

    def _near(self, sims, slots):
        near = []
        for cosine, slot in zip(sims.tolist(), slots[slots >= 0].tolist()):
            entry = self.entry(self._places[slot])
            when = datetime.fromtimestamp(entry["time"] / 1e6, UTC)
            near.append(Neighbour(entry["place"], entry["label"], entry.get("text"), cosine, when))
        return near

    def forget(self, place, by=""):
        """Erase text, label, author and vector of an entry; hashes and all other proofs still hold.

        An entry that says so is appended. Raises ``InputError`` if there is nothing to erase, or if
        the pages with the old content stay in the log because others read them.
        """
        with self._held():
            with self._writing():
                if not (entry := self.entry(place)).get("x"):
                    raise InputError(f"entry {place} holds nothing to erase")
                self._append([("", str(by), str(entry["place"]), b"")])
                nothing = "salt = NULL, label = NULL, author = NULL, text = NULL, x = NULL"
                self._base.execute(
                    f"UPDATE entries SET {nothing} WHERE place = ?", [entry["place"]]
                )
                self._restart()  # it is held here
            if self._retried("wal_checkpoint(TRUNCATE)"):
                raise InputError(
                    f"entry {place} was erased, but others still read {self.path}: close them, then this"
                )

    def prove(self, what, key=None, head=None):
        """Prove to somebody who has only a head that an entry is in the file, or that the file extends that head.

        ``what`` is the entry's place, of which ``head`` (by default the newest) has to know, or a
        head. Returns a C2SP tlog-proof, see ``ocrrlib.memory.proofs.proven``; or a request to
        ``ocrrlib.memory.proofs.witness``. ``key`` signs the newest head.
        """
        with self._held():
            newest, is_entry = self.head(key), isinstance(what, Integral)
            old = Head.read((head or newest) if is_entry else what)
            if (
                old.origin != newest.origin
                or old.size > newest.size
                or old.root != self._tree.root(old.size)
            ):
                raise InputError(
                    f"{self.path} does not extend the head of {old.origin} at {old.time}: verify it"
                )
            if not is_entry:
                return request(old.size, self._tree.consistency(old.size, newest.size), newest)
            entry = self.entry(what)
            if what >= old.size:
                raise InputError(
                    f"the head of {old.time} does not know entry {what}: take a newer one"
                )
            return proof(entry, self._tree.inclusion(what, old.size), old)

    def table(self):
        """All entries, a row each; what was erased is missing."""
        with self._held():
            table = pd.read_sql_query(f"SELECT {FIELDS} FROM entries ORDER BY place", self._base)
        return table.assign(time=pd.to_datetime(table["time"], unit="us", utc=True))

    def export(self, path):
        """Write ``table`` to a file, whole or not at all: in CSV, without bytes, or in parquet."""
        with atomic(path) as temporary:
            if temporary.suffix == ".csv":
                self.table()[["place", "time", "author", "label", "text"]].to_csv(
                    temporary, index=False
                )
            else:
                self.table().to_parquet(temporary, index=False)
