"""Encode a memory's texts: load its encoder when first needed, and refuse another one."""

import numpy as np

from corrigible.encoder_probe import TextEncoder, read_probe
from corrigible.ledger.ledger import StoredLedger
from ocrrlib.embeddings import halve, widen
from ocrrlib.files import InputError


class LedgerEncoder:
    """The encoder of a ledger's texts: the one ``given``, or that which the ledger names."""

    def __init__(self, given: TextEncoder | None, ledger: StoredLedger):
        self._ledger = ledger
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
        if not self._encoder.made(self._ledger.probe):
            raise InputError(
                f"{where} was written with another encoder {name}, of other vectors: "
                "give that one, or make a new file"
            )
        self._is_checked = True

    def check_length(self, dim: int) -> None:
        """Raise ``InputError`` if the encoder of the ledger gives vectors of another length."""
        if self._ledger.encoder is None:
            return
        wanted = read_probe(self._ledger.probe).shape[1]
        if dim != wanted:
            raise InputError(
                f"the vectors have {dim} values, those of encoder {self._ledger.encoder} {wanted}"
            )
