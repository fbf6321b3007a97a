"""Ask and list a correction memory, as of now or of an earlier head."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

import numpy as np

from corrigible.answers import Answer, Answering
from corrigible.examples import Example, nearest_examples
from corrigible.inputs import (
    entry_number,
    is_single,
    number_of,
    selection_of,
    share_of,
    texts_and_vectors,
)
from corrigible.ledger.history import Entry, History, history, listed
from corrigible.ledger.ledger import StoredLedger
from corrigible.ledger.vectors import LiveVectors, Vectors
from corrigible.ledger_encoder import LedgerEncoder
from corrigible.proofs.heads import Head
from corrigible.report import Report, report_of
from ocrrlib.files import InputError


class Past:
    """The first ``size`` entries of a memory, or with None all of them as of now.

    The same answers as then, bit for bit; what was erased since is missing. It can be asked while
    the memory is open.
    """

    def __init__(
        self,
        size: int | None,
        ledger: StoredLedger,
        vectors: Vectors,
        encoder: LedgerEncoder,
        answering: Answering,
    ):
        self._size = size
        self._ledger = ledger
        self._vectors = vectors
        self._encoder = encoder
        self._answering = answering
        self._written: LiveVectors | None = None  # of which it was counted: another after erasures

    def __len__(self) -> int:
        return len(self._ledger) if self._size is None else self._size

    @property
    def labels(self) -> list[str]:
        """All labels that count, oldest first; a class id in ``counted`` is a position here."""
        with self._ledger.snapshot():
            return list(self._current().labels)

    def predict(
        self, query: str | np.ndarray | Iterable, at_least: float | None = None
    ) -> Answer | list[Answer]:
        """Answer a text or vector (d,), or each of texts (m,) or vectors (m, d) in a list.

        With ``at_least``, only what is so sure that of answers at least as sure this share is
        right, see ``Answer.promised``; others have no label, and a reason. Raises ``InputError``
        if no entry counts, a row is no text, a vector has another length, or ``at_least`` is no
        share.
        """
        single = is_single(query)
        texts, X = texts_and_vectors([query] if single else query)
        at_least = share_of(at_least)
        X = self._encoder.unit_rows(texts, X)
        with self._asked(X) as counted:
            answers = self._answering.answers(X, counted, self._ledger.rows_at, at_least)
        return answers[0] if single else answers

    def examples(self, query: str | np.ndarray, n: int = 5) -> list[Example]:
        """The ``n`` entries nearest to a text or vector (d,), best first, to show to a model.

        Only entries that count, under their labels of now; of equal texts the newest. Raises
        ``InputError`` as ``predict`` does.
        """
        n = number_of(n)
        texts, X = texts_and_vectors([query])
        X = self._encoder.unit_rows(texts, X)
        with self._asked(X) as counted:
            return nearest_examples(counted, X[0], n, self._ledger.rows_at)

    def entries(
        self,
        label: str | float | None = None,
        by: str | None = None,
        since: datetime | str | None = None,
        like: str | None = None,
    ) -> list[Entry]:
        """List the entries that count: of a label, an author, since a time, with a part of a text.

        Labels are those that entries count as. The part may be in a word of ``about``, and in any
        case; times are in UTC unless they say otherwise.
        """
        selection = selection_of(label, by, since, like)
        return listed(self._ledger.rows(), *selection, self._size)

    def history(self, place: int) -> History:
        """Tell what became of an entry: what it counts as, and what happened to it, in order.

        Raises ``InputError`` if there is no such entry.
        """
        place = entry_number(place)
        self._ledger.entry(place)  # refuses what is not there
        if self._size is not None and place >= self._size:
            raise InputError(f"there was no entry {place} then: take a later head")
        return history(self._ledger.rows(), place, self._size)

    def report(self, at_least: float = 0.95) -> Report:
        """Tell what corrections came to, week by week, and how many answers could be promised.

        From the ledger alone, under its head, which the report names: the same from any copy that
        has that head, but for what was erased. Raises ``InputError`` if ``at_least`` is no share.
        """
        share = share_of(at_least)
        if share is None:
            raise InputError("no share is promised: give at_least, as 0.95")
        with self._ledger.snapshot():
            size = self._ledger.size if self._size is None else self._size
            head = Head(self._ledger.origin, size, self._ledger.tree.root(size), "")
            rows = [*self._ledger.scan()]
            return report_of(rows, head, self._current(), self._answering, share)

    @contextmanager
    def _asked(self, X: np.ndarray) -> Iterator[LiveVectors]:
        """What counts, while rows X (m, d) are asked."""
        with self._ledger.snapshot():
            counted = self._current()
            if not counted.entries.size:
                where = self._ledger.where
                if self._size is None:
                    raise InputError(f"{where} has no entry that counts: learn first")
                raise InputError(
                    f"{where} had no entry that counts, of those not erased since: "
                    "take a later head"
                )
            self._vectors.check_length(X.shape[1])
            yield counted

    def _current(self) -> LiveVectors:
        """What counts, within a snapshot."""
        if self._size is None:
            return self._vectors.counted
        if self._written is not self._vectors.written:
            self._written = self._vectors.written
            self._counted = self._vectors.as_of(self._size)
        return self._counted
