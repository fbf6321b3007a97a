"""A correction memory for applications: it learns, answers, is corrected and forgets.

How it answers and lists is in ``corrigible.past``, for earlier heads as well.
"""

import shlex
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from corrigible.answers import Answering
from corrigible.duplicates import overruled_by, place_to_correct, places_to_learn
from corrigible.export import export, to_table
from corrigible.inputs import (
    entry_number,
    entry_numbers,
    labels_of,
    number_of,
    rows_to_learn,
    some_texts_and_vectors,
    stored_labels,
    texts_and_vectors,
    word_of,
)
from corrigible.ledger import erasure, verification
from corrigible.ledger.history import Entry, counting, entry_of
from corrigible.ledger.ledger import StoredLedger
from corrigible.ledger.vectors import Vectors
from corrigible.ledger_encoder import LedgerEncoder, TextEncoder
from corrigible.past import Past
from corrigible.proofs.heads import Head
from corrigible.proofs.keys import Key
from corrigible.proofs.rows import Content, act_text, checked_about
from corrigible.readers import check_search, make_reader
from corrigible.relabel import Relabelling
from corrigible.review import (
    Change,
    Preview,
    Suspect,
    Unsure,
    changed_answers,
    least_sure,
    suspects,
)
from corrigible.stores.location import located
from corrigible.stores.store import Location, Unknown, new_about
from ocrrlib.chain import Fault
from ocrrlib.labels import look_alikes
from ocrrlib.search import Entries

if TYPE_CHECKING:
    import pandas as pd


