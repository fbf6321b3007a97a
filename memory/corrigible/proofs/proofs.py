"""Proofs that an entry is in a ledger, as text (c2sp.org/tlog-proof).

A proof needs no file to be verified::

    c2sp.org/tlog-proof@v1
    extra <base64 of JSON: the fields of the entry, bytes as hexadecimal digits>
    index <place of the entry>
    <base64 of a hash>             the audit path, from the leaf up; none or more
    ...

    <head>                         see corrigible.proofs.heads
"""

import json
import struct
from collections.abc import Iterable

from corrigible.proofs.heads import Head
from corrigible.proofs.keys import Key
from corrigible.proofs.notes import from_base64, to_base64
from corrigible.proofs.pasted_text import plain
from corrigible.proofs.rows import Row, is_whole
from corrigible.proofs.tree import root_from_inclusion_proof
from ocrrlib.chain import entry_hash
from ocrrlib.files import InputError

PROOF = "c2sp.org/tlog-proof@v1"
BYTES = ("commitment", "previous", "salt", "x")  # fields that are hexadecimal digits
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

    Without content, the entry was erased, or whoever handed the proof on left it out. Raises
    ``InputError`` that names the fault if the proof does not hold, or if not every one of the keys
    has signed the head.
    """
    text, _, note = plain(text).lstrip().partition("\n\n")
    lines = [line.strip() for line in text.split("\n")]
    if lines[0] != PROOF or len(lines) < 3:
        raise _nothing_shown("it is not a proof of an entry")
    try:
        head = Head.read(note)
    except InputError as error:
        raise _nothing_shown("it has no head at its end") from error
    head.check(keys)
    try:
        row = _row(lines[1])
        path = [from_base64(line) for line in lines[3:]]
        root = root_from_inclusion_proof(row.hash, row.place, head.size, path)
    except _MALFORMED as error:
        raise _nothing_shown("its lines are damaged") from error
    if lines[2] != f"index {row.place}":
        raise _nothing_shown("its index is not the place of the entry")
    if not is_whole(row):
        raise _nothing_shown("the content does not fit the commitment")
    if row.place >= head.size:
        raise _nothing_shown(f"its head has {head.size} entries only")
    if root != head.root:
        raise _nothing_shown("entry, hashes and head do not fit each other")
    return row.fields(), head


def _nothing_shown(why):
    return InputError(f"the proof shows nothing, {why}: ask for another one")


def _row(line):
    """The entry in a line of a proof, with the hash that follows from its fields."""
    fields = json.loads(from_base64(line.removeprefix("extra ")))
    values = {name: fields.get(name) for name in Row._fields}
    for name in BYTES:
        if values[name] is not None:
            values[name] = bytes.fromhex(values[name])
    row = Row(**values)
    hash = entry_hash(row.place, row.time, row.commitment, row.previous)
    return row._replace(hash=hash)
