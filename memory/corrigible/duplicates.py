"""Find entries of equal texts: what is not stored again, and what a correction overrules."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from corrigible.ledger.vectors import LiveVectors, Origin, Vectors, content_key
from corrigible.readers import stored_copies

NEIGHBOURS = 5  # that are looked at first


class Held(NamedTuple):
    """The entry that decides about a vector: its place, the key of its content, its label."""

    place: int
    key: int
    label: str


def places_for(
    vectors: Vectors,
    start: int,
    texts: Sequence[str | None],
    labels: Sequence[str],
    X: np.ndarray,
) -> list[int]:
    """Places (n,) for texts, or None for each, with labels (n,) and unit rows X (n, d).

    That of the entry that decides about an equal vector, if it has the same text and the same
    label; else a new one: ``start``, ``start + 1``, and so on.
    """
    keys = [content_key(text, x.data) for text, x in zip(texts, X)]
    held = _deciding(vectors, keys, X)
    latest: dict[bytes, Held] = {}  # of the new ones, by vector
    places = []
    end = start
    for row, (key, label) in enumerate(zip(keys, labels)):
        vector = X[row].tobytes()
        newest = latest.get(vector, held.get(row))
        if newest is None or newest[1:] != (key, label):
            newest = Held(end, key, label)
            latest[vector] = newest
            end += 1
        places.append(newest.place)
    return places


def _deciding(vectors: Vectors, keys: Sequence[int], X: np.ndarray) -> dict[int, Held]:
    """What decides about rows of X (n, d) whose content was written before, by these rows."""
    rows = np.flatnonzero(vectors.may_hold(keys))
    counted = vectors.counted
    entries = counted.entries
    if not len(rows) or not entries.size:
        return {}
    held = {}
    copies = stored_copies(entries, X[rows], *entries.nearest(X[rows], NEIGHBOURS))
    for at, slots in copies.items():
        newest = counted.origin(slots[0])
        held[int(rows[at])] = Held(newest.place, vectors.key_at(newest.place), newest.label)
    return held


def overruled_by(counted: LiveVectors, place: int) -> list[Origin]:
    """Entries of an equal vector under other labels, written before the one at ``place``.

    None if that one does not count.
    """
    entries = counted.entries
    (slots,) = np.nonzero(counted.places.values == place)
    if not len(slots):
        return []
    x = entries.X[slots]
    copies = stored_copies(entries, x, *entries.nearest(x, NEIGHBOURS))[0]  # its own among them
    own = counted.origin(slots[0])
    older = [counted.origin(slot) for slot in np.sort(copies[copies < slots[0]])]
    return [one for one in older if one.label != own.label]
