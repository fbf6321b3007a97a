"""``klda``: LDA on random Fourier features, as in RanDumb (Prabhu et al. 2024) and KLDA (Momeni et al. 2025)."""

from dataclasses import dataclass

import numpy as np

from ocrrlib.shared import shared
from ocrrlib.systems.base import Storage
from ocrrlib.systems.slda import SLDA

SAMPLE = 1000  # initial rows that the bandwidth is taken from


@dataclass(frozen=True)
class Fourier:
    """Random features whose products approximate an RBF kernel (Rahimi and Recht 2007)."""

    features: int
    seed: int
    d: int
    bandwidth: float

    def draw(self):
        """Frequencies (d, D) and phases (D,)."""
        rng = np.random.default_rng([self.seed, 2])
        return rng.normal(0, 1 / self.bandwidth, (self.d, self.features)), rng.uniform(0, 2 * np.pi, self.features)

    def __call__(self, X):
        """Features (n, D) float64 of rows (n, d)."""
        frequencies, phases = _drawn(self)
        Z = X.astype(np.float64) @ frequencies
        Z += phases
        np.cos(Z, out=Z)
        Z *= np.sqrt(2 / self.features)
        return Z


@shared(keep=1)
def _drawn(lift):
    return lift.draw()


@shared(keep=1)
def _watched(Q, lift):
    return lift(Q)


@shared(keep=1)
def median_distance(X, seed):
    """The median distance between two of at most ``SAMPLE`` rows; 1 where there are no two different ones."""
    rows = np.random.default_rng([seed, 1]).permutation(len(X))[:SAMPLE]
    cosines = (X[rows].astype(np.float64) @ X[rows].T.astype(np.float64))[np.triu_indices(len(rows), 1)]
    # Unit rows; the mid of an even number of pairs is the lower one, an exact value.
    return float(np.sqrt(max(2 - 2 * np.quantile(cosines, 0.5, method="lower"), 0)) or 1.0) if len(cosines) else 1.0


class KLDA(SLDA):
    """SLDA on random features of the rows.

    Number of features, bandwidth (the median distance of rows) and shrinkage are this benchmark's
    own choice.  RanDumb's code has 10,000 features by default, a bandwidth by scikit-learn's
    "scale" rule and the shrinkage of an OAS estimate.

    Parameters
    ----------
    features : int
        Number of random features.
    shrinkage, target
        Of the covariance, as for ``SLDA``.
    """

    def __init__(self, seed=0, features=2000, shrinkage=0.2, target="variance"):
        super().__init__(seed, shrinkage, target)
        self.features = features

    def _fit(self, X, y):
        self.lift = Fourier(self.features, self.seed, self.dim, median_distance(X, self.seed))
        super()._fit(X, y)

    def _fixed(self, Q):
        return _watched(Q, self.lift)

    def storage(self):
        """Frequencies and phases count: without them nothing can be predicted."""
        lda = super().storage()
        return Storage(lda.bytes + 8 * (self.dim + 1) * self.features, parameters=lda.parameters)
