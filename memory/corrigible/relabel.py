"""Give all entries that a query finds another label: each is replaced, all or none.

A replacement has the text, the vector and the note of the entry that it replaces. When all are
undone, everything counts as before.
"""

from datetime import datetime
from typing import Any, NamedTuple

from corrigible.inputs import labels_of, selection_of
from corrigible.ledger.history import Entry, listed
from corrigible.proofs.rows import Content, Row, act_text, checked_about
from ocrrlib.files import InputError


class Relabelling(NamedTuple):
    """A new label, and which entries get it: None is any."""

    to: str
    label: str | None
    author: str | None
    since: datetime | None
    like: str | None

    @classmethod
    def of(cls, to: Any, label: Any, author: Any, since: Any, like: Any) -> "Relabelling":
        """Check what a user gives; ``InputError`` if nothing says which entries are meant."""
        (new,) = labels_of([to])
        selection = selection_of(label, author, since, like)
        if all(one is None for one in selection):
            raise InputError("nothing says what to relabel: give label, author, since or like")
        for name, word in (("author", author), ("like", like)):
            if word is not None and not str(word).strip():
                raise InputError(f"{name} is empty, and chooses no entries: give words")
        return cls(new, *selection)

    def entries(self, rows: list[Row]) -> list[Entry]:
        """The entries that would get the label, of all rows of a ledger."""
        found = listed(rows, self.label, self.author, self.since, self.like)
        return [entry for entry in found if entry.label != self.to]

    def replacements(self, rows: list[Row], by: str) -> list[Content]:
        """Entries by an author, each of which replaces one of these."""
        new = []
        for entry in self.entries(rows):
            row = rows[entry.place]
            act = act_text({"replaces": entry.place} | checked_about(entry.about))
            new.append(Content(self.to, by, row.text, row.x or b"", act))
        return new
