"""What the entries of a ledger mean by now: which count, and under which label.

Nothing is taken back in the ledger itself. Acts, see ``corrigible.proofs.acts``, say how others are
to be read, and this is the whole rule:

- An entry is *undone* if a later undo of it is not undone itself.
- An entry counts, unless it is undone, another one that is not undone replaces it, or its label is
  retired.
- Its label is its own, changed by every later rename and merge that is not undone, in their order.
- A label is retired if a retirement of it is not undone.

The same entries always mean the same, so the meaning of the first n is what it was when there were
no more.
"""

from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

from corrigible.proofs.acts import ALONE, done_to_others, read_act
from corrigible.proofs.rows import Row


class Naming(NamedTuple):
    """A rename or merge that stands: labels of earlier entries become another one."""

    place: int
    labels: frozenset[str]
    new: str


def acts_of(rows: Iterable[Row]) -> list[tuple[int, dict]]:
    """What rows say of other entries, with the places of those that say it.

    A row that tells of an erasure speaks for the entry that was erased.
    """
    acts = []
    for row in rows:
        act = done_to_others(read_act(row.act))
        if act:
            for_another = not row.x and row.text is not None
            acts.append((int(row.text or "") if for_another else row.place, act))
    return acts


class Meaning:
    """What acts, by the places of their entries, say of all entries up to the last one."""

    def __init__(self, acts: Iterable[tuple[int, dict]]):
        acts = sorted(acts, key=itemgetter(0))
        self.alone = {place for place, act in acts if act.keys() & {*ALONE}}  # no corrections
        self.undone_by: dict[int, int] = {}  # place of the undo, by what it undoes
        for place, act in reversed(acts):  # whether a later undo stands is known then
            if "undo" in act and place not in self.undone_by:
                self.undone_by.setdefault(act["undo"], place)
        self.replaced_by: dict[int, int] = {}  # place of the replacement, by what it replaces
        self.namings: list[Naming] = []
        self.retired_by: dict[str, int] = {}  # place of the retirement, by label
        for place, act in acts:
            if place in self.undone_by:
                continue
            if "replaces" in act:
                self.replaced_by[act["replaces"]] = place
            if "rename" in act:
                old, new = act["rename"]
                self.namings.append(Naming(place, frozenset([old]), new))
            if "merge" in act:
                labels, into = act["merge"]
                self.namings.append(Naming(place, frozenset(labels), into))
            if "retire" in act:
                self.retired_by[act["retire"]] = place

    def label(self, place: int, own: str) -> str:
        """The label that an entry has by now, by its place and its own label."""
        for naming in self.namings:
            if naming.place > place and own in naming.labels:
                own = naming.new
        return own

    def stands(self, place: int) -> bool:
        """Whether an entry is neither undone nor replaced."""
        return place not in self.undone_by and place not in self.replaced_by

    def counts_as(self, place: int, own: str) -> str | None:
        """The label that an entry counts under; None if it does not count."""
        if not self.stands(place):
            return None
        label = self.label(place, own)
        return None if label in self.retired_by else label
