"""Find entries of equal texts: what is not stored again, and what a correction overrules."""

from collections.abc import Sequence

import numpy as np

from corrigible.ledger.vectors import LiveVectors, Origin, Vectors, content_key
from corrigible.readers import stored_copies
from ocrrlib.search import SAME_VECTOR

NEIGHBOURS = 5  # that are looked at first


def places_to_learn(
    vectors: Vectors,
    start: int,
    texts: Sequence[str | None],
    labels: Sequence[str],
    X: np.ndarray,
) -> list[int]:
    """Places (n,) for texts, or None for each, with labels (n,) and unit rows X (n, d).

    That of an entry with the same text and vector, and the same label, by now or as it was written,
    whether it counts or not: what was corrected or undone since does not come back by a file that
    is read again. For others a new one: ``start``, ``start + 1``, and so on.
    """
    keys = [content_key(text, x.data) for text, x in zip(texts, X)]
    written = vectors.written
    slots = vectors.with_keys(keys)
    latest: dict[tuple, int] = {}  # of the new ones
    known: dict[tuple, list[int]] = {}
    for slot in slots.tolist():
        origin = written.origin(slot)
        key = vectors.key_at(origin.place)
        for label in {origin.label, vectors.meaning.label(origin.place, origin.label)}:
            known.setdefault((key, label), []).append(slot)
    places = []
    end = start
    for x, key, label in zip(X, keys, labels):
        new = (x.tobytes(), key, label)
        same = [slot for slot in known.get((key, label), ()) if _is_same(written, slot, x)]
        if same:
            places.append(written.origin(same[0]).place)
        elif new in latest:
            places.append(latest[new])
        else:
            latest[new] = end
            places.append(end)
            end += 1
    return places


def _is_same(written, slot, x):
    return float(written.entries.X[slot] @ x) >= SAME_VECTOR


def place_to_correct(
    vectors: Vectors, end: int, text: str | None, label: str, x: np.ndarray
) -> int:
    """The place for a text, or None, with a label and its unit row x (d,): ``end``, a new one.

    Or that of the entry which decides about this vector, if it has the same text and label.
    """
    key = content_key(text, x.data)
    entries = vectors.counted.entries
    if not entries.size or not len(vectors.with_keys([key])):
        return end
    copies = stored_copies(entries, x[None], *entries.nearest(x[None], NEIGHBOURS))
    if 0 not in copies:
        return end
    newest = vectors.counted.origin(copies[0][0])
    held = (vectors.key_at(newest.place), newest.label)
    return newest.place if held == (key, label) else end


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