class CorrectionMemory(Past, AbstractContextManager):
    """Texts or vectors with labels in a ledger, and a system that answers from them.

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

    def __init__(
        self,
        location: Location,
        ledger: StoredLedger,
        vectors: Vectors,
        encoder: LedgerEncoder,
        answering: Answering,
    ):
        super().__init__(None, ledger, vectors, encoder, answering)
        self._location = location

    @classmethod
    def open(
        cls,
        path: str | PathLike | Location,
        encoder: object = None,
        reader: str = "substrate",
        name: str | None = None,
        search: str | None = None,
        ef_search: int | None = None,
    ) -> Self:
        """Make a memory, or open and verify it.

        Parameters
        ----------
        path : path or address
            An SQLite file in a folder that can be written, or ``postgresql://user@host/base``.
        encoder : str, callable or object with ``encode``, optional
            Embeds texts, see ``ocrrlib.encoders.load_encoder``; loaded now. A file that exists
            names its own, which is loaded for the first text; one that was made without holds
            vectors. The file keeps the vectors of a few probe texts: an encoder of the same name
            that gives others is refused.
        reader : str
            The system that answers: one in the registry that reads a ledger. It is fitted on the
            entries of the first write and corrected by those of later ones.
        name : str, optional
            Of the memory in a PostgreSQL database, which may hold several.
        search : ``"database"``, optional
            Leave the vectors in a PostgreSQL database, where pgvector finds neighbours: the same
            answers, in time that grows with the entries, and little memory here. By default they
            are read into memory.
        ef_search : int, optional
            Let the database search by its index, see ``make_index``, with this effort, from 1 to
            1,000: faster, but some neighbours may be missed. More effort misses fewer.

        Raises
        ------
        InputError
            If the file cannot be used, was written with another encoder, or is not as it was
            written (``Broken``).
        """
        make_reader(reader)  # a wrong name is refused before the file is made
        check_search(search, ef_search, reader)
        location = located(path, name)
        if search is not None:
            location.check_search(ef_search)
        given = None if encoder is None else TextEncoder(encoder)
        described = None if given is None else given.described
        if described is not None and not location.is_there():
            described()  # it may fail: before there is a file
        with ExitStack() as on_failure:
            store = location.open(partial(new_about, location.name, described))
            on_failure.callback(store.close)
            source = None if search is None else store.source(ef_search)
            vectors = Vectors(store.where, store.room, source, ef_search)
            ledger = StoredLedger(store, vectors)
            known = LedgerEncoder(given, ledger)
            if given is not None:
                known.check()
            on_failure.pop_all()
        return cls(location, ledger, vectors, known, Answering(reader, store.fitted))

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Close the file."""
        self._ledger.close()

    @property
    def path(self) -> Path | str:
        """Path of the file, or address and name without a password."""
        return self._ledger.where

    @property
    def origin(self) -> str:
        """Name of the ledger in its heads."""
        return self._ledger.origin

    @property
    def encoder(self) -> str | None:
        """Name of the encoder that the file was made for."""
        return self._ledger.encoder

    @property
    def unreached(self) -> str:
        """Where ``forget`` does not reach, beside copies; empty for a file."""
        return self._ledger.store.beyond_erasure

    @property
    def counted(self) -> Entries:
        """Vectors and class ids of the entries that count, as of the last call."""
        if not self._vectors.written.entries.size:  # dropped by an erasure or a failed write
            with self._ledger.snapshot():
                return self._vectors.counted.entries
        return self._vectors.counted.entries

    def make_index(self) -> None:
        """Let the database index its vectors, for a search with ``ef_search``.

        It takes about as long as a million corrections; others may write meanwhile, and what is
        written later is indexed at once. The user must own the tables. Raises ``InputError`` if the
        memory is a file, or has no vectors.
        """
        with self._ledger.snapshot():
            dim = self._vectors.dim
        self._ledger.make_index(dim)

    # Learning and answering

    def learn(
        self,
        texts: Iterable[str | np.ndarray] | np.ndarray,
        labels: Iterable[str | float],
        by: str = "",
        vectors: Sequence[np.ndarray] | np.ndarray | None = None,
        about: Iterable[Mapping | None] | None = None,
        again: bool = False,
    ) -> list[int]:
        """Append texts (n,), or vectors (n, d), with their labels (n,), all or none.

        What was written under the same label before is not stored a second time, whatever became of
        it, unless ``again`` is true: a file may be read again.

        Lists, arrays, columns of tables and generators will do. Labels are words or whole numbers,
        see ``ocrrlib.labels``. ``by`` is the author, kept in each entry; ``vectors`` (n, d) are
        those of the texts, where they are known; ``about`` (n,) are small JSON objects of your own,
        as a ticket's number. Returns the places (n,) of the entries, new or stored before. Raises
        ``InputError`` if a row is no text or no label, or is too long, a label is retired, their
        numbers differ, or the vectors have another length than those held or those of the file's
        encoder.
        """
        return self._learn(texts, labels, by, vectors, about, again)

    def correct(
        self,
        text: str | np.ndarray,
        label: str | float,
        by: str = "",
        vector: np.ndarray | None = None,
        replaces: int | None = None,
        about: Mapping | None = None,
        again: bool = False,
    ) -> int:
        """Append a text, or a vector (d,), with its right label; return its place.

        From then on this text has this label, whatever older entries of it say. The entry that it
        ``replaces``, by its place, does not count any more; its ``about`` is taken over if none is
        given. If the text has that label already, and nothing is replaced, nothing is stored,
        unless ``again`` is true. Raises as ``learn`` does, and if there is no such entry, or it did
        not count before.
        """
        vectors = None if vector is None else [vector]
        notes = None if about is None else [about]
        return self._learn([text], [label], by, vectors, notes, again, replaces, True)[0]

    def overruled(self, place: int) -> list[Entry]:
        """List the entries of an equal text under other labels that an entry overrules.

        They still vote on other texts: ``undo`` those that are wrong.
        """
        place = entry_number(place)
        with self._ledger.snapshot():
            self._ledger.entry(place)  # refuses what is not there
            found = overruled_by(self._vectors.counted, place)
            rows = self._ledger.rows_at([one.place for one in found])
        return [entry_of(rows[one.place], one.label) for one in found]

    def _learn(self, texts, labels, by, vectors, about, again, replaces=None, corrects=False):
        texts, labels, X, notes = rows_to_learn(texts, labels, vectors, about)
        X = self._encoder.unit_rows(texts, X)
        author = str(by)
        places: list[int] = []
        fresh: set[str] = set()  # labels that were not there
        numbers: Counter[str] = Counter()  # of the entries of labels

        def contents():  # others are excluded, and what they wrote is read
            nonlocal places, fresh, numbers
            if not self._vectors.written.entries.size:
                self._encoder.check_length(X.shape[1])
            self._vectors.admit(*X.shape)
            end = self._ledger.size
            if again or replaces is not None:
                places = [*range(end, end + len(texts))]
            elif corrects:
                places = [place_to_correct(self._vectors, end, texts[0], labels[0], X[0])]
            else:
                places = places_to_learn(self._vectors, end, texts, labels, X)
            written: list[int] = []  # rows
            for row, place in enumerate(places):
                if place == end + len(written):
                    written.append(row)
            meaning = self._vectors.meaning
            meaning.check_not_retired(dict.fromkeys(labels[row] for row in written))
            act = {} if replaces is None else self._replacement(entry_number(replaces))
            new = []
            for row in written:
                said = act_text(act | notes[row])
                new.append(Content(labels[row], author, texts[row], X[row].data, said))
            fresh, numbers = _fresh_labels(self._vectors.counted, new)
            return new

        # Begins, reads what is new, asks for contents, lays out rows, appends, and flushes.
        self._ledger.write(contents)
        _warn_of_look_alikes(numbers, fresh)
        return places

    def _replacement(self, place):
        """The act that replaces an entry, with what was noted about that one."""
        act = self._vectors.meaning.replace(self._ledger.entry(place))
        replaced = self._ledger.rows_at([place])[place]
        return act | checked_about(entry_of(replaced, "").about)

    def review(
        self,
        texts: Iterable[str | np.ndarray] | np.ndarray,
        n: int = 20,
        vectors: Sequence[np.ndarray] | np.ndarray | None = None,
    ) -> list[Unsure]:
        """The ``n`` texts (m,), or vectors (m, d), that are worth a human's time, least sure first.

        Of near-duplicates one comes. ``vectors`` (m, d) are those of the texts, where they are
        known. Raises ``InputError`` as ``predict`` does.
        """
        n = number_of(n)
        texts, X = texts_and_vectors(texts, vectors)
        X = self._encoder.unit_rows(texts, X)
        with self._asked(X) as counted:
            answers = self._answering.answers(X, counted, self._ledger.rows_at)
        return least_sure(texts, X, answers, n)

    def suspects(self, n: int = 20) -> list[Suspect]:
        """The ``n`` entries that others contradict most, those most surely wrong first.

        Left out, they would be answered otherwise, or they are stored under two labels. Of more
        than 20,000 entries the newest are judged.
        """
        with self._ledger.snapshot():
            counted = self._vectors.counted
            found = suspects(counted, number_of(n)) if counted.entries.size else []
            told = []
            for slot, instead, confidence in found:
                entry = self._entry(counted, slot)
                told.append(
                    Suspect(entry.place, entry.label, entry.text, instead, confidence, entry.about)
                )
            return told

    def preview(
        self,
        text: str | np.ndarray,
        label: str | float,
        queries: Iterable[str | np.ndarray] | np.ndarray = (),
        vector: np.ndarray | None = None,
        replaces: int | None = None,
    ) -> Preview:
        """What ``correct`` with a text, or a vector (d,), would change; nothing is written.

        Of stored entries, the hundred nearest are asked, and of ``queries``, texts (m,) or vectors
        (m, d), all. Raises ``InputError`` as ``correct`` and ``predict`` do.
        """
        (label,) = labels_of([label])
        vectors = None if vector is None else [vector]
        given, x = texts_and_vectors([text], vectors)
        x = self._encoder.unit_rows(given, x)
        texts, X = some_texts_and_vectors(queries)
        X = self._encoder.unit_rows(texts, X) if texts else x[:0]
        with self._asked(x) as counted:
            meaning = self._vectors.meaning
            meaning.check_not_retired([label])
            self._vectors.check_length(X.shape[1])
            end = self._ledger.size
            if replaces is None and end > place_to_correct(
                self._vectors, end, given[0], label, x[0]
            ):
                return Preview([], [])
            without = None
            if replaces is not None:
                entry = self._ledger.entry(entry_number(replaces))
                without = meaning.replace(entry)["replaces"]
            around, others = changed_answers(self._answering, counted, x[0], label, X, without)
            stored = []
            for slot, *labels in around:
                entry = self._entry(counted, slot)
                stored.append(Change(entry.place, None, entry.text, *labels))
            return Preview(
                stored, [Change(None, row, texts[row], *labels) for row, *labels in others]
            )

    def _entry(self, counted, slot):
        """The entry in a slot, within a snapshot."""
        place = counted.origin(slot).place
        return entry_of(self._ledger.rows_at([place])[place], counted.origin(slot).label)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Encode texts (n,) as ``correct`` and ``predict`` do: unit rows (n, d) float32."""
        return self._encoder.unit_rows(*texts_and_vectors(texts))

    def at(self, head: Head | str) -> Past:
        """The memory as it was under an earlier head, to be asked: the same answers as then.

        Raises ``InputError`` if the file does not extend the head.
        """
        size = verification.known_size(self._ledger, head)
        answering = Answering(self._answering.name)
        return Past(size, self._ledger, self._vectors, self._encoder, answering)

    # Entries that change what others mean, see ``corrigible.ledger.meaning``

    def undo(self, place: int | Iterable[int], by: str = "") -> int | list[int]:
        """Undo an entry: a correction does not count any more, an act is off, an undo, too.

        Or several, all or none. Returns the place of the new entry, or those of several. Raises
        ``InputError`` if there is no such entry, or it cannot be undone.
        """
        places = entry_numbers(place)

        def changes():
            return [self._vectors.meaning.undo(self._ledger.entry(one)) for one in places]

        written = self._acts(changes, by)
        return written if isinstance(place, Iterable) else written[0]

    def relabel(
        self,
        to: str | float,
        *,
        label: str | float | None = None,
        author: str | None = None,
        since: datetime | str | None = None,
        like: str | None = None,
        by: str = "",
    ) -> list[int]:
        """Give all entries that count another label, of those ``entries`` lists: all, or none.

        Those of a label, an ``author``, since a time, with a part of their text. Each is replaced;
        ``by`` is who says so. Returns the places of the new entries: ``undo`` of these takes all
        back. Raises ``InputError`` if nothing says which entries are meant, or ``to`` is retired.
        """
        what = Relabelling.of(to, label, author, since, like)
        fresh: set[str] = set()
        numbers: Counter[str] = Counter()

        def contents():
            nonlocal fresh, numbers
            self._vectors.meaning.check_not_retired([what.to])
            new = what.replacements([*self._ledger.scan()], str(by))
            self._vectors.admit(len(new), self._vectors.dim)
            fresh, numbers = _fresh_labels(self._vectors.counted, new)
            return new

        places = [*self._ledger.write(contents)]
        _warn_of_look_alikes(numbers, fresh, stacklevel=3)
        return places

    def would_relabel(
        self,
        to: str | float,
        *,
        label: str | float | None = None,
        author: str | None = None,
        since: datetime | str | None = None,
        like: str | None = None,
    ) -> list[Entry]:
        """List what ``relabel`` would give another label, under the labels of now."""
        what = Relabelling.of(to, label, author, since, like)
        return what.entries(self._ledger.rows())

    def rename(self, old: str | float, new: str | float, by: str = "") -> int:
        """Give a label another name in all entries so far; return the place of the new entry.

        Raises ``InputError`` if there is no such label, or the new one is there.
        """
        stored = stored_labels([old])
        (to,) = labels_of([new])

        def change():
            known = self._vectors.counted.labels
            return self._vectors.meaning.rename(*stored(known), to, known)

        return self._act(change, by)

    def merge(self, labels: Iterable[str | float], into: str | float, by: str = "") -> int:
        """Make one label of several in all entries so far; return the place of the new entry.

        ``into`` may be one of them, or another one, or new. Raises ``InputError`` if one of the
        labels is not there, or ``into`` is retired.
        """
        stored = stored_labels(labels)
        target = stored_labels([into])

        def change():
            known = self._vectors.counted.labels
            return self._vectors.meaning.merge(stored(known), *target(known), known)

        return self._act(change, by)

    def retire(self, label: str | float, by: str = "") -> int:
        """Answer a label no more, and refuse corrections with it; return the new entry's place.

        Raises ``InputError`` if there is no such label.
        """
        stored = stored_labels([label])

        def change():
            known = self._vectors.counted.labels
            return self._vectors.meaning.retire(*stored(known), known)

        return self._act(change, by)

    def _act(self, change, by):
        """Append an act, made when all entries are read."""
        return self._acts(lambda: [change()], by)[0]

    def _acts(self, changes, by):
        """Append acts, all or none."""

        def contents():
            return [Content("", str(by), None, b"", act_text(act)) for act in changes()]

        return [*self._ledger.write(contents)]

    def written(self, lost: Unknown) -> range | None:
        """Return the places of entries of which it was not known whether they were written.

        None if they were not: then they can be written again.
        """
        with self._ledger.transaction():  # waits until that write has an outcome
            for place, commitment in lost.commitments.items():
                if place >= len(self):
                    return None
                if self._ledger.entry(place)["commitment"] != commitment.hex():
                    return None
        return range(min(lost.commitments), max(lost.commitments) + 1)

    # What the ledger does

    def forget(self, places: int | Iterable[int], by: str = "", reason: str = "") -> list[int]:
        """Erase text, label, author and vector of an entry, or of several: all, or none.

        A tombstone for each says so, see ``told_by``; ``by`` is who erases, and the ``reason``, of
        at most 4,096 bytes, stays, too: name nobody there. Hashes and all other proofs still hold.
        Returns the places, without those erased before. Raises ``InputError`` if there is nothing
        to erase, or if the pages with the old content stay in the log because others read them.
        """
        return erasure.forget(self._ledger, entry_numbers(places), str(by), str(reason))

    def forget_all(
        self,
        *,
        author: str | None = None,
        like: str | None = None,
        erased_by: str = "",
        reason: str = "",
    ) -> list[int]:
        """Erase all entries by an author, or with a part of their text: all, or none.

        With both, those by that author that have that part. It is looked for as by ``entries``, in
        ``about``, too, but in entries that do not count as well. Acts by the author lose that name
        and keep their effect; tombstones stay. Returns the places. Raises ``InputError`` if neither
        is given or one is empty, the author is who erases, or as ``forget`` does if others read the
        log.
        """
        author = word_of(author)
        return erasure.forget_all(self._ledger, author, word_of(like), str(erased_by), str(reason))

    def would_forget(self, *, author: str | None = None, like: str | None = None) -> list[Entry]:
        """List what ``forget_all`` would erase, under the labels that were written.

        An act has no label, and itself as text.
        """
        return erasure.would_forget(self._ledger, word_of(author), word_of(like))

    def told_by(self, place: int) -> int | None:
        """Return the place of the tombstone of an erased entry; None if it was not erased.

        A proof of the tombstone, by ``prove_entry``, shows which entry was erased, when, by whom
        and why, and nothing of what it held.
        """
        return self._ledger.told_by(entry_number(place))

    def entry(self, place: int) -> dict:
        """Return the fields of an entry, bytes in hexadecimal digits, without those erased."""
        return self._ledger.entry(entry_number(place))

    def verify(self, *heads: Head | str, keys: Iterable[Key] = ()) -> Fault | None:
        """Verify the memory from its first entry on, as ``corrigible.verify`` does."""
        return verification.verify(self._location, *heads, keys=keys)

    def head(self, key: Key | None = None) -> Head:
        """Return the head as of now, to be kept elsewhere as text; a ``key`` signs it."""
        return verification.newest_head(self._ledger, key)

    def prove_entry(
        self, place: int, key: Key | None = None, head: Head | str | None = None
    ) -> str:
        """Prove that an entry is in the file to somebody who has only a head.

        ``head`` is the head of that reader, by default the newest, which ``key`` signs. Returns a
        C2SP tlog-proof, see ``corrigible.proven``. Raises ``InputError`` if there is no such
        entry, the head does not know it, or the file does not extend the head.
        """
        return verification.prove_entry(self._ledger, entry_number(place), key, head)

    def prove_extension(self, old_head: Head | str, key: Key | None = None) -> str:
        """Prove that the file extends a head to somebody who has only that one.

        Returns a request to ``corrigible.witness`` with the newest head, which ``key`` signs.
        Raises ``InputError`` if the file does not extend the head.
        """
        return verification.prove_extension(self._ledger, old_head, key)

    def table(self) -> "pd.DataFrame":
        """Return all entries as they were written, a row each; what was erased is missing."""
        return to_table(self._ledger.rows())

    def export(self, path: str | PathLike, form: str | None = None):
        """Write the entries that count, by their labels of now, to a file, whole or not at all.

        Its ending says the format: ``.csv`` for people and spreadsheets, with escaped texts and
        without bytes, ``.parquet`` or ``.jsonl`` with all fields as they are. With a ``form``,
        ``"label-studio"`` (``.json``) or ``"spacy"`` (``.jsonl``), texts and labels as these read
        them. Raises ``InputError`` for other endings, for a form if an entry has no text, or if the
        path is that of a database.
        """
        rows = [row._replace(label=label) for row, label in counting(self._ledger.rows())]
        export(rows, path, form)


def _fresh_labels(counted, new):
    """Labels of new contents that no entry has; if there are any, numbers of entries by label."""
    fresh = {content.label for content in new}.difference(counted.labels)
    numbers: Counter[str] = Counter()
    if fresh:
        numbers.update(counted.labels[id] for id in counted.entries.y.tolist())
        numbers.update(content.label for content in new)
    return fresh, numbers


def _warn_of_look_alikes(numbers, fresh, stacklevel=4):
    """Name the labels that are new and look like others; ``numbers`` of entries are by label."""
    for one, other in look_alikes(numbers) if fresh else ():
        if one in fresh or other in fresh:
            warnings.warn(
                f"labels {one!r} ({numbers[one]}) and {other!r} ({numbers[other]}) look alike: if "
                f"they are one, `corrigible merge FILE {shlex.quote(other)} --into "
                f"{shlex.quote(one)}`, or memory.merge([{other!r}], {one!r})",
                stacklevel=stacklevel,
            )
