"""Choose the entries to erase, and lay out their tombstones.

A tombstone is an entry without vector that has the place of an erased one as text. It repeats what
that one did to others, see ``corrigible.proofs.rows``, so that an erasure changes no other entry's
meaning, and notes the reason, if one is given. A proof of it shows that the entry was erased.

Another program may have written before that an entry was erased. That counted for nothing, and is
erased with the entry, so that the first tombstone left is the right one.
"""

from corrigible.ledger.history import Entry, composed, entry_of, matches
from corrigible.ledger.ledger import StoredLedger
from corrigible.proofs.rows import Content, act_text, checked_about, is_tombstone
from ocrrlib.files import InputError


def forget(ledger: StoredLedger, places: list[int], by: str, reason: str) -> list[int]:
    """Erase entries with a label by their places, and tell so by an author: all, or none.

    Returns the places of those that were not erased before. Raises ``InputError`` if one of them
    has no label, if all were erased before, or if the reason cannot be kept.
    """
    note = _note(reason)

    def tombstones():
        left = []
        for place, row in ledger.rows_at(places).items():
            if row.salt is None:
                continue
            if not row.x and place not in ledger.void:
                what = "tells of an erasure" if is_tombstone(row) else "is an act, to be undone"
                raise InputError(f"entry {place} {what}: there is nothing to erase")
            left.append(place)
        return _tombstones(ledger, left, by, note)

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
        places = [row.place for row in _chosen(ledger, author, like)]
        return _tombstones(ledger, places, by, note)

    return ledger.erase(tombstones)


def would_forget(ledger: StoredLedger, author: str | None, like: str | None) -> list[Entry]:
    """List what ``forget_all`` would erase, under the labels that were written.

    An act has no label, and itself as text.
    """
    _check_selects(author, like)
    found = []
    with ledger.snapshot():
        for row in _chosen(ledger, author, like):
            if row.x:
                found.append(entry_of(row, row.label or ""))
            else:
                found.append(entry_of(row._replace(text=row.act or row.text), ""))
    return found


def _check_selects(author, like):
    """Raise ``InputError`` if all entries would be chosen, or all without an author or a text."""
    if author is None and like is None:
        raise InputError("nothing says what to forget: give author, like, or both")
    for name, word in (("author", author), ("like", like)):
        if word is not None and not word.strip():
            raise InputError(f"{name} is empty, which would forget others' entries: give words")


def _chosen(ledger, author, like):
    """Entries, whether they count or not, and acts, of which no word can be like another."""
    for row in ledger.scan():
        tells_of_erasure = is_tombstone(row) and row.place not in ledger.void
        if row.salt is not None and not tells_of_erasure and matches(row, author, like):
            yield row


def _note(reason):
    """What tombstones say about themselves."""
    try:
        return checked_about({"reason": reason} if reason else None)
    except InputError as error:
        raise InputError("the reason cannot be kept: give a short text") from error


def _tombstones(ledger, places, by, note):
    """Tombstones of entries, and of the void ones that tell so already."""
    places = [*places]
    for place in places:  # more are added meanwhile
        for void, named in ledger.void.items():
            if named == place and void not in places:
                places.append(void)
    told = []
    for place in places:
        act = act_text(note | ledger.done_by(place))
        told.append(Content("", by, str(place), b"", act))
    return told


def _named(places):
    if len(places) == 1:
        return f"entry {places[0]} was"
    return f"all {len(places)} entries were"
