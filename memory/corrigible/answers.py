"""Answers to queries, by a system that reads the entries that count."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from corrigible.confidence import (
    Confidence,
    Sureness,
    calibrated,
    calibrated_size,
    unknown_share,
)
from corrigible.ledger.vectors import LiveVectors
from corrigible.readers import Reader, make_reader
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
    """The answer to a query, with the nearest entries, best first.

    ``confidence`` is the probability that it is right, see ``corrigible.confidence``. ``label``
    is None, for a ``reason``, if the caller asked for more than can be promised.
    """

    label: str | None
    confidence: float
    neighbours: list[Neighbour]
    reason: str | None = None


class Answering:
    """A reader by its name, fitted on entries when these are first asked."""

    def __init__(self, reader: str):
        make_reader(reader)  # refuses a wrong name
        self.name = reader
        self._reader: Reader | None = None
        self._known: Confidence  # as of the entries and the size in ``_calibrated``
        self._calibrated: tuple[Entries | None, int] = None, 0

    def answers(
        self,
        X: np.ndarray,
        counted: LiveVectors,
        entries: Callable[[Iterable[int]], dict[int, dict]],
        at_least: float | None = None,
    ) -> list[Answer]:
        """Answer rows X (m, d) from what counts; ``entries`` gives fields by places.

        With ``at_least``, only where that share of the answers is expected to be right.
        """
        reader = self.reader(counted)
        confidence = self._confidence(counted)
        unknown = unknown_share(counted.entries.y, counted.n_first)
        ids, probabilities, cosines, slots = reader.answer(X)
        sure = Sureness(probabilities[np.arange(len(ids)), ids], cosines[:, 0])
        found = confidence.of(sure, unknown).tolist()
        least = 0.0 if at_least is None else confidence.least(at_least, unknown)
        near = _neighbours(counted, cosines[:, :NEIGHBOURS], slots[:, :NEIGHBOURS], entries)
        answers = []
        for row, id in enumerate(ids):
            answer = Answer(counted.labels[id], found[row], near[row])
            if found[row] < least:
                answer = answer._replace(label=None, reason=_reason(found[row], least, at_least))
            answers.append(answer)
        return answers

    def _confidence(self, counted):
        """Calibrated confidence of the reader, from the entries that count."""
        size = calibrated_size(counted.entries.size, counted.n_first)
        if self._calibrated != (counted.entries, size):
            y = counted.entries.y[:size]
            self._known = calibrated(self.name, counted.entries.X, y, counted.n_first)
            self._calibrated = counted.entries, size
        return self._known

    def reader(self, counted: LiveVectors) -> Reader:
        """The reader of what counts; made anew for other entries, or if it lacks classes."""
        reader = self._reader
        n_classes = len(counted.labels)
        entries = counted.entries
        if reader is None or reader.entries is not entries or reader.n_classes < n_classes:
            reader = self.made(entries, counted.n_first, n_classes)
            self._reader = reader
        return reader

    def made(self, entries: Entries, n_first: int, n_classes: int) -> Reader:
        """A new reader of entries, of which the first ``n_first`` were written at once."""
        # Rounded up to a power of two, so that new labels seldom ask for a new reader.
        room = max(LEAST_ROOM, 1 << (n_classes - 1).bit_length())
        return make_reader(self.name).read(entries, n_first, room)


def _neighbours(counted, cosines, slots, entries):
    """Neighbours of m queries, by their cosines and slots (m, k); -1 where there are fewer."""
    places = counted.places[slots]
    ids = counted.entries.y[slots]
    fields = entries(np.unique(places[slots >= 0]).tolist())
    near: list[list[Neighbour]] = [[] for _ in slots]
    for row, rank in np.argwhere(slots >= 0).tolist():
        found = fields[int(places[row, rank])]
        when = datetime.fromtimestamp(found["time"] / 1e6, UTC)
        label = counted.labels[ids[row, rank]]
        cosine = float(cosines[row, rank])
        near[row].append(Neighbour(found["place"], label, found.get("text"), cosine, when))
    return near


def _reason(confidence, least, share):
    """Why there is no answer."""
    if least == np.inf:
        return f"no answer is sure enough that {share:g} of such answers are right"
    return f"confidence {confidence:.2f} is below {least:.2f}, from where on {share:g} are right"
