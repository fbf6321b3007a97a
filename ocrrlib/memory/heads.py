"""Signed heads of a ledger: size and Merkle root at a time (c2sp.org/tlog-checkpoint, signed-note, tlog-cosignature).

Chain and tree prove nothing about a cut tail or a complete rewrite without a head that was kept
elsewhere.
"""

import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ocrrlib.files import InputError
from ocrrlib.memory.keys import SIGNATURE, b64, unb64


class Head(NamedTuple):
    """Size and Merkle root of a ledger at a time; as text, a C2SP checkpoint, with its signatures."""

    origin: str
    size: int
    root: bytes
    time: str
    signatures: tuple = ()  # lines

    @classmethod
    def read(cls, text):
        """A head from its text; ``InputError`` if that is none."""
        lines = r"(.+)\n(0|[1-9][0-9]{0,18})\n([A-Za-z0-9+/]{43}=)\ntime (\S+)(\n(\n— \S+ \S+)+)?"
        if not (found := re.fullmatch(lines, str(text).strip())):
            raise InputError(
                "no head: give the text of one, with its lines of origin, size, root, time and signatures"
            )
        return cls(
            found[1],
            int(found[2]),
            unb64(found[3]),
            found[4],
            tuple((found[5] or "").splitlines()[2:]),
        )

    @property
    def body(self):
        return f"{self.origin}\n{self.size}\n{b64(self.root)}\ntime {self.time}\n"

    def __str__(self):
        return self.body + "\n" + "".join(f"{line}\n" for line in self.signatures)

    def _message(self, stamp):
        """What is signed: the body, in a cosignature under its own time, ``stamp``."""
        return (
            f"cosignature/v1\ntime {int.from_bytes(stamp)}\n" if stamp else ""
        ).encode() + self.body.encode()

    def signed(self, key):
        """This head with one more signature."""
        if not key.private:
            raise InputError(
                f"the key {key.name} is a verifier's: give the one that begins with PRIVATE+KEY"
            )
        stamp = b"" if key.kind == SIGNATURE else int(datetime.now(UTC).timestamp()).to_bytes(8)
        signature = Ed25519PrivateKey.from_private_bytes(key.private).sign(self._message(stamp))
        return self._replace(
            signatures=(*self.signatures, f"— {key.name} {b64(key.id + stamp + signature)}")
        )

    def check(self, keys):
        """Raise ``InputError`` unless every one of the keys has signed this head."""
        for key in keys:
            public = Ed25519PublicKey.from_public_bytes(key.public)
            for line in self.signatures:
                with suppress(InvalidSignature, ValueError):
                    content = unb64(line.removeprefix(f"— {key.name} "))
                    if content[:4] == key.id:
                        public.verify(content[-64:], self._message(content[4:-64]))
                        break
            else:
                raise InputError(
                    f"the head of {self.origin} is not signed by {key.name}: do not trust it"
                )
