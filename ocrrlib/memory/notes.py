"""Signature lines of a signed note (c2sp.org/signed-note, c2sp.org/tlog-cosignature).

A note is a text whose lines all end, an empty line, and signature lines::

    — <key name> <base64 of key id (4 bytes), signature (64 bytes)>
    — <key name> <base64 of key id (4 bytes), time (8 bytes, big-endian), signature (64 bytes)>

A key of kind SIGNATURE signs the text. One of kind COSIGNATURE writes the second form, and signs::

    cosignature/v1
    time <seconds since 1970, UTC>
    <the text>
"""

import base64
from collections.abc import Iterable

from ocrrlib.files import InputError
from ocrrlib.memory.keys import COSIGNATURE, Key

# Bytes in a signature line
ID_SIZE = 4
TIME_SIZE = 8
SIGNATURE_SIZE = 64


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

    Raises ``InputError`` if the key is a verifier's.
    """
    stamp = b""
    if key.kind == COSIGNATURE:
        stamp = now.to_bytes(TIME_SIZE)
    signature = key.sign(_message(text, stamp))
    return f"— {key.name} {to_base64(key.id + stamp + signature)}"


def is_signed(text: str, lines: Iterable[str], key: Key) -> bool:
    """Whether one of the signature lines shows that ``key`` signed a note's text."""
    start = f"— {key.name} "
    stamp_end = ID_SIZE
    if key.kind == COSIGNATURE:
        stamp_end += TIME_SIZE
    for line in lines:
        if not line.startswith(start):
            continue
        try:
            content = from_base64(line.removeprefix(start))
        except InputError:
            continue
        if content[:ID_SIZE] != key.id or len(content) != stamp_end + SIGNATURE_SIZE:
            continue
        message = _message(text, content[ID_SIZE:stamp_end])
        if key.verify(message, content[stamp_end:]):
            return True
    return False


def _message(text, stamp):
    """The signed bytes; ``stamp`` is the time of a cosignature, empty in a signature."""
    if not stamp:
        return text.encode()
    return f"cosignature/v1\ntime {int.from_bytes(stamp)}\n{text}".encode()
