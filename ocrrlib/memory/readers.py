"""Systems that answer from the entries of a memory."""

import importlib
from typing import Protocol, Self

import numpy as np

from ocrrlib.files import InputError
from ocrrlib.search import Entries


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

    The registry is imported here, when a memory is opened, so that this package depends on no
    system. Raises ``InputError`` if there is no such system, or it cannot read a ledger.
    """
    reader = importlib.import_module("ocrrlib.systems").make(name)
    if not hasattr(reader, "read") or not hasattr(reader, "answer"):
        raise InputError(f"{name} reads no ledger: give substrate or ledger_lda")
    return reader


def check_asks_neighbours(name: str) -> None:
    """Raise ``InputError`` if a reader, by its name, needs all vectors in memory."""
    if not make_reader(name).asks_neighbours:
        raise InputError(f"{name} reads all vectors: give substrate, or leave search out")
