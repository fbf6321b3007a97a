"""Proofs of inclusion and requests to a witness, as text (c2sp.org/tlog-proof, tlog-witness)."""

import json
import struct
from contextlib import suppress
from pathlib import Path

from ocrrlib.chain import Fault, commitment, entry_hash
from ocrrlib.files import InputError, write_text
from ocrrlib.memory.heads import Head
from ocrrlib.memory.keys import b64, unb64
from ocrrlib.memory.tree import extends, root_of

PROOF = "c2sp.org/tlog-proof@v1"
WORDS = "label", "author", "text"


def proof(entry, path, head):
    """Text of a proof of inclusion (C2SP tlog-proof), with the fields of an entry, bytes in hexadecimal digits."""
    extra = b64(json.dumps(entry).encode())
    return "\n".join(
        [PROOF, f"extra {extra}", f"index {entry['place']}", *map(b64, path), "", str(head)]
    )


def proven(text, keys=()):
    """The fields of an entry and the head that a proof of inclusion shows to belong together.

    Raises ``InputError`` if it shows nothing, or if not every one of the keys has signed the head.
    """
    lines, _, head = text.partition("\n\n")
    (head := Head.read(head)).check(keys)
    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error):
        tag, extra, index, *path = lines.splitlines()
        entry = json.loads(unb64(extra.removeprefix("extra ")))
        names = (
            "place",
            "time",
            "commitment",
            "previous",
            *(("salt", "x", *WORDS) if "salt" in entry else ()),
        )
        entry = {name: entry[name] for name in names if name in entry}  # all else is not proven
        committed, previous, *content = (
            bytes.fromhex(entry[name]) for name in names[2:6] if name in entry
        )
        fits = not content or commitment(*content, *map(entry.get, WORDS)) == committed
        hash = entry_hash(entry["place"], entry["time"], committed, previous)
        fits &= head.root == root_of(hash, entry["place"], head.size, list(map(unb64, path)))
        if fits and (tag, index) == (PROOF, f"index {entry['place']}"):
            return entry | {"hash": hash.hex()}, head
    raise InputError("the proof shows nothing: entry, hashes and head do not fit each other")


def request(old, path, head):
    """Text that asks a witness to cosign a head that extends one of size ``old``, with proof (C2SP tlog-witness)."""
    return "\n".join([f"old {old}", *map(b64, path), "", str(head)])


def witness(text, state, key, keys=()):
    """Cosign a head that extends the last one seen, which the file ``state`` holds, and note it there.

    Without that file the head is the first one seen. Returns it with a cosignature by ``key``, or a
    ``Fault`` if it contradicts the last one. Raises ``InputError`` if the request is about another
    one, or not signed by ``keys``.
    """
    lines, _, head = text.partition("\n\n")
    (head := Head.read(head)).check(keys)
    if Path(state).exists():
        last, (old, *path) = Head.read(Path(state).read_text("utf-8")), lines.splitlines() or [""]
        if (last.origin, f"old {last.size}") != (head.origin, old) or last.size > head.size:
            raise InputError(
                f"the last head seen is of {last.origin} with {last.size} entries: prove from that one on"
            )
        if not extends(last, head, list(map(unb64, path))):
            return Fault(last.size, "forked")
    write_text(state, str(head))
    return head.signed(key)
