"""What corrections came to, week by week: a report from a ledger alone, under one of its heads.

Whoever has a copy of the ledger and the head makes the same report: the head tells which entries it
is of. What was erased since is missing.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from typing import NamedTuple

import numpy as np

from corrigible.answers import Answering
from corrigible.confidence import Calibration, unknown_share
from corrigible.ledger.history import time_of
from corrigible.ledger.meaning import Meaning, Reading
from corrigible.ledger.vectors import LiveVectors
from corrigible.proofs.heads import Head
from corrigible.proofs.rows import Row
from corrigible.readers import answered
from ocrrlib.search import SLACK

NEAR = 5  # nearest entries, which an answer and `examples` show
AT_ONCE = 256  # corrections that are compared with all entries


class Week(NamedTuple):
    """Corrections of a week: entries that were written alone, with Monday's date in UTC.

    ``hold`` is how many of them are answered as corrected, under the label's name of now.
    ``repeats`` had a label that one of the five nearest entries had before, ``new_labels`` one that
    no entry had.
    """

    monday: date
    corrections: int
    hold: int
    repeats: int
    new_labels: int


class Report(NamedTuple):
    """What corrections came to under a head, by weeks that have any.

    ``entries`` and ``labels`` are how many count. ``coverage`` is the share of texts like the
    entries that would get an answer with a promise ``at_least``; ``lack`` says why none would.
    """

    head: Head
    entries: int
    labels: int
    weeks: list[Week]
    at_least: float
    coverage: float
    lack: str | None

    @property
    def total(self) -> Week | None:
        """All weeks as one, of the first Monday; None if there are none."""
        if not self.weeks:
            return None
        monday, *numbers = zip(*self.weeks)
        return Week(monday[0], *(sum(one) for one in numbers))


def report_of(
    rows: Sequence[Row], head: Head, counted: LiveVectors, answering: Answering, at_least: float
) -> Report:
    """The report under a head, from all rows of a ledger; ``counted`` is what counted then.

    Later rows are needed as well: they repeat what acts said that were erased since.
    """
    reading = Reading()
    taken = reading.take([*rows])
    meaning = Meaning(act for act in reading.acts.items() if act[0] < head.size)
    written = [row for row in taken[: head.size] if row.x]
    made_at = Counter(row.time for row in rows[: head.size])
    slots = np.array([slot for slot, row in enumerate(written) if made_at[row.time] == 1], int)
    n_labels = len(counted.labels)
    coverage = 0.0
    lack: str | None = "no entry counts"
    weeks = []
    if counted.entries.size:
        known = Calibration(answering.name).confidence(counted.entries, counted.n_first)
        coverage = known.coverage(at_least, unknown_share(counted.entries.y, counted.n_first))
        lack = known.lack
    if len(slots):
        weeks = _weeks(written, slots, meaning, counted, answering)
    return Report(head, counted.entries.size, n_labels, weeks, at_least, coverage, lack)


def _weeks(written, slots, meaning, counted, answering):
    """The weeks of corrections, which are ``slots`` (m,) of the rows ``written``."""
    X = np.frombuffer(b"".join(row.x for row in written), "<f4").reshape(len(written), -1)
    names = [meaning.label(row.place, row.label or "") for row in written]
    counts_as = [meaning.counts_as(row.place, row.label or "") for row in written]
    first = {label: slot for slot, label in reversed([*enumerate(counts_as)])}
    holds = _holds(X[slots], [counts_as[slot] for slot in slots], counted, answering)
    repeats = _repeats(written, X, names, slots, meaning)
    weeks: dict[date, Counter] = {}
    for slot, hold, repeat in zip(slots.tolist(), holds, repeats):
        day = time_of(written[slot]).date()
        week = weeks.setdefault(day - timedelta(days=day.weekday()), Counter())
        label = counts_as[slot]
        week["corrections"] += 1
        week["hold"] += hold
        week["repeats"] += repeat
        week["new_labels"] += label is not None and first[label] == slot
    fields = Week._fields[1:]
    return [Week(day, *(week[name] for name in fields)) for day, week in sorted(weeks.items())]


def _holds(X, labels, counted, answering):
    """Which rows X (m, d) are answered by ``labels`` (m,); None is of one that does not count."""
    if not counted.entries.size:
        return [False] * len(labels)
    ids = answered(answering.reader(counted), X)[0]
    return [counted.labels[id] == label for id, label in zip(ids, labels)]


def _repeats(written, X, names, slots, meaning):
    """Which corrections have a label that one of the ``NEAR`` entries had, when they were made."""
    places = np.array([row.place for row in written])
    slot_of = {row.place: slot for slot, row in enumerate(written)}
    ends = np.full(len(written), np.iinfo(np.int64).max)  # after which place one does not count
    for place, by in [*meaning.undone_by.items(), *meaning.replaced_by.items()]:
        if place in slot_of:
            slot = slot_of[place]
            ends[slot] = min(ends[slot], by)
    found = []
    for start in range(0, len(slots), AT_ONCE):
        block = slots[start : start + AT_ONCE]
        sims = X[block] @ X.T
        for slot, rough in zip(block.tolist(), sims):
            rough = rough[:slot]
            there = np.flatnonzero(ends[:slot] >= places[slot])
            near = _nearest(X, X[slot], there, rough[there])
            found.append(any(names[one] == names[slot] for one in near))
    return found


def _nearest(X, x, slots, rough):
    """The ``NEAR`` of ``slots`` (n,) nearest to x (d,), of equal ones the newest.

    ``rough`` (n,) are cosines in float32: where they leave a doubt, they are computed exactly.
    """
    if len(slots) > NEAR:
        bound = np.partition(rough, -NEAR)[-NEAR]
        slots = slots[rough >= bound - SLACK * len(x)]
    exact = np.einsum("nd,d->n", X[slots].astype(np.float64), x.astype(np.float64))
    return slots[np.lexsort((-slots, -exact))[:NEAR]].tolist()
