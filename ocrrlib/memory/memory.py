"""A correction memory for applications: it learns, answers, is corrected and forgets."""

import importlib
import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import numpy as np

from ocrrlib.chain import Fault
from ocrrlib.embeddings import halve, widen
from ocrrlib.encoders import load_encoder, name_of
from ocrrlib.files import InputError
from ocrrlib.memory.export import export, to_table
from ocrrlib.memory.file import LedgerFile
from ocrrlib.memory.heads import Head
from ocrrlib.memory.identity import TextEncoder, read_probe
from ocrrlib.memory.inputs import is_single, labels_of, place_of, short_enough, texts_and_vectors
from ocrrlib.memory.keys import Key
from ocrrlib.memory.vectors import Vectors
from ocrrlib.search import Entries

if TYPE_CHECKING:
    import pandas as pd

NEIGHBOURS = 5  # shown beside an answer
LEAST_ROOM = 16  # classes that a reader is made for at least
SOME = 100  # first and newest entries, among whose texts are those that tell an encoder


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


class Reader(Protocol):
    """A system that answers from shared entries: in the registry, ``substrate`` or a subclass.

    ``entries`` are those it reads, ``n_classes`` is the number of class ids that it was made for.
    """

    entries: Entries
    n_classes: int

    def read(self, entries: Entries, n_first: int, n_classes: int) -> Self:
        """Fit on the first ``n_first`` entries; later ones are read as corrections when asked."""

    def answer(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Answer rows (m, d): class ids (m,), probabilities (m, C), cosines and slots (m, k)."""


def _make_reader(name: str) -> Reader:
    """Make a reader by its name in the registry of systems.

    The registry is imported here, when a memory is opened, so that this package depends on no
    system. Raises ``InputError`` if there is no such system, or it cannot read a ledger.
    """
    reader = importlib.import_module("ocrrlib.systems").make(name)
    if not hasattr(reader, "read") or not hasattr(reader, "answer"):
        raise InputError(f"{name} reads no ledger: give substrate or ledger_lda")
    return reader


class CorrectionMemory(AbstractContextManager):
    """Texts or vectors with labels in a ledger's file, and a system that answers from them.

    Any thread may call the methods; what they wrote is on disk when they return. ``len`` counts all
    entries; erased ones and tombstones count. Use ``open`` to make one.

    Examples
    --------
    >>> X = np.eye(3)
    >>> with CorrectionMemory.open("cards.sqlite") as memory:
    ...     places = memory.learn(X[:2], ["card", "pin"])
    ...     before = memory.predict(X[2]).label
    ...     place = memory.correct(X[2], "transfer", by="ana")
    ...     print(place, before, memory.predict(X[2]).label, memory.verify())
    2 pin transfer None
    """

    def __init__(self, path: str | PathLike, encoder: object = None, reader: str = "substrate"):
        _make_reader(reader)  # refuse a wrong name before the file is made
        self._reader_name = reader
        self._reader = None
        self._given_encoder = encoder
        self._is_checked = False  # whether the encoder is that of the file
        self._vectors = Vectors(Path(path))
        described = None if encoder is None else self._described
        if described is not None and not os.path.exists(path):
            described()  # it may fail: before there is a file
        self._ledger = LedgerFile(path, described, self._vectors)
        if encoder is not None:
            try:
                self._check_encoder()
            except BaseException:
                self.close()
                raise

    @classmethod
    def open(cls, path: str | PathLike, encoder: object = None, reader: str = "substrate") -> Self:
        """Make a file, or open and verify it.

        Parameters
        ----------
        path : path
            An SQLite file in a folder that can be written.
        encoder : str, callable or object with ``encode``, optional
            Embeds texts, see ``ocrrlib.encoders.load_encoder``; loaded now. A file that exists
            names its own, which is loaded for the first text; one that was made without holds
            vectors. The file keeps the vectors of a few probe texts: an encoder of the same name
            that gives others is refused.
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

    def __len__(self) -> int:
        return len(self._ledger)

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Close the file."""
        self._ledger.close()

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self._ledger.path

    @property
    def origin(self) -> str:
        """Name of the ledger in its heads."""
        return self._ledger.origin

    @property
    def encoder(self) -> str | None:
        """Name of the encoder that the file was made for."""
        return self._ledger.encoder

    @property
    def labels(self) -> list[str]:
        """All labels, oldest first; a class id in ``entries``, if read next, is a position here."""
        with self._ledger.snapshot():
            return list(self._vectors.labels)

    @property
    def entries(self) -> Entries:
        """Vectors and class ids of the entries that are not erased, as of the last call."""
        if not self._vectors.places:  # dropped by an erasure or a failed write
            with self._ledger.snapshot():
                return self._vectors.entries
        return self._vectors.entries

    # Learning and answering

    def learn(
        self,
        texts: Iterable[str | np.ndarray] | np.ndarray,
        labels: Iterable[str | float],
        by: str = "",
        vectors: Sequence[np.ndarray] | np.ndarray | None = None,
    ) -> range:
        """Append texts (n,), or vectors (n, d), with their labels (n,), all or none.

        Lists, arrays, columns of tables and generators will do. Labels are words or whole numbers,
        see ``ocrrlib.labels``. ``by`` is the author, kept in each entry; ``vectors`` (n, d) are
        those of the texts, where they are known. Returns the places of the new entries. Raises
        ``InputError`` if a row is no text or no label, or is too long, their numbers differ, or the
        vectors have another length than those held or those of the file's encoder.
        """
        texts, X = texts_and_vectors(texts, vectors)
        labels = labels_of(labels)
        n_vectors = len(texts) if X is None else len(X)
        if not len(labels) == len(texts) == n_vectors:
            raise InputError(
                f"there are {len(texts)} rows, {len(labels)} labels and {n_vectors} vectors: "
                "give one of each"
            )
        X = self._unit_rows(texts, X)
        contents = ((label, str(by), text, x.tobytes()) for label, text, x in zip(labels, texts, X))
        with self._ledger.transaction():
            if not self._vectors.places:
                self._check_length(X.shape[1])
            self._vectors.admit(*X.shape)
            return self._ledger.append(short_enough(contents))

    def correct(
        self,
        text: str | np.ndarray,
        label: str | float,
        by: str = "",
        vector: np.ndarray | None = None,
    ) -> int:
        """Append a text, or a vector (d,), with its right label; return its place."""
        vectors = None if vector is None else [vector]
        return self.learn([text], [label], by, vectors)[0]

    def predict(self, query: str | np.ndarray | Iterable) -> Answer | list[Answer]:
        """Answer a text or vector (d,), or each of texts (m,) or vectors (m, d) in a list.

        Raises ``InputError`` if the memory is empty, a row is no text, or a vector has another
        length.
        """
        single = is_single(query)
        X = self._unit_rows(*texts_and_vectors([query] if single else query))
        with self._ledger.snapshot():
            if not self._vectors.places:
                raise InputError(f"{self.path} is empty: learn first")
            self._vectors.admit(0, X.shape[1])
            ids, probabilities, cosines, slots = self._current_reader().answer(X)
            answers = []
            for row, id in enumerate(ids):
                near = self._neighbours(cosines[row, :NEIGHBOURS], slots[row, :NEIGHBOURS])
                confidence = min(1.0, float(probabilities[row, id]))  # a sum of rounded parts
                answers.append(Answer(self._vectors.labels[id], confidence, near))
        return answers[0] if single else answers

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Encode texts (n,) as ``correct`` and ``predict`` do: unit rows (n, d) float32."""
        return self._unit_rows(*texts_and_vectors(texts))

    def _current_reader(self):
        """The reader of the entries held; made anew if these were dropped or it lacks classes."""
        vectors = self._vectors
        n_classes = len(vectors.labels)
        reader = self._reader
        if reader is None or reader.entries is not vectors.entries or reader.n_classes < n_classes:
            # Rounded up to a power of two, so that new labels seldom ask for a new reader.
            room = max(LEAST_ROOM, 1 << (n_classes - 1).bit_length())
            reader = _make_reader(self._reader_name)
            self._reader = reader.read(vectors.entries, vectors.n_first, room)
        return self._reader

    def _neighbours(self, cosines, slots):
        near = []
        for cosine, slot in zip(cosines.tolist(), slots.tolist()):
            if slot < 0:  # there are fewer entries
                continue
            entry = self.entry(self._vectors.places[slot])
            when = datetime.fromtimestamp(entry["time"] / 1e6, UTC)
            near.append(Neighbour(entry["place"], entry["label"], entry.get("text"), cosine, when))
        return near

    def _unit_rows(self, texts, X):
        """Unit rows (n, d) float32 of vectors X (n, d), or of texts if these came alone."""
        if X is not None:
            return widen(halve(X))
        if self.encoder is None:
            raise InputError(f"{self.path} was made without an encoder: give vectors")
        self._check_encoder()
        return self._text_encoder.embed(texts)

    # The encoder

    @cached_property
    def _text_encoder(self):
        """The encoder, loaded when it is first needed."""
        given = self._given_encoder
        return TextEncoder(load_encoder(self.encoder if given is None else given))

    def _described(self):
        """Name and probe of the encoder given, for a new file."""
        return name_of(self._given_encoder), self._text_encoder.probe()

    def _check_encoder(self):
        """Raise ``InputError`` unless the encoder is that of the file, by name and vectors."""
        if self._is_checked:
            return
        given = self._given_encoder
        if given is not None and name_of(given) != self.encoder:
            raise InputError(
                f"{self.path} was written with encoder {self.encoder}: leave {name_of(given)} out"
            )
        probe = self._ledger.probe  # files of earlier releases have none
        is_same = probe is None or self._text_encoder.made(probe)
        if not is_same or not self._text_encoder.gives(*self._telling_texts()):
            raise InputError(
                f"{self.path} was written with another encoder {self.encoder}, of other vectors: "
                "give that one, or make a new file"
            )
        self._is_checked = True

    def _check_length(self, dim):
        """Raise ``InputError`` if the encoder of the file gives vectors of another length."""
        probe = self._ledger.probe
        wanted = dim if probe is None else read_probe(probe).shape[1]
        if dim != wanted:
            raise InputError(
                f"the vectors have {dim} values, those of encoder {self.encoder} {wanted}"
            )

    def _telling_texts(self):
        """Texts (n,) that tell an encoder, and their vectors (n, d): at most four.

        Of those in the first and the newest entries: the first, the newest and the two longest.
        """
        with self._ledger.snapshot():
            places = self._vectors.places
            slots = range(len(places))
            texts = {}
            for slot in sorted({*slots[:SOME], *slots[-SOME:]}):
                text = self._ledger.entry(places[slot]).get("text")
                if text is not None:
                    texts[slot] = text
            longest = sorted(texts, key=lambda slot: len(texts[slot]))[-2:]
            telling = sorted({*list(texts)[:1], *list(texts)[-1:], *longest})
            return [texts[slot] for slot in telling], self._vectors.entries.X[telling]

    # What the ledger's file does

    def forget(self, place: int, by: str = ""):
        """Erase text, label, author and vector of an entry, and append a tombstone by an author.

        Hashes and all other proofs still hold. Raises ``InputError`` if there is nothing to erase,
        or if the pages with the old content stay in the log because others read them.
        """
        self._ledger.erase(place_of(place), str(by))

    def entry(self, place: int) -> dict:
        """Return the fields of an entry, bytes in hexadecimal digits, without those erased."""
        return self._ledger.entry(place_of(place))

    def verify(self, *heads: Head | str, keys: Sequence[Key] = ()) -> Fault | None:
        """Verify the file from its first entry on, as ``ocrrlib.memory.verify`` does."""
        return self._ledger.verify(*heads, keys=keys)

    def head(self, key: Key | None = None) -> Head:
        """Return the head as of now, to be kept elsewhere as text; a ``key`` signs it."""
        return self._ledger.head(key)

    def prove_entry(
        self, place: int, key: Key | None = None, head: Head | str | None = None
    ) -> str:
        """Prove that an entry is in the file to somebody who has only a head.

        ``head`` is the head of that reader, by default the newest, which ``key`` signs. Returns a
        C2SP tlog-proof, see ``ocrrlib.memory.proven``. Raises ``InputError`` if there is no such
        entry, the head does not know it, or the file does not extend the head.
        """
        return self._ledger.prove_entry(place_of(place), key, head)

    def prove_extension(self, old_head: Head | str, key: Key | None = None) -> str:
        """Prove that the file extends a head to somebody who has only that one.

        Returns a request to ``ocrrlib.memory.witness`` with the newest head, which ``key`` signs.
        Raises ``InputError`` if the file does not extend the head.
        """
        return self._ledger.prove_extension(old_head, key)

    def table(self) -> "pd.DataFrame":
        """Return all entries, a row each; what was erased is missing."""
        return to_table(self._ledger.rows())

    def export(self, path: str | PathLike):
        """Write all entries that were not erased to a file, whole or not at all.

        Its ending says the format: ``.csv`` for people and spreadsheets, with escaped texts and
        without bytes, ``.parquet`` or ``.jsonl`` with all fields as they are. Raises ``InputError``
        for other endings, or if the path is that of a database.
        """
        export(self._ledger.rows(), path)
