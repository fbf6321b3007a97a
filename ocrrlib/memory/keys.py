"""Ed25519 keys as C2SP's signed notes write them (c2sp.org/signed-note)."""

import base64
import re
import secrets
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ocrrlib.files import InputError

SIGNATURE, COSIGNATURE = 1, 4  # types of keys in C2SP's signed notes


def b64(content):
    return base64.b64encode(content).decode()


def unb64(text):
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise InputError(f"{text!r} is not in base64: give the whole text") from error


class Key(NamedTuple):
    """An Ed25519 key with a name; ``private`` is empty in a verifier's."""

    name: str
    kind: int  # SIGNATURE or COSIGNATURE
    public: bytes
    private: bytes = b""

    @classmethod
    def new(cls, name, kind=SIGNATURE, seed=None):
        if not re.fullmatch(r"[^\s+]+", name):
            raise InputError(f"{name!r} is no name of a key: leave out spaces and +")
        seed = seed or secrets.token_bytes(32)
        return cls(
            name,
            kind,
            Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw(),
            seed,
        )

    @classmethod
    def read(cls, text):
        """A key from its text; ``InputError`` if that is none."""
        with suppress(ValueError, IndexError):
            name, id, content = text.strip().removeprefix("PRIVATE+KEY+").split("+", 2)
            kind, material = (content := unb64(content))[0], content[1:]
            key = (
                cls.new(name, kind, material)
                if text.startswith("PRIVATE")
                else cls(name, kind, material)
            )
            if kind in (SIGNATURE, COSIGNATURE) and len(key.public) == 32 and key.id.hex() == id:
                return key
        raise InputError(
            "no Ed25519 key: give name+hash+key, or PRIVATE+KEY+name+hash+key, as in C2SP's signed notes"
        )

    @property
    def id(self):
        return sha256(self.name.encode() + b"\n" + bytes([self.kind]) + self.public).digest()[:4]

    @property
    def public_text(self):
        """The verifier's key as text, to be given away."""
        return f"{self.name}+{self.id.hex()}+{b64(bytes([self.kind]) + self.public)}"

    @property
    def private_text(self):
        """The signer's key as text, to be kept secret."""
        return f"PRIVATE+KEY+{self.name}+{self.id.hex()}+{b64(bytes([self.kind]) + self.private)}"
