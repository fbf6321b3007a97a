"""Verify a ledger without writing to it."""

from collections.abc import Callable, Iterable
from os import PathLike

from corrigible.ledger.ledger import Broken, StoredLedger
from corrigible.proofs.heads import Head
from corrigible.proofs.keys import Key
from corrigible.stores.location import located
from corrigible.stores.store import Location
from ocrrlib.chain import Fault
from ocrrlib.files import InputError

ATTEMPTS = 10  # to verify a file that changes meanwhile


def verify(
    path: str | PathLike | Location,
    *heads: Head | str,
    keys: Iterable[Key] = (),
    name: str | None = None,
) -> Fault | None:
    """Verify a memory from its first entry on: the first ``Fault``, or None if there is none.

    ``path`` and ``name`` are as in ``CorrectionMemory.open``. ``heads`` are heads of the memory
    that were kept elsewhere; without one a cut tail or a complete rewrite goes unnoticed. A rewrite
    begins behind the newest head that still fits. The memory may be in use, or where nobody can
    write; nothing is written. Raises ``InputError`` if it cannot be used, or not all ``keys``
    signed all heads.
    """
    keys = tuple(keys)
    known = sorted((Head.read(head) for head in heads), key=lambda head: head.size)
    for head in known:
        head.check(keys)

    def look(ledger):
        fitting = 0
        for head in known:
            if head.size > len(ledger):
                raise Broken(ledger.store, Fault(len(ledger), "truncated"))
            if head.origin != ledger.origin or head.root != ledger.root(head.size):
                raise Broken(ledger.store, Fault(fitting, "forked"))
            fitting = head.size

    try:
        inspect(located(path, name), look)
    except Broken as broken:
        return broken.fault
    return None


def inspect(location: Location, look: Callable[[StoredLedger], None]) -> None:
    """Read a ledger as it is, and let ``look`` see it, perhaps more than once; nothing is written.

    Raises what ``look`` raises, ``Broken`` if it is not as it was written, or ``InputError`` if it
    cannot be used.
    """
    attempt = 0
    while True:
        attempt += 1
        before = location.last_change()
        try:
            with location.verifying(), StoredLedger(location.open_to_read()) as ledger:
                look(ledger)
            return
        except InputError:
            # Others that open a file while it is read without locks may seem to break it.
            if attempt == ATTEMPTS or location.last_change() == before:
                raise
