"""Ed25519 keys with names, as text (c2sp.org/signed-note, "Signatures" and "vkey").

::

    verifier's key   <name>+<id, 8 hexadecimal digits>+<base64 of kind (1 byte) and public key>
    signer's key     PRIVATE+KEY+<name>+<id>+<base64 of kind and private key>
    id               first 4 bytes of SHA-256(<name> "\\n" <kind> <public key>)
"""

import base64
import re
import secrets
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ocrrlib.files import InputError
from ocrrlib.memory.texts import plain

# Kinds of keys in signed notes
SIGNATURE = 1  # signs the note's text
COSIGNATURE = 4  # signs it with a time: a witness's key

PRIVATE = "PRIVATE+KEY+"


class Key(NamedTuple):
    """An Ed25519 key with a name; ``private`` is empty in a verifier's key."""

    name: str
    kind: int  # SIGNATURE or COSIGNATURE
    public: bytes
    private: bytes = b""

    @classmethod
    def new(cls, name: str, kind: int = SIGNATURE, seed: bytes | None = None) -> Self:
        """Make a signer's key, at random unless from a ``seed`` of 32 bytes.

        Raises ``InputError`` if the name is empty, or has a space, a plus or an unprintable letter.
        """
        if not re.fullmatch(r"[^\s+]+", name) or not name.isprintable():
            raise InputError(f"{name!r} is no name of a key: use printable letters, no spaces or +")
        private = seed or secrets.token_bytes(32)
        public = Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
        return cls(name, kind, public, private)

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a key from its text; ``InputError`` if that is none."""
        text = plain(text).strip()
        with suppress(ValueError, IndexError):
            name, id, encoded = text.removeprefix(PRIVATE).split("+", 2)
            content = base64.b64decode(encoded, validate=True)
            kind = content[0]
            if text.startswith(PRIVATE):
                key = cls.new(name, kind, content[1:])
            else:
                key = cls(name, kind, content[1:])
            if kind in (SIGNATURE, COSIGNATURE) and len(key.public) == 32 and key.id.hex() == id:
                return key
        raise InputError(
            "no Ed25519 key: give name+hash+key, or PRIVATE+KEY+name+hash+key, "
            "as in C2SP's signed notes"
        )

    @property
    def id(self) -> bytes:
        """Four bytes that name the key in signatures."""
        return sha256(self.name.encode() + b"\n" + bytes([self.kind]) + self.public).digest()[:4]

    @property
    def public_text(self) -> str:
        """The verifier's key as text, to be given away."""
        return self._text(self.public)

    @property
    def private_text(self) -> str:
        """The signer's key as text, to be kept secret."""
        return PRIVATE + self._text(self.private)

    def _text(self, material):
        encoded = base64.b64encode(bytes([self.kind]) + material).decode()
        return f"{self.name}+{self.id.hex()}+{encoded}"

    def sign(self, message: bytes) -> bytes:
        """Return the signature (64 bytes); ``InputError`` if this is a verifier's key."""
        if not self.private:
            raise InputError(
                f"the key {self.name} is a verifier's: give the one that begins with PRIVATE+KEY"
            )
        return Ed25519PrivateKey.from_private_bytes(self.private).sign(message)

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Whether this key signed a message."""
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except InvalidSignature:
            return False
        return True
