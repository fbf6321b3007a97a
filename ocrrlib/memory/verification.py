"""Verification of a ledger's file by somebody who may only read it."""

import os
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path

from ocrrlib.chain import Fault
from ocrrlib.files import InputError
from ocrrlib.memory.database import last_change
from ocrrlib.memory.file import VERIFIED, Broken, LedgerFile
from ocrrlib.memory.heads import Head
from ocrrlib.memory.keys import Key
from ocrrlib.memory.quorum import Quorum

ATTEMPTS = 10  # to verify a file that changes meanwhile


def verify(
    path: str | PathLike, *heads: Head | str, keys: Iterable[Key | Quorum] = ()
) -> Fault | None:
    """Verify a file from its first entry on: the first ``Fault``, or None if there is none.

    ``heads`` are heads of the file that were kept elsewhere; without one a cut tail or a complete
    rewrite goes unnoticed. A rewrite begins behind the newest head that still fits. The file may be
    in use, or where nobody can write; nothing is written. Raises ``InputError`` if the file cannot
    be used, or not all ``keys``, or a quorum among them, signed all heads.
    """
    keys = tuple(keys)
    known = sorted((Head.read(head) for head in heads), key=lambda head: head.size)
    for head in known:
        head.check(keys)

    def look(ledger):
        fitting = 0
        for head in known:
            if head.size > len(ledger):
                raise Broken(ledger.path, Fault(len(ledger), "truncated"))
            if head.origin != ledger.origin or head.root != ledger.root(head.size):
                raise Broken(ledger.path, Fault(fitting, "forked"))
            fitting = head.size

    try:
        inspect(path, look)
    except Broken as broken:
        return broken.fault
    return None


def inspect(path: str | PathLike, look: Callable[[LedgerFile], None]) -> None:
    """Read a file as it is, and let ``look`` see it, perhaps more than once; nothing is written.

    Raises what ``look`` raises, ``Broken`` if the file is not as it was written, or ``InputError``
    if it cannot be used.
    """
    path = Path(os.path.realpath(path))
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    attempt = 0
    while True:
        attempt += 1
        before = last_change(path)
        try:
            with VERIFIED[path], LedgerFile(path, read_only=True) as ledger:
                look(ledger)
            return
        except InputError:
            # Others that open a file while it is read without locks may seem to break it.
            if attempt == ATTEMPTS or last_change(path) == before:
                raise
