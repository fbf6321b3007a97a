"""Class-incremental data of any size from a seed: one random centre per class, noise around it, never held twice."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ocrrlib.errors import InputError

BLOCK = 4096  # rows drawn by one generator, whatever the chunks that are asked for
STEP = 2.0**-11


def to_grid(X):
    """Unit rows (n, d) as float32 multiples of 2**-11.

    Products of two such rows are multiples of 2**-22 below 2, which float32 holds
    exactly: cosines, and with them every index, are the same on all processors.
    Lengths are one within about 0.001.
    """
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    return (np.round(X / STEP) * STEP).astype(np.float32)


@dataclass(frozen=True)
class Synthetic:
    """``n`` entries, class after class, in equal shares.

    Attributes
    ----------
    noise : float
        Standard deviation that is added to each coordinate of a unit centre, before normalising.
    seed : int
        Seed of everything that is drawn.
    in_turn : bool
        Whether classes come in turn, one entry each, instead of one class after the other.
    """

    n: int
    classes: int
    noise: float
    seed: int = 0
    dim: int = 384
    in_turn: bool = False

    def __post_init__(self):
        if not 1 <= self.classes <= self.n:
            raise InputError(f"{self.classes} classes are out of range: give 1 to the number of entries, {self.n}")
        if not (self.noise >= 0 and np.isfinite(self.noise)):
            raise InputError(f"noise {self.noise} is out of range: give a finite number from 0 up")

    def labels(self, start, stop):
        """Class ids (stop - start,) of entries."""
        places = np.arange(start, stop)
        return places % self.classes if self.in_turn else places * self.classes // self.n

    def rows(self, start, stop):
        """Entries ``start`` to ``stop``, (stop - start, d) float32; the same whatever the chunks."""
        parts = []
        for block in range(start // BLOCK, -(-stop // BLOCK)):
            first = block * BLOCK
            drawn = self._draw(self.labels(first, first + BLOCK).clip(max=self.classes - 1), block)
            parts.append(drawn[max(start - first, 0) : stop - first])
        return np.concatenate(parts) if parts else np.empty((0, self.dim), np.float32)

    def chunks(self, size, start=0):
        """Entries from ``start`` on, at most ``size`` at a time."""
        for first in range(start, self.n, size):
            yield self.rows(first, min(first + size, self.n))

    def queries(self, m):
        """``m`` new rows of evenly spread classes, and their class ids."""
        labels = (
            np.arange(m) * self.classes // m if m >= self.classes else np.linspace(0, self.classes - 1, m).astype(int)
        )
        parts = [self._draw(labels[i : i + BLOCK], -1 - i // BLOCK) for i in range(0, m, BLOCK)]
        return np.concatenate(parts) if parts else np.empty((0, self.dim), np.float32), labels

    @cached_property
    def _centres(self):
        drawn = np.random.default_rng([self.seed, 0]).standard_normal((self.classes, self.dim), np.float32)
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    def _draw(self, labels, block):
        rng = np.random.default_rng([self.seed, 1 if block >= 0 else 2, abs(block)])
        rows = rng.standard_normal((len(labels), self.dim), np.float32)
        rows *= np.float32(self.noise)
        rows += self._centres[labels]
        return to_grid(rows)
