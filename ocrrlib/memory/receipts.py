"""Receipts of erasures: which entries were erased, when and by whom, but nothing of what they held.

A receipt is made from the ledger's own entries, so it can be made again. It is text, and below that
a seal, the signed note of a head whose size is the number of erased entries, and whose root is the
SHA-256 of the text above::

    ocrr erasure receipt v1
    memory <origin>                           name of the ledger
    by <who erased>
    reason <why>                              or no such line
    before <size> <base64 of the root>        the head before, that is without its time
    after <size> <base64 of the root>         the head after
    path <base64 of a hash>                   proof that it extends the one before; none or more
    erased <place> <YYYY-MM-DDThh:mm:ssZ> <place of the entry that tells so>
    ...

    receipt of <origin>
    <number of lines erased>
    <base64 of the hash of the lines above>

    — <key name> <signature>                  none or more, see ocrrlib.memory.notes

What the entries were chosen by, as a person's name, is not in it.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from os import PathLike
from typing import NamedTuple, Self

from ocrrlib.files import InputError
from ocrrlib.memory.heads import Head
from ocrrlib.memory.keys import Key
from ocrrlib.memory.ledger import StoredLedger
from ocrrlib.memory.location import located
from ocrrlib.memory.notes import from_base64, to_base64
from ocrrlib.memory.store import Location
from ocrrlib.memory.texts import one_line, plain
from ocrrlib.memory.tree import verify_consistency
from ocrrlib.memory.verification import inspect

TITLE = "ocrr erasure receipt v1"
_NUMBER = "(?:0|[1-9][0-9]{0,17})"
_HASH = "[A-Za-z0-9+/]{43}="
_TIME = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
_TEXT = re.compile(
    rf"{TITLE}\n"
    r"memory (?P<origin>.+)\n"
    r"by(?: (?P<by>.+))?\n"
    r"(?:reason (?P<reason>.+)\n)?"
    rf"before (?P<before>{_NUMBER} {_HASH})\n"
    rf"after (?P<after>{_NUMBER} {_HASH})\n"
    rf"(?P<path>(?:path {_HASH}\n)*)"
    rf"(?P<erased>(?:erased {_NUMBER} {_TIME} {_NUMBER}\n)+)"
)


class Refuted(InputError):
    """A receipt does not hold: it was altered, is not signed, or the memory says otherwise."""


class Erased(NamedTuple):
    """An erased entry: its place, when it was erased, and the place of the entry that tells so."""

    place: int
    time: str
    told_by: int


class Receipt(NamedTuple):
    """What was erased of a ledger, without what it held; ``str`` gives it as text.

    ``before`` and ``after`` are heads without a time, ``hashes`` prove that the second extends the
    first; ``seal`` is a head of this receipt's own text, and has the signatures.
    """

    before: Head
    after: Head
    hashes: tuple[bytes, ...]
    by: str
    reason: str
    erased: tuple[Erased, ...]
    seal: Head

    @classmethod
    def read(cls, text: "str | Receipt") -> "Receipt":
        """Read a receipt from its text; ``InputError`` if that is none."""
        if isinstance(text, Receipt):
            return text
        body, _, note = plain(text).lstrip().partition("\n\n")
        lines = [line.strip() for line in body.split("\n")]
        found = _TEXT.fullmatch("\n".join([*lines, ""]))
        try:
            seal = Head.read(note)
        except InputError:
            seal = None
        if found is None or seal is None:
            raise InputError("no receipt of an erasure: give the whole text of one")
        before, after = (_head(found["origin"], found[name]) for name in ("before", "after"))
        path = [from_base64(line.split()[1]) for line in found["path"].splitlines()]
        erased = []
        for line in found["erased"].splitlines():
            _, place, time, told_by = line.split()
            erased.append(Erased(int(place), time, int(told_by)))
        by = found["by"] or ""
        reason = found["reason"] or ""
        return cls(before, after, tuple(path), by, reason, tuple(erased), seal)

    @property
    def places(self) -> list[int]:
        """Places of the erased entries."""
        return [one.place for one in self.erased]

    @property
    def body(self) -> str:
        """The text that is sealed."""
        lines = [TITLE, f"memory {self.before.origin}", f"by {self.by}".rstrip()]
        if self.reason:
            lines.append(f"reason {self.reason}")
        for name, head in (("before", self.before), ("after", self.after)):
            lines.append(f"{name} {head.size} {to_base64(head.root)}")
        lines += [f"path {to_base64(hash)}" for hash in self.hashes]
        lines += [f"erased {place} {time} {told_by}" for place, time, told_by in self.erased]
        return "\n".join(lines) + "\n"

    def __str__(self):
        return f"{self.body}\n{self.seal}"

    def sealed(self) -> Self:
        """Return this receipt with a seal that fits, without signatures."""
        root = sha256(self.body.encode()).digest()
        seal = Head(f"receipt of {self.before.origin}", len(self.erased), root, "")
        return self._replace(seal=seal)

    def signed(self, key: Key) -> Self:
        """Return this receipt with one more signature; raises as ``Head.signed`` does."""
        return self._replace(seal=self.seal.signed(key))

    def check(
        self, keys: Iterable[Key] = (), path: str | PathLike | Location | None = None
    ) -> None:
        """Raise ``Refuted`` unless all of it holds.

        It is as it was sealed, every one of the keys has signed it, and the head after extends the
        one before. If the ``path`` of the memory is given, that extends both heads, the entries are
        erased in it, and others tell so, at these times and by that author. Without keys, anybody
        may have written it. Raises ``InputError`` if the memory cannot be used.
        """
        seal = self.sealed().seal
        if self.seal._replace(signatures=(), line="") != seal:
            raise Refuted("the receipt is not as it was sealed: ask for another one")
        try:
            self.seal.check(keys)
        except InputError as error:
            said = str(error).replace(f"the head of {self.seal.origin}", "the receipt")
            raise Refuted(said) from error
        _, size, root, *_ = self.after
        if not verify_consistency(self.before.size, self.before.root, size, root, [*self.hashes]):
            raise Refuted(
                "the receipt's head after does not extend the one before: do not trust it"
            )
        for place, _, told_by in self.erased:
            if not max(place + 1, self.before.size) <= told_by < self.after.size:
                raise Refuted(f"the receipt's heads do not tell that {place} was erased")
        if path is not None:
            inspect(located(path), partial(_check_in, self))


def _head(origin, words):
    size, root = words.split()
    return Head(origin, int(size), from_base64(root), "")


def _check_in(receipt, ledger):
    """Raise ``Refuted`` unless a ledger's file says what a receipt does."""
    for head in (receipt.before, receipt.after):
        same = head.origin == ledger.origin and head.size <= len(ledger)
        if not same or head.root != ledger.root(head.size):
            raise Refuted(
                f"{ledger.where} does not extend the receipt's head of {head.origin} with "
                f"{head.size} entries: one of them is false, or an old copy"
            )
    for place, time, told_by in receipt.erased:
        if ledger.told_by(place) != told_by:
            raise Refuted(
                f"entry {told_by} of {ledger.where} does not tell that {place} was erased"
            )
        tells = ledger.entry(told_by)
        if (_time(tells), one_line(tells["author"])) != (time, receipt.by):
            raise Refuted(f"entry {told_by} of {ledger.where} names another time or author")


def receipt(ledger: StoredLedger, places: list[int], reason: str) -> Receipt:
    """Make the receipt of erased entries by their places, sealed, without a signature.

    Raises ``InputError`` if one of them was not erased, or they were erased by several authors.
    """
    erased = []
    authors = set()
    with ledger.snapshot():
        for place in places:
            told_by = ledger.told_by(place)
            if told_by is None:
                raise InputError(f"entry {place} of {ledger.where} was not erased: forget it first")
            tells = ledger.entry(told_by)
            authors.add(one_line(tells["author"]))
            erased.append(Erased(place, _time(tells), told_by))
        if len(authors) > 1:
            names = ", ".join(sorted(authors))
            raise InputError(
                f"they were erased by {names}: ask for a receipt of each one's entries"
            )
        told = [one.told_by for one in erased]
        sizes = min(told), max(told) + 1
        before, after = (Head(ledger.origin, size, ledger.root(size), "") for size in sizes)
        path = ledger.consistency(*sizes)
    by = authors.pop()
    made = Receipt(before, after, tuple(path), by, one_line(reason), tuple(erased), before)
    return made.sealed()


def _time(entry):
    return datetime.fromtimestamp(entry["time"] // 10**6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
