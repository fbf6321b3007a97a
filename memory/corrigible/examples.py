"""The nearest corrected entries of a query: demonstrations for a language model."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from corrigible.ledger.history import entry_of
from corrigible.ledger.vectors import LiveVectors
from corrigible.proofs.rows import Row
from ocrrlib.search import SAME_VECTOR


class Example(NamedTuple):
    """An entry that counts, near a query, under its label of now."""

    entry: int
    text: str | None
    label: str
    cosine: float
    about: dict


def nearest_examples(
    counted: LiveVectors,
    x: np.ndarray,
    n: int,
    rows_at: Callable[[Iterable[int]], dict[int, Row]],
) -> list[Example]:
    """The ``n`` nearest entries of row x (d,), best first; of equal vectors the newest alone.

    ``rows_at`` gives entries by their places.
    """
    entries = counted.entries
    n_asked = max(1, n)
    while True:
        n_asked = min(2 * n_asked, entries.size)  # equal ones are left out
        cosines, slots = entries.nearest(x[None], n_asked)
        chosen = _newest_of_equals(entries.X, slots[0], cosines[0])
        if len(chosen) >= n or n_asked == entries.size:
            break
    origins = [counted.origin(slot) for slot, _ in chosen[:n]]
    rows = rows_at([origin.place for origin in origins])
    found = []
    for origin, (_, cosine) in zip(origins, chosen):
        entry = entry_of(rows[origin.place], origin.label)
        found.append(Example(entry.place, entry.text, entry.label, cosine, entry.about))
    return found


def _newest_of_equals(X, slots, cosines):
    """Slots and cosines without those whose vector another one has that is newer."""
    found = slots >= 0
    slots = slots[found]
    cosines = cosines[found]
    near = X[slots]
    equal = near @ near.T >= SAME_VECTOR
    newer = slots[None] > slots[:, None]
    stays = ~(equal & newer).any(axis=1)
    return [*zip(slots[stays].tolist(), cosines[stays].tolist())]
