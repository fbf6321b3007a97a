"""Signature lines of a signed note (c2sp.org/signed-note, c2sp.org/tlog-cosignature).

A note is a text whose lines all end, an empty line, and signature lines::

    — <key name> <base64 of key id (4 bytes), signature (64 bytes)>
    — <key name> <base64 of key id (4 bytes), time (8 bytes, big-endian), signature (64 or 2,420)>

A key of kind SIGNATURE signs the text. The other kinds write the second form. COSIGNATURE signs::

    cosignature/v1
    time <seconds since 1970, UTC>
    <the text>

ML_DSA_44 signs what the first three lines of a head say, and no other line (there, "ML-DSA-44
signed message"); numbers have 8 bytes, big-endian, and words come after their length, a byte::

    "subtree/v1\\n\\0" <key name> <time> <origin> <0, the first entry> <size> <root>
"""

import base64
from collections.abc import Iterable

from corrigible.proofs.keys import COSIGNATURE, LONGEST_WORD, ML_DSA_44, SIGNATURE, Key
from ocrrlib.files import InputError

# Bytes in a signature line
ID_SIZE = 4
TIME_SIZE = 8
SIGNATURE_SIZE = {SIGNATURE: 64, COSIGNATURE: 64, ML_DSA_44: 2420}

SUBTREE = b"subtree/v1\n\0"


def to_base64(content: bytes) -> str:
    """Return bytes as text."""
    return base64.b64encode(content).decode()


def from_base64(text: str) -> bytes:
    """Return bytes from their text; ``InputError`` if that is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise InputError(f"{text!r} is not in base64: give the whole text") from error


def signature_line(text: str, key: Key, now: int) -> str:
    """Sign a note's text; ``now`` is the time of a cosignature, in seconds since 1970.

    Raises ``InputError`` if the key is a verifier's, or the origin is too long for it.
    """
    stamp = b""
    if key.kind != SIGNATURE:
        stamp = now.to_bytes(TIME_SIZE)
    signature = key.sign(_message(text, key, stamp))
    return f"— {key.name} {to_base64(key.id + stamp + signature)}"


def is_signed(text: str, lines: Iterable[str], key: Key) -> bool:
    """Whether one of the signature lines shows that ``key`` signed a note's text."""
    start = f"— {key.name} "
    stamp_end = ID_SIZE
    if key.kind != SIGNATURE:
        stamp_end += TIME_SIZE
    whole = stamp_end + SIGNATURE_SIZE[key.kind]
    for line in lines:
        if not line.startswith(start):
            continue
        try:
            content = from_base64(line.removeprefix(start))
            if content[:ID_SIZE] != key.id or len(content) != whole:
                continue
            message = _message(text, key, content[ID_SIZE:stamp_end])
        except InputError:  # not base64, or an origin that this kind of key cannot sign
            continue
        if key.verify(message, content[stamp_end:]):
            return True
    return False


def _message(text, key, stamp):
    """The signed bytes; ``stamp`` is the time of a cosignature, empty in a signature."""
    if key.kind == SIGNATURE:
        return text.encode()
    if key.kind == COSIGNATURE:
        return f"cosignature/v1\ntime {int.from_bytes(stamp)}\n{text}".encode()
    origin, size, root = text.split("\n")[:3]
    start = bytes(8)
    end = int(size).to_bytes(8)
    return SUBTREE + _sized(key.name) + stamp + _sized(origin) + start + end + from_base64(root)


def _sized(word):
    """The bytes of a word after their number; ``InputError`` if that has more than one byte."""
    content = word.encode()
    if len(content) > LONGEST_WORD:
        raise InputError(
            f"{word} is too long for a signature by ML-DSA-44: sign by Ed25519, or use a "
            "shorter file name"
        )
    return bytes([len(content)]) + content
