"""Witnesses: they cosign a head only if it extends the last one seen (c2sp.org/tlog-witness).

A request, which the witness answers with a cosignature::

    old <size of the last head that the witness saw>
    <base64 of a hash>             the consistency proof; none or more
    ...

    <head>                         the new one, see ocrrlib.memory.heads

The witness's state is a file with the last head that it cosigned.
"""

from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from ocrrlib.chain import Fault
from ocrrlib.files import InputError, write_text
from ocrrlib.memory.heads import Head
from ocrrlib.memory.keys import Key
from ocrrlib.memory.notes import from_base64, to_base64
from ocrrlib.memory.tree import verify_consistency


def request(old: int, path: list[bytes], head: Head | str) -> str:
    """Return the text that asks to cosign a head, by its proof to extend one of size ``old``."""
    lines = [f"old {old}", *(to_base64(hash) for hash in path)]
    return "\n".join([*lines, "", str(head)])


def witness(text: str, state: str | PathLike, key: Key, keys: Iterable[Key] = ()) -> Head | Fault:
    """Cosign a head that extends the last one seen, which the file ``state`` holds, and note it.

    Without that file the head is the first one seen. Returns it with a cosignature by ``key``, or a
    ``Fault`` if it contradicts the last one. Raises ``InputError`` if the request starts from
    another head than the last one, is about another ledger, or is not signed by ``keys``.
    """
    lines, _, note = text.partition("\n\n")
    head = Head.read(note)
    head.check(keys)
    if Path(state).exists():
        last = Head.read(Path(state).read_text("utf-8"))
        old, *path = lines.splitlines() or [""]
        same = head.origin == last.origin and old == f"old {last.size}"
        if not same or head.size < last.size:
            raise InputError(
                f"the last head seen is of {last.origin} with {last.size} entries: "
                "prove from that one on"
            )
        hashes = [from_base64(line) for line in path]
        if not verify_consistency(last.size, last.root, head.size, head.root, hashes):
            return Fault(last.size, "forked")
    write_text(state, str(head))
    return head.signed(key)
