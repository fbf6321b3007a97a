"""What the entries of a ledger mean by now: which count, and under which label.

Nothing is taken back in the ledger itself. Acts, see ``corrigible.proofs.rows``, say how others are
to be read, and this is the whole rule:

- An entry is *undone* if a later undo of it is not undone itself.
- An entry counts, unless it is undone, a later one that is not undone replaces it, or its label is
  retired.
- Its label is its own, changed by every later rename and merge that is not undone, in their order.
- A label is retired if a retirement of it is not undone.
- Of an entry that was erased, the first tombstone after it says what it did to others. All other
  tombstones are *void*, and so are acts that name no earlier entry, or are none, and vectors that
  have another length than the first one, or not the length 1.

Whatever is appended, the meaning of the first n entries is what it was when there were no more. A
void tombstone would be the first one if its entry were erased later: ``corrigible.ledger.erasure``
erases both. What users ask for is checked against the meaning, and becomes an act.
"""

from collections.abc import Container, Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from corrigible.proofs.rows import (
    ALONE,
    Row,
    done_to_others,
    is_tombstone,
    read_act,
    told_place,
)
from ocrrlib.files import InputError

BLOCK = 256  # rows whose vectors are compared at once


class Naming(NamedTuple):
    """A rename or merge that stands: labels of earlier entries become another one."""

    place: int
    labels: frozenset[str]
    new: str


class Reading:
    """What entries, read in their order, say of one another.

    ``erased`` are places, ``told_by`` has those of the tombstones that count, by the places that
    they name. ``acts`` has what entries do to others, by the places of those that do it or, if they
    were erased, did it. ``void`` has the places of entries that are void, with the place of which
    one tells that it was erased, or None.
    """

    def __init__(self) -> None:
        self.erased: set[int] = set()
        self.told_by: dict[int, int] = {}
        self.acts: dict[int, dict] = {}
        self.void: dict[int, int | None] = {}
        self._size = 0  # of vectors in bytes, as far as it is known
        self._n_vectors = 0  # so many are not erased, at least

    def take(self, rows: list[Row]) -> list[Row]:
        """Read the next entries; return them without acts that do nothing to others."""
        taken = []
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            for row, is_unit in zip(block, _are_units([row.x or b"" for row in block])):
                if is_unit and row.act is None and len(row.x or b"") == self._size:  # most are so
                    taken.append(row)
                else:
                    taken.append(self._taken(row, is_unit))
        self._n_vectors += sum(1 for row in taken if row.x)
        return taken

    def can_erase(self, places: Sequence[int], told: Container[int]) -> bool:
        """Whether nothing else that was read depends on entries; if not, all is to be read again.

        Of those that are void ``told`` tell of them, and are taken again.
        """
        tells = {*self.told_by.values()}
        is_void = any(place not in told for place in self.void)
        return not is_void and tells.isdisjoint(places) and len(places) < self._n_vectors

    def erase(self, places: Sequence[int]) -> None:
        """Take entries for erased, before those that tell so are taken."""
        self._n_vectors -= len(places)
        self.erased.update(places)
        for place in places:
            self.acts.pop(place, None)

    def _taken(self, row, is_unit):
        if row.salt is None:
            self.erased.add(row.place)
            return row
        if row.x:
            if len(row.x) != (self._size or len(row.x)) or not is_unit:
                self.void[row.place] = None
                return row._replace(x=b"", text=None, act=None)
            self._size = len(row.x)
        if row.x and row.act is None:
            return row
        told = told_place(row)
        if told is not None and told in self.erased and told not in self.told_by:
            self.told_by[told] = row.place
            speaker = told
        elif is_tombstone(row):
            self.void[row.place] = told
            return row._replace(act=None)
        else:
            speaker = row.place
        act = read_act(row)
        done = done_to_others(act)
        if not act or done.get("undo", done.get("replaces", -1)) >= speaker:
            if speaker == row.place:
                self.void[row.place] = None
            return row._replace(act=None)
        if not done:
            return row._replace(act=None)
        self.acts[speaker] = done
        return row


def _are_units(vectors):
    """Whether vectors, as bytes, have a length of 1, but for rounding; false of NaN."""
    if len({*map(len, vectors)}) > 1:
        return [is_unit for x in vectors for is_unit in _are_units([x])]
    X = np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("nd,nd->n", X, X)
    return ((0.99 < squares) & (squares < 1.01)).tolist()


def acts_of(rows: Iterable[Row]) -> list[tuple[int, dict]]:
    """What rows say of other entries, without those that are void, by the places of who says it.

    A row that tells of an erasure speaks for the entry that was erased.
    """
    acts = []
    for row in rows:
        act = done_to_others(read_act(row))
        if act:
            told = told_place(row)
            acts.append((row.place if told is None else told, act))
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

    # Acts that users ask for

    def undo(self, entry: dict) -> dict:
        """The act that undoes an entry, by its fields.

        Raises ``InputError`` if it was erased, unless it is an act, tells of an erasure, means
        nothing, or was undone before.
        """
        place = entry["place"]
        if not entry.get("x") and place not in self.alone:
            if "salt" not in entry:
                raise InputError(f"entry {place} was erased, for good: correct its text anew")
            if "text" in entry:
                raise InputError(f"entry {place} tells of an erasure, which is for good")
            raise InputError(f"entry {place} means nothing: there is nothing to undo")
        if place in self.undone_by:
            by = self.undone_by[place]
            raise InputError(
                f"entry {place} was undone by entry {by}: undo that one, if you want it"
            )
        return {"undo": place}

    def replace(self, entry: dict) -> dict:
        """The act of an entry that stands for another one, by the latter's fields.

        Raises ``InputError`` if that one has no label, or does not count any more.
        """
        place = entry["place"]
        if not entry.get("x"):
            raise InputError(f"entry {place} has no label that could be replaced")
        for what, by in (("replaced", self.replaced_by), ("undone", self.undone_by)):
            if place in by:
                raise InputError(
                    f"entry {place} was {what} by entry {by[place]}: it does not count"
                )
        return {"replaces": place}

    def rename(self, old: str, new: str, labels: Container[str]) -> dict:
        """The act that gives a label, one of ``labels``, another name.

        Raises ``InputError`` if there is no such label, or the new one is there.
        """
        _check_known([old], labels)
        if new in labels or new in self.retired_by:
            raise InputError(f"label {new!r} is there already: merge {old!r} into it, or undo that")
        return {"rename": [old, new]}

    def merge(self, old: Sequence[str], into: str, labels: Container[str]) -> dict:
        """The act that makes one label of several.

        Raises ``InputError`` if there are none, one of them is no label, or the result is retired.
        """
        if not [label for label in old if label != into]:
            raise InputError(f"there is nothing to merge into {into!r}: give other labels")
        _check_known(old, labels)
        self.check_not_retired([into])
        return {"merge": [list(dict.fromkeys(old)), into]}

    def retire(self, label: str, labels: Container[str]) -> dict:
        """The act that lets a label be answered no more.

        Raises ``InputError`` if there is no such label, or it is retired.
        """
        self.check_not_retired([label])
        _check_known([label], labels)
        return {"retire": label}

    def check_not_retired(self, labels: Iterable[str]) -> None:
        """Raise ``InputError`` if a label is retired."""
        for label in labels:
            if label in self.retired_by:
                place = self.retired_by[label]
                raise InputError(
                    f"label {label!r} was retired by entry {place}: undo that, or give another "
                    "label"
                )


def _check_known(labels, known):
    for label in labels:
        if label not in known:
            raise InputError(f"there is no label {label!r} by now: give one that is answered")
