"""Find unsure answers, doubtful entries, and the answers that a correction would change."""

import copy
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from corrigible.answers import Answer, Answering
from corrigible.confidence import Sureness, calibrated, unknown_share
from corrigible.ledger.vectors import LiveVectors, in_order
from corrigible.readers import answered
from corrigible.stores.database_search import WithExtra
from ocrrlib.search import SAME_VECTOR, Entries
from ocrrlib.voting import TEMPERATURE, softmax, vote

ALIKE = 0.95  # cosine from which two texts are near-duplicates
VOTERS = 5  # nearest other entries, by which an entry is judged
NEWEST = 20_000  # entries that are judged at most
AROUND = 100  # stored entries nearest to a correction, whose answers it may change


class Unsure(NamedTuple):
    """One of the texts that were given for review, by its row, with its answer."""

    row: int
    text: str | None
    answer: Answer


class Suspect(NamedTuple):
    """An entry that others contradict: they say ``instead``, which is right with ``confidence``."""

    place: int
    label: str
    text: str | None
    instead: str
    confidence: float
    about: dict


class Change(NamedTuple):
    """An answer that changes: that to the entry at a place, or to the query in a row."""

    place: int | None
    row: int | None
    text: str | None
    before: str
    after: str


class Preview(NamedTuple):
    """What a correction would change: answers to stored entries, and to queries."""

    entries: list[Change]
    queries: list[Change]


def least_sure(texts: Sequence, X: np.ndarray, answers: Sequence[Answer], n: int) -> list[Unsure]:
    """The ``n`` texts (m,), of rows X (m, d), that are answered least surely, no two alike."""
    chosen: list[int] = []
    for row in np.argsort([answer.confidence for answer in answers], kind="stable").tolist():
        if len(chosen) == n:
            break
        if not chosen or (X[chosen] @ X[row]).max() < ALIKE:
            chosen.append(row)
    return [Unsure(row, texts[row], answers[row]) for row in chosen]


def suspects(counted: LiveVectors, n: int) -> list[tuple[int, str, float]]:
    """The ``n`` entries that others contradict most: slots, their labels instead, confidence.

    Each is left out, and the nearest others vote as in ``substrate``, if its label has any. A
    vector that is stored under two labels is contradicted, too, but not by an entry that was
    written before it: what was corrected is no suspect. Of more than ``NEWEST`` entries the newest
    are judged.
    """
    entries = counted.entries
    judged = np.arange(max(0, entries.size - NEWEST), entries.size)
    sims, slots = _nearest_others(entries, judged)
    labels = np.where(slots < 0, -1, entries.y[slots])
    times = counted.times.values
    earlier = times[slots] < times[judged][:, None]
    sims, labels = _without(_contradict(entries.y[judged], sims, labels) & earlier, sims, labels)
    elected = _elected_instead(entries.y, judged, sims, labels)
    doubtful = np.flatnonzero(elected >= 0)
    sims = sims[doubtful]
    elected = elected[doubtful]
    voted = labels[doubtful] == elected[:, None]
    share = (softmax(sims / TEMPERATURE) * voted).sum(axis=1)
    known = calibrated("substrate", entries.X, entries.y, counted.n_first)
    unknown = unknown_share(entries.y, counted.n_first)
    confidence = known.of(Sureness(share, sims[:, 0]), unknown)
    worst = np.argsort(-confidence, kind="stable")[:n]
    return [
        (int(judged[doubtful[i]]), counted.labels[elected[i]], float(confidence[i])) for i in worst
    ]


def suspects_of(X: np.ndarray, labels: Sequence[str], n: int) -> list[Suspect]:
    """The ``n`` of rows X (m, d) with ``labels`` (m,) that others contradict most, by place.

    They are judged as a memory judges entries that were written at once.
    """
    ids = {label: id for id, label in enumerate(dict.fromkeys(labels))}
    y = np.array([ids[label] for label in labels], np.int64)
    counted = LiveVectors(Entries.sharing(X, y), times=np.zeros(len(y), np.int64), labels=[*ids])
    return [
        Suspect(row, labels[row], None, instead, confidence, {})
        for row, instead, confidence in suspects(counted, n)
    ]


def _elected_instead(y, judged, sims, labels):
    """Classes (n,) that others elect in place of those of the entries ``judged``, or -1.

    ``sims`` and ``labels`` (n, VOTERS) are cosines and classes of the nearest others.
    """
    own = y[judged]
    elected = vote(sims, labels)
    has_others = np.bincount(y)[own] > 1  # else its own label cannot win
    elected[(elected == own) | ~has_others] = -1
    copies = _contradict(own, sims, labels)  # whatever the vote
    has_copy = copies.any(axis=1)
    elected[has_copy] = labels[has_copy, copies[has_copy].argmax(axis=1)]
    return elected


def _contradict(own, sims, labels):
    """Which of the others (n, VOTERS) have an equal vector and another class than ``own`` (n,)."""
    return (sims >= SAME_VECTOR) & (labels != own[:, None]) & (labels >= 0)


def _without(gone, sims, labels):
    """Cosines and classes (n, VOTERS) without those ``gone``, best first."""
    sims = np.where(gone, -np.inf, sims)
    labels = np.where(gone, -1, labels)
    order = np.argsort(-sims, axis=1, kind="stable")
    return np.take_along_axis(sims, order, axis=1), np.take_along_axis(labels, order, axis=1)


def _nearest_others(entries, judged):
    """Cosines and slots (n, VOTERS) of the nearest others of the entries ``judged`` (n,)."""
    sims, slots = entries.nearest(entries.X[judged], VOTERS + 1)
    own = slots == judged[:, None]
    own[~own.any(axis=1), -1] = True  # it has as many copies: one too many was found
    shape = len(judged), VOTERS
    return sims[~own].reshape(shape), slots[~own].reshape(shape)


def changed_answers(
    answering: Answering,
    counted: LiveVectors,
    x: np.ndarray,
    label: str,
    X: np.ndarray,
    without: int | None = None,
) -> tuple[list[tuple[int, str, str]], list[tuple[int, str, str]]]:
    """Answers that change if row x (d,) is written with a label: to entries, and to rows X (m, d).

    Each by its slot or row, with the labels before and after. Of the entries, those nearest to x.
    The entry at place ``without`` is replaced.
    """
    reader = answering.reader(counted)
    entries = counted.entries
    labels = counted.labels if label in counted.labels else [*counted.labels, label]
    more, n_first = counted.with_extra(x, labels.index(label), without)
    named = labels
    if without is not None and not isinstance(more, WithExtra):
        y, named = in_order(more.y, labels)  # the one left out may be the first of its label
        more = Entries.sharing(more.X, y)
    if without is None and len(labels) <= reader.n_classes:
        after = copy.deepcopy(reader, {id(entries): more})
    else:
        after = answering.made(more, n_first, len(labels))
    _, slots = entries.nearest(x[None], AROUND)
    slots = slots[slots >= 0]
    asked = np.concatenate([entries.X[slots], X])
    before = [labels[id] for id in answered(reader, asked)[0]]
    then = [named[id] for id in answered(after, asked)[0]]
    changes = [(row, *both) for row, both in enumerate(zip(before, then)) if both[0] != both[1]]
    around = [(int(slots[row]), *names) for row, *names in changes if row < len(slots)]
    return around, [(row - len(slots), *names) for row, *names in changes if row >= len(slots)]
