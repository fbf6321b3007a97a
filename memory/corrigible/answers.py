"""Answers to queries, by a system that reads the entries that count."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from corrigible.confidence import Calibration, Sureness, unknown_share
from corrigible.ledger.vectors import LiveVectors
from corrigible.proofs.rows import Row, read_act
from corrigible.readers import Reader, answered, make_reader
from ocrrlib.search import Entries

NEIGHBOURS = 5  # shown beside an answer
CONTESTED = "entries with an equal vector were written together under several labels"
TOLD = 3  # entries that a reason names
LEAST_ROOM = 16  # classes that a reader is made for at least


class Neighbour(NamedTuple):
    """An entry near a query, under the label that it counts as; ``about`` is noted with it."""

    entry: int
    label: str
    text: str | None
    cosine: float
    when: datetime
    about: dict


class Answer(NamedTuple):
    """The answer to a query, with the nearest entries, best first.

    ``confidence`` is the probability that it is right. If the caller asked for a promise, that is
    what is ``promised`` of all answers at least as sure: at least this share of them is right.
    ``label`` is None, for a ``reason``, if that is less than was asked. See
    ``corrigible.confidence``. An answer to what is stored already names the entry that decides as
    its reason, and those that it overrules.
    """

    label: str | None
    confidence: float
    neighbours: list[Neighbour]
    reason: str | None = None
    promised: float | None = None


class Answering:
    """A reader by its name, fitted on entries when these are first asked.

    What else was fitted for its confidence may be ``kept`` in a file.
    """

    def __init__(self, reader: str, kept: Path | None = None):
        self.name = reader
        self._reader = make_reader(reader)  # refuses a wrong name
        self._entries: Entries | None = None  # that it was fitted on
        self._calibration = Calibration(reader, kept)

    def answers(
        self,
        X: np.ndarray,
        counted: LiveVectors,
        rows_at: Callable[[Iterable[int]], dict[int, Row]],
        at_least: float | None = None,
    ) -> list[Answer]:
        """Answer rows X (m, d) from what counts; ``rows_at`` gives entries by their places.

        With ``at_least``, only where of answers at least as sure that share is right.
        """
        ids, probabilities, cosines, slots, copies = answered(self.reader(counted), X)
        sure = Sureness(probabilities[np.arange(len(ids)), ids], cosines[:, 0])
        entries = counted.entries
        y = entries.y
        known = self._calibration.confidence(entries, counted.n_first)
        unknown = unknown_share(y, counted.n_first)
        confidence = known.of(sure, unknown)
        near = _neighbours(counted, y, cosines[:, :NEIGHBOURS], slots[:, :NEIGHBOURS], rows_at)
        shares = {row: _agreeing(counted, slots) for row, slots in copies.items()}
        for row, share in shares.items():
            confidence[row] = min(confidence[row], share)
        answers = [
            Answer(counted.labels[id], *shown) for id, *shown in zip(ids, confidence.tolist(), near)
        ]
        for row, slots in copies.items():
            answers[row] = answers[row]._replace(reason=_stored(counted, slots))
        if at_least is None:
            return answers
        promised = known.promised(confidence, unknown).tolist()
        lacks = {row: CONTESTED for row, share in shares.items() if share < 1}
        return [
            _promising(answer, share, at_least, lacks.get(row, known.lack))
            for row, (answer, share) in enumerate(zip(answers, promised))
        ]

    def reader(self, counted: LiveVectors) -> Reader:
        """The reader of what counts; fitted anew on other entries, or if it lacks classes."""
        entries = counted.entries
        n_classes = len(counted.labels)
        if self._entries is not entries or self._reader.n_classes < n_classes:
            self._entries = None  # if it fails, it is fitted again
            self._reader.read(entries, counted.n_first, _room(n_classes))
            self._entries = entries
        return self._reader

    def made(self, entries: Entries, n_first: int, n_classes: int) -> Reader:
        """Another reader, of entries of which the first ``n_first`` were written at once."""
        return make_reader(self.name).read(entries, n_first, _room(n_classes))


def _room(n_classes):
    """Classes that a reader is made for: a power of two, so that new labels seldom ask for more."""
    return max(LEAST_ROOM, 1 << (n_classes - 1).bit_length())


def _neighbours(counted, y, cosines, slots, rows_at):
    """Neighbours of m queries, by their cosines and slots (m, k); -1 where there are fewer."""
    places = counted.places.values[slots]
    ids = y[slots]
    rows = rows_at(np.unique(places[slots >= 0]).tolist())
    near: list[list[Neighbour]] = [[] for _ in slots]
    for query, rank in np.argwhere(slots >= 0).tolist():
        row = rows[int(places[query, rank])]
        when = datetime.fromtimestamp(row.time / 1e6, UTC)
        label = counted.labels[ids[query, rank]]
        cosine = float(cosines[query, rank])
        about = read_act(row).get("about", {})
        near[query].append(Neighbour(row.place, label, row.text, cosine, when, about))
    return near


def _agreeing(counted, slots):
    """Share of the entries of an equal vector, written with the newest one, that have its label."""
    together = slots[counted.times.values[slots] == counted.times.values[slots[0]]]
    labels = counted.entries.y[together]
    return float(np.mean(labels == labels[0]))


def _stored(counted, slots):
    """Why a stored text is answered as it is; ``slots`` are its entries, newest first."""
    newest, *older = (counted.origin(slot) for slot in slots)
    overruled = [f"{one.place} ({one.label})" for one in older if one.label != newest.label]
    if not overruled:
        return f"entry {newest.place} has an equal vector"
    more = "" if len(overruled) <= TOLD else f" and {len(overruled) - TOLD} more"
    told = ", ".join(overruled[:TOLD]) + more
    return f"entry {newest.place}, the newest with an equal vector, overrules entry {told}"


def _promising(answer, promised, at_least, lack):
    """The answer with what is promised; without label, and with a reason, if more was asked."""
    answer = answer._replace(promised=0.0 if lack else promised)
    if promised >= at_least and lack is None:
        return answer
    if lack is not None:
        reason = f"at_least={at_least:g} cannot be promised: {lack}"
    else:
        share = np.floor(100 * promised) / 100  # not rounded up to what was asked
        reason = (
            f"right with probability {answer.confidence:.2f}; of answers at least as sure "
            f"{share:.2f} are promised to be right, not {at_least:g}"
        )
    return answer._replace(label=None, reason=reason)
