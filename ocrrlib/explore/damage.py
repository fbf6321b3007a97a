"""Ways to damage a copy of a ledger, and what its owner can find out afterwards."""

from dataclasses import dataclass

import numpy as np

from ocrrlib.errors import InputError, pick
from ocrrlib.ledger import Fault, Ledger

FOUND = {
    "changed": "entry {} is not what was written",
    "removed": "an entry is missing just before entry {}",
    "inserted": "entry {} was put in later",
    "reordered": "entry {} stands in the wrong place",
    "truncated": "the noted head is not in the chain: its end was cut off, or it was written anew",
}


# What is done to the entry, by name; the last two leave a chain that is whole in itself.
TITLES = {
    "relabel": "give it another label",
    "remove": "take it out",
    "repeat": "put it in twice",
    "swap": "swap it with the next",
    "cut": "cut the chain off before it",
    "rewrite": "give it another label and hash all anew",
}


def damaged(ledger, kind, place, n_classes):
    """A copy of a ledger with one damage done to it.

    Parameters
    ----------
    ledger : Ledger
        What is copied; it stays as it is.
    kind : str
        A name in ``TITLES``.
    place : int
        The entry's place.
    n_classes : int
        Number of classes, at least 2.

    Raises
    ------
    InputError
        If the kind is unknown or there is no such entry.
    """
    pick("damage", kind, TITLES)
    if not (isinstance(place, (int, np.integer)) and 0 <= place < ledger.size):
        raise InputError(f"there is no entry {place!r}: give 0 to {ledger.size - 1}")
    if kind == "swap" and place + 1 == ledger.size:
        raise InputError(f"entry {place} is the last: choose one with another after it")
    places, labels = list(range(ledger.size)), ledger.y.copy()
    if kind in ("relabel", "rewrite"):
        labels[place] = (labels[place] + 1) % n_classes
    if kind == "rewrite":
        return Ledger(ledger.X, labels)
    # In the place of the entry, and of the next: which entries stand there.
    anew = {"remove": [], "repeat": [place, place], "swap": [place + 1, place]}
    if kind in anew:
        places[place : place + (2 if kind == "swap" else 1)] = anew[kind]
    elif kind == "cut":
        del places[place:]
    lists = ([values[at] for at in places] for values in (ledger.ids, ledger.previous, ledger.hashes))
    return Ledger.from_chain(ledger.X[places], labels[places], *lists)


@dataclass(frozen=True)
class Verdict:
    """What a walk along the chain finds, by itself and with the head that was noted elsewhere."""

    alone: Fault | None
    with_head: Fault | None

    @property
    def named(self):
        """The place of the entry that it names; None where there is none to be named."""
        return self.alone.position if self.alone else None

    @property
    def sentence(self):
        """It in words."""
        if self.alone:
            return f"verify: {FOUND[self.alone.kind].format(self.alone.position)}."
        if self.with_head:
            found = FOUND[self.with_head.kind].format(self.with_head.position)
            return f"verify: the chain is whole in itself; but {found}."
        return "verify: all entries are as they were written."


def examine(ledger, head):
    """The ``Verdict`` on a ledger, of which the hash ``head`` was noted elsewhere."""
    return Verdict(ledger.verify(), ledger.verify(head))
