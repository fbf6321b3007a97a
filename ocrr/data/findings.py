"""Collect the faults of a file for one error line, each with its rows and its remedy."""

from collections.abc import Callable, Iterable
from typing import Any

from ocrrlib.files import InputError

SHOWN = 3  # rows or classes that a finding names


def listed(names: Iterable, n: int = SHOWN) -> str:
    """The first ``n`` names, and how many there are."""
    every = [str(name) for name in names]
    more = f" and {len(every) - n} more, {len(every)} in all" if len(every) > n else ""
    return ", ".join(every[:n]) + more


class Findings:
    """Faults, collected so that one error can say all of them."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, finding: str) -> None:
        """Add a finding as it stands."""
        self.said.append(finding)

    def add(self, places: Iterable, what: str, way_out: str) -> None:
        """Add a finding about these rows or classes, if there are any."""
        places = list(places)
        if places:
            self.say(f"{what} {listed(places)}: {way_out}")

    def take(self, check: Callable, *arguments: Any) -> None:
        """Add what a check refuses."""
        try:
            check(*arguments)
        except InputError as error:
            self.say(str(error))

    def refuse(self) -> None:
        """Raise an ``InputError`` with all findings, if there are any."""
        if self.said:
            raise InputError("; ".join(self.said))
