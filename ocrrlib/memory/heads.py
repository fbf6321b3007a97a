"""Signed heads of a ledger: its size and Merkle root at a time (c2sp.org/tlog-checkpoint).

A head is a signed note. Its text, which is what keys sign, and its signature lines::

    <origin>                       name of the ledger
    <size>                         number of entries, decimal
    <base64 of the Merkle root>    32 bytes
    time <YYYY-MM-DDThh:mm:ssZ>    an extension line

    — <key name> <signature>       none or more, see ocrrlib.memory.notes

An origin is one line of printable words, so that a head survives editors and mail. Older files may
have another one, and older heads of these say it as it is.

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
from ocrrlib.memory.texts import one_line, plain

_TEXT = re.compile(
    r"(?P<line>.+)\n"
    r"[ \t]*(?P<size>0|[1-9][0-9]{0,18})\n"
    r"[ \t]*(?P<root>[A-Za-z0-9+/]{43}=)\n"
    r"[ \t]*time (?P<time>\S+)"
    r"(\n(?P<signatures>(\n[ \t]*— \S+ \S+)+))?"
)


class Head(NamedTuple):
    """Size and Merkle root of a ledger at a time; ``str`` gives it as a signed note."""

    origin: str
    size: int
    root: bytes
    time: str
    signatures: tuple[str, ...] = ()  # lines
    line: str = ""  # the first one, if it is not the origin as ``one_line`` gives it

    @classmethod
    def read(cls, text: "str | Head") -> "Head":
        """Read a head from its text; ``InputError`` if that is none."""
        if isinstance(text, Head):
            return text
        found = _TEXT.fullmatch(plain(text))
        if found is None:
            raise InputError(
                "no head: give the text of one, with its lines of origin, size, root, time "
                "and signatures"
            )
        line = found["line"]
        signatures = [line.strip() for line in (found["signatures"] or "").split("\n")[1:]]
        head = cls(
            one_line(line),
            int(found["size"]),
            from_base64(found["root"]),
            found["time"],
            tuple(signatures),
        )
        return head if line == head.origin else head._replace(line=line)

    @property
    def body(self) -> str:
        """The text that is signed."""
        line = self.line or self.origin
        return f"{line}\n{self.size}\n{to_base64(self.root)}\ntime {self.time}\n"

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
        keys = tuple(keys)
        if not all(isinstance(key, Key) for key in keys):
            raise InputError("not all keys are keys: give a list of what Key.read returns")
        # Blanks in the first line are the writer's, or somebody added them.
        bodies = {self.body, self._replace(line="").body}
        for key in keys:
            if not any(is_signed(body, self.signatures, key) for body in bodies):
                raise InputError(
                    f"the head of {self.origin} is not signed by {key.name}: do not trust it"
                )
