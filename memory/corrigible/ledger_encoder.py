"""Encode a memory's texts: load its encoder when first needed, and refuse another one.

The vectors of a few probe texts tell it from another one of its name.
"""

import base64
from collections.abc import Callable
from functools import cached_property

import numpy as np

from corrigible.ledger.ledger import StoredLedger
from corrigible.proofs.rows import MAX_VALUE
from ocrrlib.embeddings import encode, halve, raw_rows, widen
from ocrrlib.encoders import load_encoder, name_of
from ocrrlib.files import InputError

# Few letters and many, of both cases, digits, another script; the last one has 300 tokens, so that
# a model that reads fewer is another encoder.
PROBES = (
    "ok",
    "Where is my new card? It should have come 3 weeks ago.",
    "The QUICK brown fox jumps over 13 lazy dogs; naïve café, 東京, Zürich!",
    " ".join(f"{i} cards," for i in range(100)),
)
# Cosine of two vectors of a text by one encoder, at least. all-MiniLM-L6-v2 differs from itself by
# less than 1e-12 in another batch and by 6e-5 in bfloat16; by 0.009 with noise of 3 % on its
# weights, by 0.11 with a prompt, by 0.09 if it reads 128 tokens and by 0.12 in int8.
SAME = 0.999
NAMES = 2**13  # bytes of a file's and an encoder's names at most, which stand beside the probe


class TextEncoder:
    """An encoder of texts that is known again; ``encoder`` is as ``load_encoder`` takes it.

    It is loaded when it is first asked, which raises ``InputError`` as ``load_encoder`` does.
    """

    def __init__(self, encoder: object):
        self._encoder = encoder

    @property
    def name(self) -> str:
        """Its name in a file."""
        return name_of(self._encoder)

    def described(self) -> tuple[str, str]:
        """Name and probe, for a new file; raises ``InputError`` as ``probe`` does."""
        return self.name, self.probe()

    @cached_property
    def function(self) -> Callable:
        """The encoder itself, as ``load_encoder`` gives it."""
        return load_encoder(self._encoder)

    def probe(self) -> str:
        """The vectors of ``PROBES``, to be kept: float16 rows in base64.

        Raises ``InputError`` if they are too long for a file, or as ``made`` does.
        """
        rows = self._probe_rows
        text = base64.b64encode(rows.astype("<f2").tobytes()).decode()
        if len(text) > MAX_VALUE - NAMES:
            raise InputError(
                f"the encoder gives vectors of {rows.shape[1]} values, too many for a memory: "
                "give one of fewer"
            )
        return text

    @cached_property
    def _probe_rows(self):
        """Rows of ``PROBES``; asked for in two orders and one by one, they have to be the same."""
        rows = self._unit_rows(PROBES)
        in_reverse = self._unit_rows(PROBES[::-1])[::-1]
        alone = [self._unit_rows([text]) for text in PROBES]
        one_by_one = all(_agree(rows[[i]], row) for i, row in enumerate(alone))
        if not one_by_one or not _agree(rows, in_reverse):
            raise InputError(
                "the encoder gives a text other vectors each time, or in another order or batch: "
                "give one whose vector of a text depends on that text alone"
            )
        return rows

    def made(self, probe: str) -> bool:
        """Whether this encoder gives the vectors of a probe.

        Raises ``InputError`` if the probe is damaged, or if the encoder's vector of a text depends
        on anything but that text.
        """
        return _agree(read_probe(probe), self._probe_rows)

    def _unit_rows(self, texts):
        """Unit rows (n, d) float16; zero where the encoder knows nothing of a text."""
        rows = raw_rows(texts, self.function)
        units = np.zeros(rows.shape, np.float16)
        known = rows.any(axis=1)
        units[known] = halve(rows[known], lambda place: "a vector that the encoder gives")
        return units


class LedgerEncoder:
    """The encoder of a ledger's texts: the one ``given``, or that which the ledger names."""

    def __init__(self, given: TextEncoder | None, ledger: StoredLedger):
        self._ledger = ledger
        self._encoder = TextEncoder(ledger.encoder) if given is None else given
        self._is_checked = False  # whether it is that of the ledger

    def unit_rows(self, texts: list, X: np.ndarray | None) -> np.ndarray:
        """Unit rows (n, d) float32 of vectors X (n, d), or of texts (n,) if these came alone.

        Raises ``InputError`` if there is no encoder, it is not that of the ledger, or as
        ``ocrrlib.embeddings.encode`` does.
        """
        if X is not None:
            return widen(halve(X))
        if self._ledger.encoder is None:
            raise InputError(f"{self._ledger.where} was made without an encoder: give vectors")
        if not self._is_checked:
            self.check()
        return widen(encode(texts, self._encoder.function))

    def check(self) -> None:
        """Raise ``InputError`` unless the encoder is that of the ledger, by name and vectors."""
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


def read_probe(probe: str) -> np.ndarray:
    """The vectors in a probe, (n, d) float16; raises ``InputError`` if it is damaged."""
    try:
        rows = np.frombuffer(base64.b64decode(probe, validate=True), "<f2")
        return rows.reshape(len(PROBES), -1)
    except (ValueError, TypeError) as error:
        raise InputError("the probe of its encoder is damaged: restore a copy") from error


def _agree(A, B):
    """Whether rows (n, d) are of the same directions, and zero in the same places."""
    if A.shape != B.shape:
        return False
    A = A.astype(np.float64)
    B = B.astype(np.float64)
    lengths = np.linalg.norm(A, axis=1) * np.linalg.norm(B, axis=1)
    cosines = np.einsum("nd,nd->n", A, B) / np.maximum(lengths, 1e-12)
    both_zero = ~A.any(axis=1) & ~B.any(axis=1)
    return bool((both_zero | (cosines >= SAME)).all())
