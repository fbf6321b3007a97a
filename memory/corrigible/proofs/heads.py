"""Signed heads of a ledger: its size and Merkle root at a time (c2sp.org/tlog-checkpoint).

A head is a signed note. Its text, which is what keys sign, and its signature lines::

    <origin>                       name of the ledger
    <size>                         number of entries, decimal
    <base64 of the Merkle root>    32 bytes
    time <YYYY-MM-DDThh:mm:ssZ>    an extension line, or none

    — <key name> <signature>       none or more, see corrigible.proofs.notes

ML-DSA-44 does not sign the extension line: a head that such a key is the first to sign has none,
because the signature has a time of its own (c2sp.org/tlog-checkpoint: "which SHOULD be empty").

An origin is one line of printable words, so that a head survives editors and mail.

Chain and tree prove nothing about a cut tail or a complete rewrite without a head that was kept
elsewhere.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple, Self

from corrigible.proofs.keys import ML_DSA_44, Key
from corrigible.proofs.notes import from_base64, is_signed, signature_line, to_base64
from corrigible.proofs.pasted_text import one_line, plain
from ocrrlib.files import InputError

_TEXT = re.compile(
    r"(?P<origin>.+)\n"
    r"[ \t]*(?P<size>0|[1-9][0-9]{0,18})\n"
    r"[ \t]*(?P<root>[A-Za-z0-9+/]{43}=)"
    r"(\n[ \t]*time (?P<time>\S+))?"
    r"(\n(?P<signatures>(\n[ \t]*— \S+ \S+)+))?"
)


class Head(NamedTuple):
    """Size and Merkle root of a ledger at a time; ``str`` gives it as a signed note."""

    origin: str
    size: int
    root: bytes
    time: str  # empty without that line
    signatures: tuple[str, ...] = ()  # lines

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
        signatures = [line.strip() for line in (found["signatures"] or "").split("\n")[1:]]
        return cls(
            one_line(found["origin"]),
            int(found["size"]),
            from_base64(found["root"]),
            found["time"] or "",
            tuple(signatures),
        )

    @property
    def body(self) -> str:
        """The text that is signed."""
        lines = [self.origin, str(self.size), to_base64(self.root)]
        if self.time:
            lines.append(f"time {self.time}")
        return "\n".join(lines) + "\n"

    def __str__(self):
        lines = "".join(f"{line}\n" for line in self.signatures)
        return f"{self.body}\n{lines}"

    def signed(self, key: Key) -> Self:
        """Return this head with one more signature.

        Raises ``InputError`` if the key is a verifier's, or cannot sign an origin that long.
        """
        head = self
        if key.kind == ML_DSA_44 and not self.signatures:
            head = self._replace(time="")  # nobody would have signed it
        now = int(datetime.now(UTC).timestamp())
        line = signature_line(head.body, key, now)
        return head._replace(signatures=(*head.signatures, line))

    def check(self, keys: Iterable[Key]):
        """Raise ``InputError`` unless every one of the keys has signed this head."""
        keys = tuple(keys)
        if not all(isinstance(key, Key) for key in keys):
            raise InputError("not all keys are keys: give a list of what Key.read returns")
        for key in keys:
            if not is_signed(self.body, self.signatures, key):
                raise InputError(
                    f"the head of {self.origin} is not signed by {key.name}: do not trust it"
                )
        if self.time and keys and all(key.kind == ML_DSA_44 for key in keys):
            raise InputError(
                f"the time of the head of {self.origin} is not signed by any of these keys: give "
                "the Ed25519 key that signed it, too"
            )
