"""Ed25519 and ML-DSA-44 keys with names, as text (c2sp.org/signed-note, "Signatures" and "vkey").

::

    verifier's key   <name>+<id, 8 hexadecimal digits>+<base64 of kind (1 byte) and public key>
    signer's key     PRIVATE+KEY+<name>+<id>+<base64 of kind and seed (32 bytes)>
    id               first 4 bytes of SHA-256(<name> "\\n" <kind> <public key>)

ML-DSA-44 (FIPS 204) is to hold against quantum computers, too. Its kind and the id of its keys are
those of c2sp.org/tlog-cosignature, which wants it in new deployments. How its signer's key is
written is not specified there: here it is as one of Ed25519, as in the Go module
github.com/transparency-dev/formats.
"""

import base64
import re
import secrets
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey, MLDSA44PublicKey

from corrigible.proofs.pasted_text import plain
from ocrrlib.files import InputError

# Kinds of keys in signed notes
SIGNATURE = 1  # signs the note's text
COSIGNATURE = 4  # signs it with a time: a witness's key
ML_DSA_44 = 6  # signs origin, size and root with a time: a ledger's key or a witness's

PUBLIC_SIZE = {SIGNATURE: 32, COSIGNATURE: 32, ML_DSA_44: 1312}  # bytes
LONGEST_WORD = 255  # bytes of a name or an origin that ML-DSA-44 signs

PRIVATE = "PRIVATE+KEY+"


class Key(NamedTuple):
    """A key with a name; ``private`` is empty in a verifier's key."""

    name: str
    kind: int  # SIGNATURE, COSIGNATURE or ML_DSA_44
    public: bytes
    private: bytes = b""

    @classmethod
    def new(cls, name: str, kind: int = SIGNATURE, seed: bytes | None = None) -> Self:
        """Make a signer's key, at random unless from a ``seed`` of 32 bytes.

        Raises ``InputError`` if there is no such kind, or if the name is empty, has a space, a plus
        or an unprintable letter, or is too long for its kind.
        """
        if not re.fullmatch(r"[^\s+]+", name) or not name.isprintable():
            raise InputError(f"{name!r} is no name of a key: use printable letters, no spaces or +")
        if kind not in PUBLIC_SIZE:
            raise InputError(f"{kind!r} is no kind of key: give one of {[*PUBLIC_SIZE]}")
        if not _fits(name, kind):
            raise InputError(f"the name {name} is too long: use {LONGEST_WORD} bytes at most")
        private = seed or secrets.token_bytes(32)
        public = _signer(kind, private).public_key().public_bytes_raw()
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
            whole = len(key.public) == PUBLIC_SIZE.get(kind) and key.id.hex() == id
            if whole and _fits(name, kind):
                return key
        raise InputError(
            "no Ed25519 key and none of ML-DSA-44: give name+hash+key, or "
            "PRIVATE+KEY+name+hash+key, as in C2SP's signed notes"
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
        """Return the signature, 64 bytes of Ed25519 or 2,420 of ML-DSA-44.

        Raises ``InputError`` if this is a verifier's key.
        """
        if not self.private:
            raise InputError(
                f"the key {self.name} is a verifier's: give the one that begins with PRIVATE+KEY"
            )
        return _signer(self.kind, self.private).sign(message)

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Whether this key signed a message."""
        try:
            _verifier(self.kind, self.public).verify(signature, message)
        except InvalidSignature:
            return False
        return True


def _fits(name, kind):
    return kind != ML_DSA_44 or len(name.encode()) <= LONGEST_WORD


def _signer(kind, seed):
    if kind == ML_DSA_44:
        return MLDSA44PrivateKey.from_seed_bytes(seed)
    return Ed25519PrivateKey.from_private_bytes(seed)


def _verifier(kind, public):
    if kind == ML_DSA_44:
        return MLDSA44PublicKey.from_public_bytes(public)
    return Ed25519PublicKey.from_public_bytes(public)
