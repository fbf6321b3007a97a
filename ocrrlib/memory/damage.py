"""Faults of a broken chain, told apart by a table of cases.

For which place the first broken entry was hashed, and how it is linked, tell what happened:

================  ====================================  ===============================
hashed for        links                                 fault
================  ====================================  ===============================
no place          the next follows the one before       inserted
no place          else                                  changed
its own place     the next follows the one before       inserted
its own place     the next follows it                   changed, the entry before
its own place     else                                  changed
another place     it follows a later one, no copies     reordered
another place     copies, or the next follows the one   inserted
                  before
another place     it follows an earlier one             inserted, behind that one
another place     it follows none                       removed, before it
================  ====================================  ===============================
"""

from ocrrlib.chain import Fault, Link, entry_hash

SPARE = 256  # places beyond the file's end at which an entry may have been


def diagnose(
    link: Link, place: int, whole: bool, genesis: bytes, links: list[tuple[bytes, bytes]]
) -> Fault:
    """Name the fault of the first broken entry.

    Parameters
    ----------
    link : ocrrlib.chain.Link
        The entry as it is stored.
    place : int
        Where it stands: the entries before it are unbroken.
    whole : bool
        Whether its content is the one that it commits to, or was erased.
    genesis : bytes
        The hash before the first entry.
    links : list of pairs of bytes
        The hash before, and the hash, of each entry of the file, in their order.
    """
    hashes = [hash for _, hash in links]
    chain = [genesis, *hashes[:place]]
    later = hashes[place + 1 :]
    named_next = [previous for previous, _ in links[place + 1 : place + 2]]

    # The place for which the entry was hashed. None if it was edited: its content is not whole,
    # no place gives its hash, or it follows the entry before, so that number or hash is wrong.
    home = None
    if whole and link.previous != chain[-1]:
        home = _home(link, len(links), link.place)

    superfluous = chain[-1] in named_next  # the next entry follows the one before this
    confirmed = place > 0 and link.hash in named_next  # the next entry follows this
    copied = hashes.count(link.hash) > 1
    predecessor_is_later = link.previous in later
    predecessor_is_earlier = link.previous in chain

    if home is None:
        if superfluous:  # without it the chain would hold
            return Fault(place, "inserted")
        return Fault(place, "changed")  # edited, and not hashed anew

    if home == place:  # it is whole and in its place, but follows an entry that is not there
        if superfluous:  # hashed with any link, and put in
            return Fault(place, "inserted")
        if confirmed:  # it and the next agree: the entry before was hashed anew
            return Fault(place - 1, "changed")
        return Fault(place, "changed")  # this one was hashed anew

    # It is whole, but was moved from another place.
    if predecessor_is_later and not copied:  # both are there, in the wrong order
        return Fault(place, "reordered")
    if copied or superfluous:  # it is there twice, or the chain would hold without it
        return Fault(place, "inserted")
    if predecessor_is_earlier:  # something stands between it and its predecessor
        return Fault(chain.index(link.previous), "inserted")
    return Fault(place, "removed")  # its predecessor is nowhere


def _home(link, n, guess):
    """The place for which an entry was hashed, of those in a file of ``n`` entries; or None."""
    for home in (max(guess, 0), *range(2 * n + SPARE)):
        if entry_hash(home, link.time, link.commitment, link.previous) == link.hash:
            return home
    return None
