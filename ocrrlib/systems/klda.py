"""``klda``: LDA on random Fourier features, as in RanDumb (Prabhu et al. 2024) and KLDA (Momeni et al. 2025)."""

from ocrrlib.systems.base import Storage
from ocrrlib.systems.fourier import Fourier, lifted, median_distance
from ocrrlib.systems.slda import SLDA


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
        return lifted(Q, self.lift)

    def storage(self):
        lda = super().storage()
        return Storage(lda.bytes + self.lift.nbytes, parameters=lda.parameters)
