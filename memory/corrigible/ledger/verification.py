"""Prove what a ledger holds, and verify one without writing to it."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from os import PathLike

from corrigible.ledger.ledger import Broken, StoredLedger
from corrigible.proofs.heads import Head
from corrigible.proofs.keys import Key
from corrigible.proofs.proofs import proof_text
from corrigible.proofs.witnesses import request
from corrigible.stores.location import located
from corrigible.stores.store import Location
from ocrrlib.chain import Fault
from ocrrlib.files import InputError

ATTEMPTS = 10  # to verify a file that changes meanwhile


def newest_head(ledger: StoredLedger, key: Key | None = None) -> Head:
    """Return the head as of now, signed by a key if one is given."""
    with ledger.snapshot():
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        head = Head(ledger.origin, ledger.size, ledger.tree.root(ledger.size), now)
    return head if key is None else head.signed(key)


def prove_entry(
    ledger: StoredLedger, place: int, key: Key | None = None, head: Head | str | None = None
) -> str:
    """Return a C2SP tlog-proof that an entry is under a head, by default the newest.

    ``key`` signs the newest head. Raises ``InputError`` if there is no such entry, the head does
    not know it, or the ledger does not extend the head.
    """
    newest = newest_head(ledger, key)
    shown = newest if head is None else Head.read(head)
    with ledger.snapshot():
        _check_extends(ledger, shown)
        entry = ledger.rows_at([place])[place].fields()
        if place >= shown.size:
            raise InputError(
                f"a head of {shown.size} entries does not know entry {place}: take a newer one"
            )
        path = ledger.tree.inclusion_proof(place, shown.size)
    return proof_text(entry, path, shown)


def prove_extension(ledger: StoredLedger, old_head: Head | str, key: Key | None = None) -> str:
    """Return a C2SP tlog-witness request: a proof that the newest head extends an older one.

    ``key`` signs the newest head. Raises ``InputError`` if the ledger does not extend it.
    """
    newest = newest_head(ledger, key)
    old = Head.read(old_head)
    with ledger.snapshot():
        _check_extends(ledger, old)
        path = ledger.tree.consistency_proof(old.size, newest.size)
    return request(old.size, path, newest)


def known_size(ledger: StoredLedger, head: Head | str) -> int:
    """Return the size of a head; ``InputError`` unless the ledger extends it."""
    old = Head.read(head)
    with ledger.snapshot():
        _check_extends(ledger, old)
    return old.size


def _check_extends(ledger, old):
    """Raise ``InputError`` unless a ledger extends a head, within a snapshot."""
    is_earlier = old.origin == ledger.origin and old.size <= ledger.size
    if not is_earlier or old.root != ledger.tree.root(old.size):
        raise InputError(
            f"{ledger.where} does not extend the head of {old.origin} with {old.size} entries: "
            "verify it"
        )


def verify(
    path: str | PathLike | Location,
    *heads: Head | str,
    keys: Iterable[Key] = (),
    name: str | None = None,
) -> Fault | None:
    """Verify a memory from its first entry on: the first ``Fault``, or None if there is none.

    ``path`` and ``name`` are as in ``CorrectionMemory.open``. ``heads`` are heads of the memory
    that were kept elsewhere; without one a cut tail or a complete rewrite goes unnoticed. A rewrite
    begins behind the newest head that still fits. If all is as it was written, the first *void*
    entry is named: another program wrote it, and it counts for nothing, see
    ``corrigible.ledger.meaning``. The memory may be in use, or where nobody can write; nothing is
    written. Raises ``InputError`` if it cannot be used, or not all ``keys`` signed all heads.
    """
    keys = tuple(keys)
    known = sorted((Head.read(head) for head in heads), key=lambda head: head.size)
    for head in known:
        head.check(keys)

    void: list[int] = []

    def look(ledger):
        fitting = 0
        for head in known:
            if head.size > len(ledger):
                raise Broken(ledger.store, Fault(len(ledger), "truncated"))
            if head.origin != ledger.origin or head.root != ledger.tree.root(head.size):
                raise Broken(ledger.store, Fault(fitting, "forked"))
            fitting = head.size
        void[:] = ledger.void

    try:
        inspect(located(path, name), look)
    except Broken as broken:
        return broken.fault
    return Fault(void[0], "void") if void else None


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
