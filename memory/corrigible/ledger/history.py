"""List the entries that count, and the history of one entry."""

import json
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from corrigible.ledger.meaning import Meaning, Reading
from corrigible.proofs.rows import ALONE, Row, act_text, is_tombstone, read_act, told_place


class Entry(NamedTuple):
    """An entry that counts, under the label that it counts as."""

    place: int
    label: str
    text: str | None
    author: str
    when: datetime
    about: dict


class Event(NamedTuple):
    """What an entry did to another one."""

    place: int
    what: str
    author: str | None  # None if it was erased
    when: datetime


class History(NamedTuple):
    """Present label of an entry, None if it does not count, and the events that led there."""

    label: str | None
    events: list[Event]


def time_of(row: Row) -> datetime:
    """When an entry was written."""
    return datetime.fromtimestamp(row.time / 1e6, UTC)


def counting(rows: list[Row], size: int | None = None) -> Iterator[tuple[Row, str]]:
    """The rows of a ledger that count, each with its present label.

    With ``size``, those that counted when there were so many. Later rows are needed all the same:
    they repeat what acts said that were erased since.
    """
    size = len(rows) if size is None else size
    reading, taken = _read(rows)
    meaning = _meaning(reading, size)
    for row, understood in zip(rows[:size], taken):
        if understood.x:
            label = meaning.counts_as(row.place, row.label or "")
            if label is not None:
                yield row, label


def _read(rows):
    """What rows say of one another, and the rows without acts that do nothing to others."""
    reading = Reading()
    return reading, reading.take(rows)


def _meaning(reading, size):
    return Meaning(act for act in reading.acts.items() if act[0] < size)


def listed(
    rows: list[Row],
    label: str | None,
    by: str | None,
    since: datetime | None,
    like: str | None,
    size: int | None = None,
) -> list[Entry]:
    """Entries that count, of a label, an author, since a time, with a part of their text.

    With ``size``, as when there were so many.
    """
    found = []
    for row, own in counting(rows, size):
        wanted = label in (None, own) and matches(row, by, like)
        if since is not None and time_of(row) < since:
            wanted = False
        if wanted:
            found.append(entry_of(row, own))
    return found


def entry_of(row: Row, label: str) -> Entry:
    """An entry as it is listed, under a label."""
    about = read_act(row).get("about", {})
    return Entry(row.place, label, row.text, row.author or "", time_of(row), about)


def matches(row: Row, author: str | None, like: str | None) -> bool:
    """Whether an entry is by an author, and a part is in its text or in what is noted about it.

    None is any. Texts are compared in any case, with any blanks between words, and letters and
    their accents in one piece or apart.
    """
    if author is not None and composed(author) != composed(row.author or ""):
        return False
    if like is None:
        return True
    about = read_act(row).get("about", {})
    return any(_folded(like) in _folded(words) for words in (row.text or "", *_words(about)))


def composed(words: str) -> str:
    """Words with letters and their accents in one piece."""
    return unicodedata.normalize("NFC", words)


def _folded(words):
    """Words without case (Unicode, section 3.13, D146), invisible marks, and kinds of blanks."""
    words = unicodedata.normalize("NFKD", unicodedata.normalize("NFD", words).casefold())
    words = unicodedata.normalize("NFKD", words.casefold())
    seen = "".join(letter for letter in words if unicodedata.category(letter) != "Cf")
    return " ".join(seen.split())


def _words(value: Any) -> Iterator[str]:
    """All names, words and numbers in a JSON value."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for one in value:
            yield from _words(one)
    else:
        yield value if isinstance(value, str) else json.dumps(value)


def history(rows: list[Row], place: int, size: int | None = None) -> History:
    """What became of the entry at ``place``, of all rows of a ledger.

    With ``size``, as when there were so many; what was erased since is missing.
    """
    size = len(rows) if size is None else size
    reading, rows = _read(rows)
    rows = _with_erased_acts(reading, rows)
    row = rows[place]
    events = [Event(place, _written(row, reading), row.author, time_of(row))]
    told = {place}  # places of all events, and of replacements that were erased since
    for by, act in reading.acts.items():
        if by in reading.erased and act.get("replaces") == place:
            told.add(by)
    for later in rows[place + 1 : size]:
        what = _done(row, later, reading, told)
        if what:
            told.add(later.place)
            events.append(Event(later.place, what, later.author, time_of(later)))
    meaning = _meaning(reading, size)
    return History(meaning.counts_as(place, row.label or "") if row.x else None, events)


def _with_erased_acts(reading, rows):
    """Rows with the acts that were erased where they stood, not where that is told."""
    rows = [*rows]
    for place, told_by in reading.told_by.items():
        act = reading.acts.get(place, {})
        if act.keys() & {*ALONE}:
            rows[place] = rows[place]._replace(act=act_text(act))
            rows[told_by] = rows[told_by]._replace(act=None)
    return rows


def _written(row, reading):
    """What an entry was written as."""
    act = read_act(row)
    is_void = row.place in reading.void
    if "replaces" in act and row.x:
        return f"written as {row.label}, in place of entry {act['replaces']}"
    if row.x:
        return f"written as {row.label}" + ", with an act that counts for nothing" * is_void
    if is_void:
        return "written, and counts for nothing"
    if row.salt is None and not act:
        return "written, and erased"
    if is_tombstone(row):
        return f"tells that entry {row.text} was erased"
    ((what, value),) = act.items()
    return f"{what} {value}"


def _done(row, later, reading, told):
    """What a later entry did to one; None if nothing."""
    act = read_act(later)
    if told_place(later) == row.place:
        if later.place in reading.void:
            return "said to be erased, which counts for nothing"
        return "erased"
    if act.get("replaces") == row.place:
        return "replaced" if later.x else f"replaced by entry {later.text}, which was erased"
    if act.get("undo") == row.place:
        return "undone"
    if act.get("undo") in told:
        return f"entry {act['undo']} undone"
    if not row.x or not act.keys() & {"rename", "merge", "retire"}:
        return None
    label = _meaning(reading, later.place).label(row.place, row.label)
    if "retire" in act:
        return f"label {label} retired" if act["retire"] == label else None
    old, new = act.get("merge") or act["rename"]
    olds = [old] if "rename" in act else old
    return f"label {label} became {new}" if label in olds and label != new else None
