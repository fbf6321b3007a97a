"""Verification of a ledger's file by somebody who may only read it."""

import os
from collections.abc import Iterable
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
    path = Path(os.path.realpath(path))
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    keys = tuple(keys)
    known = sorted((Head.read(head) for head in heads), key=lambda head: head.size)
    for head in known:
        head.check(keys)
    attempt = 0
    while True:
        attempt += 1
        before = last_change(path)
        try:
            with VERIFIED[path]:
                fault = _first_fault(path, known)
        except InputError:
            if attempt == ATTEMPTS or last_change(path) == before:
                raise
        else:
            # Others that open a file while it is read without locks may seem to break it.
            if fault is None or attempt == ATTEMPTS or last_change(path) == before:
                return fault


def _first_fault(path, heads):
    """The first fault of a file, without or with heads in order of size; or None."""
    fitting = 0
    try:
        with LedgerFile(path, read_only=True) as ledger:
            for head in heads:
                if head.size > len(ledger):
                    return Fault(len(ledger), "truncated")
                if head.origin != ledger.origin or head.root != ledger.root(head.size):
                    return Fault(fitting, "forked")
                fitting = head.size
    except Broken as broken:
        return broken.fault
    return None
