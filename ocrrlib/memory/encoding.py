"""The encoder of a memory's texts: loaded when it is first needed, refused if it is another one."""

import numpy as np

from ocrrlib.embeddings import halve, widen
from ocrrlib.files import InputError
from ocrrlib.memory.identity import TextEncoder, read_probe
from ocrrlib.memory.ledger import StoredLedger
from ocrrlib.memory.vectors import Vectors

SOME = 100  # first and newest entries, among whose texts are those that tell an encoder


class LedgerEncoder:
    """The encoder of a ledger's texts: the one ``given``, or that which the ledger names."""

    def __init__(self, given: TextEncoder | None, ledger: StoredLedger, vectors: Vectors):
        self._ledger = ledger
        self._vectors = vectors
        self._encoder = TextEncoder(ledger.encoder) if given is None else given
        self._is_checked = False  # whether it is that of the ledger

    def unit_rows(self, texts: list, X: np.ndarray | None) -> np.ndarray:
        """Unit rows (n, d) float32 of vectors X (n, d), or of texts (n,) if these came alone.

        Raises ``InputError`` if there is no encoder, or it is not that of the ledger.
        """
        if X is not None:
            return widen(halve(X))
        if self._ledger.encoder is None:
            raise InputError(f"{self._ledger.where} was made without an encoder: give vectors")
        self.check()
        return self._encoder.embed(texts)

    def check(self) -> None:
        """Raise ``InputError`` unless the encoder is that of the ledger, by name and vectors."""
        if self._is_checked:
            return
        where = self._ledger.where
        name = self._ledger.encoder
        if self._encoder.name != name:
            raise InputError(
                f"{where} was written with encoder {name}: leave {self._encoder.name} out"
            )
        probe = self._ledger.probe  # files of earlier releases have none
        is_same = probe is None or self._encoder.made(probe)
        if not is_same or not self._encoder.gives(*self._telling_texts()):
            raise InputError(
                f"{where} was written with another encoder {name}, of other vectors: "
                "give that one, or make a new file"
            )
        self._is_checked = True

    def check_length(self, dim: int) -> None:
        """Raise ``InputError`` if the encoder of the ledger gives vectors of another length."""
        probe = self._ledger.probe
        wanted = dim if probe is None else read_probe(probe).shape[1]
        if dim != wanted:
            raise InputError(
                f"the vectors have {dim} values, those of encoder {self._ledger.encoder} {wanted}"
            )

    def _telling_texts(self):
        """Texts (n,) that tell an encoder, and their vectors (n, d): at most four.

        Of those in the first and the newest entries: the first, the newest and the two longest.
        """
        with self._ledger.snapshot():
            written = self._vectors.written
            slots = range(len(written))
            texts = {}
            for slot in sorted({*slots[:SOME], *slots[-SOME:]}):
                text = self._ledger.entry(written.origin(slot).place).get("text")
                if text is not None:
                    texts[slot] = text
            longest = sorted(texts, key=lambda slot: len(texts[slot]))[-2:]
            telling = sorted({*list(texts)[:1], *list(texts)[-1:], *longest})
            return [texts[slot] for slot in telling], written.entries.X[telling]
