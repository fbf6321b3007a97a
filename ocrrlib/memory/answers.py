"""Answers to queries, by a system that reads the entries that count."""

import importlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple, Protocol, Self

import numpy as np

from ocrrlib.files import InputError
from ocrrlib.memory.vectors import Counted
from ocrrlib.search import Entries

NEIGHBOURS = 5  # shown beside an answer
LEAST_ROOM = 16  # classes that a reader is made for at least


class Neighbour(NamedTuple):
    """An entry near a query, under the label that it counts as."""

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


def make_reader(name: str) -> Reader:
    """Make a reader by its name in the registry of systems.

    The registry is imported here, when a memory is opened, so that this package depends on no
    system. Raises ``InputError`` if there is no such system, or it cannot read a ledger.
    """
    reader = importlib.import_module("ocrrlib.systems").make(name)
    if not hasattr(reader, "read") or not hasattr(reader, "answer"):
        raise InputError(f"{name} reads no ledger: give substrate or ledger_lda")
    return reader


class Answering:
    """A reader by its name, fitted on entries when these are first asked."""

    def __init__(self, reader: str):
        make_reader(reader)  # refuses a wrong name
        self.name = reader
        self._reader: Reader | None = None

    def answers(
        self, X: np.ndarray, counted: Counted, entry: Callable[[int], dict]
    ) -> list[Answer]:
        """Answer rows X (m, d) from what counts; ``entry`` gives the fields of one by its place."""
        reader = self._current(counted)
        ids, probabilities, cosines, slots = reader.answer(X)
        answers = []
        for row, id in enumerate(ids):
            near = []
            for cosine, slot in zip(cosines[row, :NEIGHBOURS], slots[row, :NEIGHBOURS]):
                if slot >= 0:  # else there are fewer entries
                    near.append(_neighbour(counted, int(slot), float(cosine), entry))
            confidence = min(1.0, float(probabilities[row, id]))  # a sum of rounded parts
            answers.append(Answer(counted.labels[id], confidence, near))
        return answers

    def _current(self, counted):
        """The reader; made anew for other entries, or if it lacks classes."""
        reader = self._reader
        n_classes = len(counted.labels)
        entries = counted.entries
        if reader is None or reader.entries is not entries or reader.n_classes < n_classes:
            # Rounded up to a power of two, so that new labels seldom ask for a new reader.
            room = max(LEAST_ROOM, 1 << (n_classes - 1).bit_length())
            self._reader = make_reader(self.name).read(entries, counted.n_first, room)
        return self._reader


def _neighbour(counted, slot, cosine, entry):
    found = entry(counted.written[slot].place)
    when = datetime.fromtimestamp(found["time"] / 1e6, UTC)
    return Neighbour(found["place"], counted.written[slot].label, found.get("text"), cosine, when)
