"""Signed heads of a ledger: its size and Merkle root at a time (c2sp.org/tlog-checkpoint).

A head is a signed note. Its text, which is what keys sign, and its signature lines::

    <origin>                       name of the ledger
    <size>                         number of entries, decimal
    <base64 of the Merkle root>    32 bytes
    time <YYYY-MM-DDThh:mm:ssZ>    an extension line

    — <key name> <signature>       none or more, see ocrrlib.memory.notes

Chain and tree prove nothing about a cut tail or a complete rewrite without a head that was kept
elsewhere.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple, Self

from ocrrlib.files import InputError
from ocrrlib.memory.keys import Key
from ocrrlib.memory.notes import from_base64, is_signed, signature_line, to_base64

_TEXT = re.compile(
    r"(?P<origin>.+)\n"
    r"(?P<size>0|[1-9][0-9]{0,18})\n"
    r"(?P<root>[A-Za-z0-9+/]{43}=)\n"
    r"time (?P<time>\S+)"
    r"(\n(?P<signatures>(\n— \S+ \S+)+))?"
)


class Head(NamedTuple):
    """Size and Merkle root of a ledger at a time; ``str`` gives it as a signed note."""

    origin: str
    size: int
    root: bytes
    time: str
    signatures: tuple[str, ...] = ()  # lines

    @classmethod
    def read(cls, text: "str | Head") -> Self:
        """Read a head from its text; ``InputError`` if that is none."""
        found = _TEXT.fullmatch(str(text).strip())
        if found is None:
            raise InputError(
                "no head: give the text of one, with its lines of origin, size, root, time "
                "and signatures"
            )
        root = from_base64(found["root"])
        signatures = (found["signatures"] or "").split("\n")[1:]
        return cls(found["origin"], int(found["size"]), root, found["time"], tuple(signatures))

    @property
    def body(self) -> str:
        """The text that is signed."""
        return f"{self.origin}\n{self.size}\n{to_base64(self.root)}\ntime {self.time}\n"

    def __str__(self):
        lines = "".join(f"{line}\n" for line in self.signatures)
        return f"{self.body}\n{lines}"

    def signed(self, key: Key) -> Self:
        """Return this head with one more signature; ``InputError`` if the key is a verifier's."""
        now = int(datetime.now(UTC).timestamp())
        line = signature_line(self.body, key, now)
        return self._replace(signatures=(*self.signatures, line))

    def check(self, keys: Iterable[Key]):
        """Raise ``InputError`` unless every one of the keys has signed this head."""
        for key in keys:
            if not is_signed(self.body, self.signatures, key):
                raise InputError(
                    f"the head of {self.origin} is not signed by {key.name}: do not trust it"
                )
