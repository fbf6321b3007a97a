"""Choose the entries to erase, and lay out their tombstones.

A tombstone is an entry without vector that has the place of an erased one as text. It repeats what
that one did to others, see ``corrigible.proofs.rows``, so that an erasure changes no other entry's
meaning, and notes the reason, if one is given. A proof of it shows that the entry was erased.
"""

from collections.abc import Iterable

from corrigible.ledger.history import Entry, composed, entry_of, matches
from corrigible.ledger.ledger import StoredLedger
from corrigible.proofs.rows import (
    Content,
    Row,
    act_text,
    checked_about,
    done_to_others,
    read_act,
)
from ocrrlib.files import InputError


def forget(ledger: StoredLedger, places: list[int], by: str, reason: str) -> list[int]:
    """Erase entries with a label by their places, and tell so by an author: all, or none.

    Returns the places of those that were not erased before. Raises ``InputError`` if one of them
    has no label, if all were erased before, or if the reason cannot be kept.
    """
    note = _note(reason)

    def tombstones():
        left = []
        for place in places:
            entry = ledger.entry(place)
            if "salt" not in entry:
                continue
            if not entry["x"]:
                what = "is an act, to be undone" if "act" in entry else "tells of an erasure"
                raise InputError(f"entry {place} {what}: there is nothing to erase")
            left.append(_tombstone(entry["place"], entry.get("act"), by, note))
        return left

    erased = ledger.erase(tombstones)
    if not erased:
        raise InputError(
            f"{_named(places)} erased before, in the log, too: there is nothing to erase"
        )
    return erased


def forget_all(
    ledger: StoredLedger, author: str | None, like: str | None, by: str, reason: str
) -> list[int]:
    """Erase all entries by an author, with a part of their text, or both; return their places."""
    _check_selects(author, like)
    note = _note(reason)
    if author is not None and composed(author) == composed(by):
        raise InputError(
            f"erased_by is {by!r}, too, and stays in the entries that tell of it: name a role"
        )

    def tombstones():
        chosen = _chosen(ledger.scan(), author, like)
        return [_tombstone(row.place, row.act, by, note) for row in chosen]

    return ledger.erase(tombstones)


def would_forget(ledger: StoredLedger, author: str | None, like: str | None) -> list[Entry]:
    """List what ``forget_all`` would erase, under the labels that were written.

    An act has no label, and itself as text.
    """
    _check_selects(author, like)
    found = []
    with ledger.snapshot():
        for row in _chosen(ledger.scan(), author, like):
            if row.x:
                found.append(entry_of(row, row.label or ""))
            else:
                found.append(entry_of(row._replace(text=row.act), ""))
    return found


def _check_selects(author, like):
    """Raise ``InputError`` if all entries would be chosen, or all without an author or a text."""
    if author is None and like is None:
        raise InputError("nothing says what to forget: give author, like, or both")
    for name, word in (("author", author), ("like", like)):
        if word is not None and not word.strip():
            raise InputError(f"{name} is empty, which would forget others' entries: give words")


def _chosen(rows: Iterable[Row], author, like):
    """Entries, whether they count or not, and acts, of which no word can be like another."""
    for row in rows:
        is_tombstone = not row.x and row.text is not None
        if row.salt is not None and not is_tombstone and matches(row, author, like):
            yield row


def _note(reason):
    """What tombstones say about themselves."""
    try:
        return checked_about({"reason": reason} if reason else None)
    except InputError as error:
        raise InputError("the reason cannot be kept: give a short text") from error


def _tombstone(place, act, by, note):
    return Content("", by, str(place), b"", act_text(note | done_to_others(read_act(act))))


def _named(places):
    if len(places) == 1:
        return f"entry {places[0]} was"
    return f"all {len(places)} entries were"
