"""Random Fourier features: rows whose products approximate an RBF kernel (Rahimi and Recht 2007)."""

from dataclasses import dataclass

import numpy as np

from ocrrlib.shared import shared

SAMPLE = 1000  # rows that the bandwidth is taken from


@dataclass(frozen=True)
class Features:
    """A map from rows of length d to random features; subclasses say which, and draw what they need.

    Attributes
    ----------
    features : int
        How many, D.
    seed : int
        Seed of what is drawn.
    d : int
        Length of a row.
    bandwidth : float
        Of the kernel that is approximated.
    """

    features: int
    seed: int
    d: int
    bandwidth: float

    @property
    def drawn(self):
        """What ``draw`` draws, remembered."""
        return _drawn(self)


class Fourier(Features):
    """Cosines along frequencies drawn one by one, each with a phase of its own."""

    @property
    def nbytes(self):
        """Bytes of frequencies and phases: without them nothing can be mapped."""
        return 8 * (self.d + 1) * self.features

    def draw(self):
        """Frequencies (d, D) and phases (D,)."""
        rng = np.random.default_rng([self.seed, 2])
        return rng.normal(0, 1 / self.bandwidth, (self.d, self.features)), rng.uniform(0, 2 * np.pi, self.features)

    def __call__(self, X):
        """Features (n, D) float64 of rows (n, d)."""
        frequencies, phases = self.drawn
        Z = X.astype(np.float64) @ frequencies
        Z += phases
        np.cos(Z, out=Z)
        Z *= np.sqrt(2 / self.features)
        return Z


@shared(keep=1)
def _drawn(lift):
    return lift.draw()


@shared(keep=1)
def lifted(X, lift):
    """``lift(X)``, remembered: for rows that several systems ask about again and again."""
    return lift(X)


@shared(keep=1)
def median_distance(X, seed):
    """The median distance between two of at most ``SAMPLE`` rows; 1 where there are no two different ones."""
    rows = np.random.default_rng([seed, 1]).permutation(len(X))[:SAMPLE]
    cosines = (X[rows].astype(np.float64) @ X[rows].T.astype(np.float64))[np.triu_indices(len(rows), 1)]
    # Unit rows; the mid of an even number of pairs is the lower one, an exact value.
    return float(np.sqrt(max(2 - 2 * np.quantile(cosines, 0.5, method="lower"), 0)) or 1.0) if len(cosines) else 1.0
