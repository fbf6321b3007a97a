"""The ledger at the desk: its links, and a copy of it that may be damaged."""

import pandas as pd

from ocrrlib.errors import InputError
from ocrrlib.explore.damage import damaged, examine
from ocrrlib.ledger import Ledger

DIGITS = 10  # of a hash, where it is shown


class Chain:
    """The chain of the first system that keeps a ledger.

    Parameters
    ----------
    systems : dict of str to System
        The systems at the desk.
    classes : list of str
        Names of the dataset's classes.

    Attributes
    ----------
    copy : StoredLedger or Ledger
        The damaged copy; None where there is none.
    """

    def __init__(self, systems, classes):
        self.classes = classes
        entries = (getattr(system, "entries", None) for system in systems.values())
        self._ledger = next((one for one in entries if isinstance(one, Ledger)), None)
        self.restore()

    @property
    def is_there(self):
        """Whether one of the systems keeps a ledger."""
        return self._ledger is not None

    @property
    def ledger(self):
        """The ledger itself.

        Raises
        ------
        InputError
            If no system keeps one.
        """
        if not self.is_there:
            raise InputError("none of these systems keeps a ledger: choose substrate or ledger_plda")
        return self._ledger

    def damage(self, kind, entry):
        """Damage one entry in a copy of the ledger, see ``damage.TITLES``; the systems keep the whole one.

        Raises
        ------
        InputError
            If there is no ledger, no such entry, or no such kind of damage.
        """
        self.copy, self._place = damaged(self.ledger, kind, entry, len(self.classes)), entry

    def verify(self):
        """The ``Verdict`` on the damaged copy, or on the ledger itself where there is none."""
        return examine(self.copy or self.ledger, self.ledger.head)

    def restore(self):
        """Drop the damaged copy."""
        self.copy = self._place = None

    def links(self, n=4):
        """``n`` links: the newest, or those around the damage.

        Returns
        -------
        DataFrame
            One row per entry, by its place: ``id``, ``class``, the first digits of ``previous`` (the hash of the
            entry before, as this one knows it) and of its own ``hash``.
        """
        ledger = self.copy or self.ledger
        end = ledger.size if self.copy is None else min(ledger.size, self._place + n - 1)
        places = range(max(0, end - n), end)
        rows = [
            {
                "id": ledger.ids[place],
                "class": self.classes[ledger.y[place]],
                "previous": ledger.previous[place].hex()[:DIGITS],
                "hash": ledger.hashes[place].hex()[:DIGITS],
            }
            for place in places
        ]
        return pd.DataFrame(rows, index=pd.Index(places, name="entry"))
