"""A correction memory as it was under an earlier head."""

from collections.abc import Callable, Iterable
from datetime import datetime

import numpy as np

from ocrrlib.files import InputError
from ocrrlib.memory.answers import Answer, Answering
from ocrrlib.memory.history import Entry, History, history, listed
from ocrrlib.memory.inputs import (
    is_single,
    place_of,
    selection_of,
    share_of,
    texts_and_vectors,
)
from ocrrlib.memory.ledger import StoredLedger
from ocrrlib.memory.vectors import LiveVectors, Vectors


class Past:
    """The first ``size`` entries of a memory: the same answers as then, bit for bit.

    What was erased since is missing. It can be asked while the memory is open.
    """

    def __init__(
        self,
        size: int,
        ledger: StoredLedger,
        vectors: Vectors,
        unit_rows: Callable[[list, np.ndarray | None], np.ndarray],
        reader: str,
    ):
        self._size = size
        self._ledger = ledger
        self._vectors = vectors
        self._unit_rows = unit_rows
        self._answering = Answering(reader)
        self._written: LiveVectors | None = None  # of which it was counted

    def __len__(self) -> int:
        return self._size

    @property
    def labels(self) -> list[str]:
        """All labels that counted then, oldest first."""
        with self._ledger.snapshot():
            return list(self._current().labels)

    def predict(
        self, query: str | np.ndarray | Iterable, at_least: float | None = None
    ) -> Answer | list[Answer]:
        """Answer as ``CorrectionMemory.predict`` did then; raises as that does."""
        single = is_single(query)
        X = self._unit_rows(*texts_and_vectors([query] if single else query))
        at_least = share_of(at_least)
        with self._ledger.snapshot():
            counted = self._current()
            if not counted:
                raise InputError(
                    f"{self._ledger.where} had no entry that counts, of those not erased since: "
                    "take a later head"
                )
            self._vectors.admit(0, X.shape[1])
            answers = self._answering.answers(X, counted, self._ledger.entries, at_least)
        return answers[0] if single else answers

    def entries(
        self,
        label: str | float | None = None,
        by: str | None = None,
        since: datetime | str | None = None,
        like: str | None = None,
    ) -> list[Entry]:
        """List the entries that counted then, as ``CorrectionMemory.entries`` does."""
        selection = selection_of(label, by, since, like)
        return listed(self._ledger.rows(), *selection, self._size)

    def history(self, place: int) -> History:
        """What had become of an entry by then; raises ``InputError`` if there was none."""
        place = place_of(place)
        if not 0 <= place < self._size:
            raise InputError(f"there was no entry {place} then: take a later head")
        return history(self._ledger.rows(), place, self._size)

    def _current(self):
        if self._written is not self._vectors.written:
            self._written = self._vectors.written
            self._counted = self._vectors.as_of(self._size)
        return self._counted
