"""Systems that answer from the entries of a memory."""

from typing import Protocol, Self

import numpy as np

from ocrrlib.files import InputError
from ocrrlib.search import SAME_VECTOR, Entries


class Reader(Protocol):
    """A system that answers from shared entries: in the registry, ``substrate`` or a subclass.

    ``entries`` are those it reads, ``n_classes`` is the number of class ids that it was made for.
    It may ask them for neighbours alone, and need no vectors otherwise.
    """

    entries: Entries
    n_classes: int
    asks_neighbours: bool

    def read(self, entries: Entries, n_first: int, n_classes: int) -> Self:
        """Fit on the first ``n_first`` entries; later ones are read as corrections when asked."""

    def answer(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Answer rows (m, d): class ids (m,), probabilities (m, C), cosines and slots (m, k)."""


def make_reader(name: str) -> Reader:
    """Make a reader by its name in the registry of systems.

    Raises ``InputError`` if there is no such system, or it cannot read a ledger.
    """
    from ocrrlib.systems import make  # when a memory is opened: `import corrigible` is quick

    reader = make(name)
    if not hasattr(reader, "read") or not hasattr(reader, "answer"):
        raise InputError(f"{name} reads no ledger: give substrate or ledger_lda")
    return reader


def version_of(name: str) -> int:
    """Return the version of a reader, which is raised when its answers change."""
    from ocrrlib.systems import SYSTEMS

    return SYSTEMS[name].version


def answered(
    reader: Reader, X: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[int, np.ndarray]]:
    """Answer rows (m, d) as ``reader.answer`` does, but where a vector is stored, by its entries.

    The newest entry with an equal vector decides: a text that was corrected has the label that it
    was given last, however many copies it had under another one. Returns class ids,
    probabilities, cosines and slots as the reader does, and the slots of entries with an equal
    vector, newest first, by the rows that have any.
    """
    ids, probabilities, cosines, slots = reader.answer(X)
    copies = stored_copies(reader.entries, X, cosines, slots)
    ids = ids.copy()
    probabilities = probabilities.copy()
    for row, same in copies.items():
        label = reader.entries.y[same[0]]
        # The label that decides is as probable as the one that the reader would have answered.
        swapped = [ids[row], label]
        probabilities[row, swapped] = probabilities[row, swapped[::-1]]
        ids[row] = label
    return ids, probabilities, cosines, slots, copies


def stored_copies(
    entries: Entries, X: np.ndarray, cosines: np.ndarray, slots: np.ndarray
) -> dict[int, np.ndarray]:
    """Slots of the entries whose vectors equal rows X (m, d), newest first, by these rows.

    ``cosines`` and ``slots`` (m, k) are those of their nearest entries. An approximate search may
    miss some.
    """
    copies = {}
    for row in np.flatnonzero(cosines[:, 0] >= SAME_VECTOR).tolist():
        near = cosines[row]
        found = slots[row]
        while near[-1] >= SAME_VECTOR and len(near) < entries.size:  # perhaps there are more
            near, found = (one[0] for one in entries.nearest(X[[row]], 2 * len(near)))
        copies[row] = np.sort(found[near >= SAME_VECTOR])[::-1]
    return copies


def check_search(search: str | None, ef_search: int | None, name: str) -> None:
    """Raise ``InputError`` if vectors cannot be searched so for a reader, by its name."""
    if search not in (None, "database"):
        raise InputError(f"there is no search {search!r}: give 'database', or leave it out")
    if search is None and ef_search is not None:
        raise InputError("ef_search is for an index in a database: give search='database', too")
    if ef_search is not None and (type(ef_search) is not int or not 1 <= ef_search <= 1000):
        raise InputError(f"ef_search {ef_search!r} is no number from 1 to 1000")
    if search is not None and not make_reader(name).asks_neighbours:
        raise InputError(f"{name} reads all vectors: give substrate, or leave search out")
