"""A copy of a ledger in another store: the same entries, so that heads and proofs fit both."""

from os import PathLike

from corrigible.ledger.ledger import Broken, StoredLedger
from corrigible.ledger.verification import newest_head, verify
from corrigible.proofs.heads import Head
from corrigible.stores.location import located
from corrigible.stores.store import Location
from ocrrlib.files import InputError


def copy(source: str | PathLike | Location, target: str | PathLike | Location) -> Head:
    """Copy a memory, erased entries included, verify both, and return their head.

    What is written to the source meanwhile is not copied. Raises ``InputError`` if there is no
    source, or another memory in the place of the target, and ``Broken`` if one of both is not as it
    was written.
    """
    source = located(source)
    target = located(target)
    if not source.holds_memory():
        raise InputError(f"there is no memory in {source}: give another place")
    with StoredLedger(source.open(str)) as ledger:
        head = newest_head(ledger)
        about = ledger.store.about
        with StoredLedger(target.open(lambda: about.text)) as copied:
            if copied.store.about != about or len(copied):
                raise InputError(f"there is a memory in {target} already: choose another place")
            with ledger.snapshot(), copied.transaction():
                copied.adopt(ledger.store.blocks())
    for place in (source, target):
        fault = verify(place, head)
        if fault is not None and fault.kind != "void":  # it is copied as all others
            raise Broken(place.open_to_read(), fault)
    return head
