"""Witnesses: they cosign a head only if it extends the last one seen (c2sp.org/tlog-witness).

A request, which the witness answers with a cosignature::

    old <size of the last head that the witness saw>
    <base64 of a hash>             the consistency proof; none or more
    ...

    <head>                         the new one, see corrigible.proofs.heads

The witness's state is a file with the last head that it cosigned, and as last line::

    — sha256 <base64 of the hash of the signed text>

Whoever reads or writes it holds a lock on the file ``<state>.lock``.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from os import PathLike
from pathlib import Path

from filelock import FileLock, Timeout

from corrigible.proofs.heads import Head
from corrigible.proofs.keys import Key
from corrigible.proofs.notes import from_base64, to_base64
from corrigible.proofs.pasted_text import plain, read_file
from corrigible.proofs.tree import HASH, verify_consistency
from ocrrlib.chain import Fault
from ocrrlib.files import InputError, write_text

LOCK_TIMEOUT = 60  # seconds to wait for another witness of the same state

CHECKSUM = "— sha256 "


def request(old: int, path: list[bytes], head: Head | str) -> str:
    """Return the text that asks to cosign a head, by its proof to extend one of size ``old``."""
    lines = [f"old {old}", *(to_base64(hash) for hash in path)]
    return "\n".join([*lines, "", str(head)])


def witness(text: str, state: str | PathLike, key: Key, keys: Iterable[Key] = ()) -> Head | Fault:
    """Cosign a head that extends the last one seen, which the file ``state`` holds, and note it.

    Without that file the head is the first one seen. Threads and processes with one state take
    turns. Returns the head with a cosignature by ``key``, or a ``Fault`` if it contradicts the last
    one: it has the same size and another root. Raises ``InputError`` if the proof does not fit,
    which may be damage, if the request starts from another head than the last one, is about another
    ledger, or is not signed by all ``keys``, if ``key`` is a verifier's or cannot sign such a head,
    or if the state cannot be read or written.
    """
    text, _, note = plain(text).lstrip().partition("\n\n")
    head = Head.read(note)
    head.check(keys)
    head.signed(key)  # refuses a key that cannot sign before the state changes
    with _locked(Path(state)) as file:
        last = _last_seen(Path(state))
        if last is not None:
            if (head.origin, head.size) == (last.origin, last.size) and head.root != last.root:
                return Fault(last.size, "forked")  # from whichever head the proof starts
            _check_extends(head, last, text)
        write_text(file, f"{head}{_checksum(head)}\n")
    return head.signed(key)  # only now: whoever is asked next sees this head in the state


@contextmanager
def _locked(state: Path) -> Iterator[str]:
    """Keep other threads and processes from the state; the system unlocks for a killed one.

    Yields the path without symbolic links, which is the same for all that name this file.
    """
    file = os.path.realpath(state)
    # A soft lock would outlive a killed process.
    lock = FileLock(f"{file}.lock", LOCK_TIMEOUT, poll_interval=0.01, fallback_to_soft=False)
    try:
        state.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise InputError(
            f"another program keeps {file}.lock locked: end it, or try again later"
        ) from error
    except OSError as error:
        raise InputError(
            f"cannot lock {file} ({error.strerror}): choose a file in a folder that can be written"
        ) from error
    try:
        yield file
    finally:
        lock.release()


def _last_seen(state):
    """The head in a witness's state, or None if there is no such file."""
    if not os.path.lexists(state):  # a link that leads nowhere is not a first head
        return None
    text = read_file(state)
    if os.stat(state).st_nlink > 1:
        raise InputError(
            f"{state} has a second name by a hard link, which would keep an older head: remove one"
        )
    whole = text.endswith("\n")
    try:
        last = Head.read(text)
    except InputError:
        whole = False
    # A head that was put there as the first one seen has no checksum.
    if whole and last.signatures and last.signatures[-1].startswith(CHECKSUM):
        whole = last.signatures[-1] == _checksum(last)
    if not whole:
        raise InputError(
            f"the state {state} is damaged: restore the newest copy, or put the last head there "
            "that this witness cosigned"
        )
    return last


def _checksum(head):
    return CHECKSUM + to_base64(sha256(head.body.encode()).digest())


def _check_extends(head, last, text):
    """Raise ``InputError`` unless the request's text proves that a head extends the last one."""
    old, *path = [line.strip() for line in text.split("\n")]
    if head.origin != last.origin or old != f"old {last.size}" or head.size < last.size:
        raise InputError(
            f"the last head seen is of {last.origin} with {last.size} entries: "
            "prove from that one on"
        )
    hashes = [from_base64(line) for line in path]
    whole = all(len(hash) == HASH for hash in hashes)
    if not whole or not verify_consistency(last.size, last.root, head.size, head.root, hashes):
        raise InputError("the proof in the request does not fit: ask for a new one")
