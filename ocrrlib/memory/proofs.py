"""Proofs that an entry is in a ledger, as text (c2sp.org/tlog-proof).

A proof needs no file to be verified::

    c2sp.org/tlog-proof@v1
    extra <base64 of JSON: the fields of the entry, bytes as hexadecimal digits>
    index <place of the entry>
    <base64 of a hash>             the audit path, from the leaf up; none or more
    ...

    <head>                         see ocrrlib.memory.heads
"""

import json
import struct
from collections.abc import Iterable

from ocrrlib.chain import commitment, entry_hash
from ocrrlib.files import InputError
from ocrrlib.memory.heads import Head
from ocrrlib.memory.keys import Key
from ocrrlib.memory.notes import from_base64, to_base64
from ocrrlib.memory.texts import plain
from ocrrlib.memory.tree import root_from_inclusion_proof

PROOF = "c2sp.org/tlog-proof@v1"
LINK = ("place", "time", "commitment", "previous")
CONTENT = ("salt", "x", "label", "author", "text")
# What values of the wrong number, name or type raise
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error)


def proof_text(entry: dict, path: list[bytes], head: Head) -> str:
    """Return the proof that an entry, by its fields, is under a head, by its audit path."""
    extra = to_base64(json.dumps(entry).encode())
    lines = [PROOF, f"extra {extra}", f"index {entry['place']}"]
    lines += [to_base64(hash) for hash in path]
    return "\n".join([*lines, "", str(head)])


def is_proof(start: str) -> bool:
    """Whether a text that starts so is to be a proof."""
    return plain(start).lstrip().startswith(PROOF)


def proven(text: str, keys: Iterable[Key] = ()) -> tuple[dict, Head]:
    """Verify a proof: the fields of the entry, and the head under which it is.

    The content of an entry that was erased is missing. Raises ``InputError`` that names the fault
    if the proof does not hold, or if not every one of the keys has signed the head.
    """
    text, _, note = plain(text).lstrip().partition("\n\n")
    head = Head.read(note)
    head.check(keys)
    lines = [line.strip() for line in text.split("\n")]
    if lines[:1] != [PROOF] or len(lines) < 3:
        raise _nothing_shown("it is not a proof of an entry")
    try:
        entry = _proven_fields(lines[1])
        path = [from_base64(line) for line in lines[3:]]
        hash = _hash_of(entry)
        root = root_from_inclusion_proof(hash, entry["place"], head.size, path)
    except _MALFORMED as error:
        raise _nothing_shown("its lines are damaged") from error
    if lines[2] != f"index {entry['place']}":
        raise _nothing_shown("its index is not the place of the entry")
    if not _content_fits(entry):
        raise _nothing_shown("the content does not fit the commitment")
    if entry["place"] >= head.size:
        raise _nothing_shown(f"its head has {head.size} entries only")
    if root != head.root:
        raise _nothing_shown("entry, hashes and head do not fit each other")
    return entry | {"hash": hash.hex()}, head


def _nothing_shown(why):
    return InputError(f"the proof shows nothing, {why}: ask for another one")


def _proven_fields(line):
    """Fields of the entry that a proof can prove: its link, and its content unless erased."""
    entry = json.loads(from_base64(line.removeprefix("extra ")))
    fields = {name: entry[name] for name in LINK}
    if "salt" in entry:
        fields |= {name: entry[name] for name in CONTENT if name in entry}
    return fields


def _hash_of(entry):
    committed = bytes.fromhex(entry["commitment"])
    previous = bytes.fromhex(entry["previous"])
    return entry_hash(entry["place"], entry["time"], committed, previous)


def _content_fits(entry):
    """Whether the content is erased, or the one that the entry commits to."""
    if "salt" not in entry:
        return True
    try:
        salt = bytes.fromhex(entry["salt"])
        x = bytes.fromhex(entry["x"])
        label = entry["label"]
        author = entry["author"]
        if "\0" in label or "\0" in author:  # the commitment would not tell where they end
            return False
        committed = commitment(salt, x, label, author, entry.get("text"))
    except _MALFORMED:
        return False
    return committed == bytes.fromhex(entry["commitment"])
