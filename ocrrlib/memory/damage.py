"""What happened to a file whose chain is broken: the cases that tell the kinds of faults apart."""

from ocrrlib.chain import Fault, Link, entry_hash

SPARE = 256  # places beyond the file's end at which an entry may have been


def diagnose(
    link: Link, place: int, whole: bool, genesis: bytes, links: list[tuple[bytes, bytes]]
) -> Fault:
    """Name the fault of the first broken entry.

    Parameters
    ----------
    link : Link
        The entry as it is stored.
    place : int
        Where it stands: the entries before it are unbroken.
    whole : bool
        Whether its content is the one that it commits to, or was erased.
    genesis : bytes
        The hash before the first entry.
    links : list of (previous, hash)
        Of all entries of the file, in their order.
    """
    hashes = [hash for _, hash in links]
    chain = [genesis, *hashes[:place]]  # unbroken
    named_later = hashes[place + 1 :]
    named_by_next = [previous for previous, _ in links[place + 1 : place + 2]]

    # Where the entry was when it was hashed; None if it was altered since.
    home = None
    if whole and link.previous != chain[-1]:
        home = _home(link, place, len(links))
    altered = home is None
    stayed = home == place  # intact, at its place, but it names another entry before it
    moved = not altered and not stayed

    bypassed = chain[-1] in named_by_next  # without the entry, the chain would hold
    confirmed = place > 0 and link.hash in named_by_next  # it is what the next entry expects
    follows_later = link.previous in named_later
    copied = hashes.count(link.hash) > 1
    follows_earlier = link.previous in chain

    # The first case that holds decides.
    if altered and bypassed:  # put between two entries that belong together
        return Fault(place, "inserted")
    if altered:  # its successor is no witness against it: its own content or hash is wrong
        return Fault(place, "changed")
    if stayed and bypassed:  # hashed for this place, but nothing follows from it
        return Fault(place, "inserted")
    if stayed and confirmed:  # both its neighbours in time agree, so the one before was replaced
        return Fault(place - 1, "changed")
    if stayed:  # replaced by one that is hashed for this place
        return Fault(place, "changed")
    if moved and follows_later and not copied:  # the entry before it comes after it
        return Fault(place, "reordered")
    if moved and (copied or bypassed):  # a second copy, or one too many
        return Fault(place, "inserted")
    if moved and follows_earlier:  # pushed back by what stands behind its true predecessor
        return Fault(chain.index(link.previous), "inserted")
    return Fault(place, "removed")  # moved up, and the entry before it is nowhere


def _home(link, place, n):
    """The place for which an entry was hashed, of those in a file of ``n`` entries; or None."""
    for home in (max(link.place, 0), *range(2 * n + SPARE)):
        if entry_hash(home, link.time, link.commitment, link.previous) == link.hash:
            return home
    return None
