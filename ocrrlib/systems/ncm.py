"""``ncm``: nearest class mean (Mensink et al. 2013); ``ncm_cosine``: with unit means (iCaRL, Rebuffi et al. 2017)."""

import numpy as np

from ocrrlib.systems.base import Storage, System
from ocrrlib.systems.linear import TEMPERATURE, best_seen, class_sums, softmax_seen
from ocrrlib.systems.standing import StandingScores, span


class NCM(System):
    """Answers the class whose mean has the smallest Euclidean distance.

    Parameters
    ----------
    unit : bool
        Whether means are scaled to length 1 first, so that the highest cosine decides.
        Raw means are short where a class is spread out, which favours such a class for far rows.
    """

    def __init__(self, seed=0, unit=False):
        super().__init__(seed)
        self.unit = unit

    def _fit(self, X, y):
        self.sums, self.counts = class_sums(X, y, self.n_classes), np.bincount(y, minlength=self.n_classes)
        self.means, self.half_squares = np.zeros_like(self.sums), np.zeros(self.n_classes)
        self.changes = []  # classes in the order of their corrections
        for label in np.flatnonzero(self.counts):
            self._derive(label)

    def _derive(self, label):
        mean = self.sums[label] / self.counts[label]
        length = np.sqrt(np.einsum("d,d->", mean, mean))
        if self.unit and length > 0:
            mean, length = mean / length, 1.0
        self.means[label], self.half_squares[label] = mean, length**2 / 2

    def _scores(self, X, classes=slice(None)):
        """Half the squared distance, without the part that is the same for all classes, negated."""
        return X.astype(np.float64, copy=False) @ self.means[classes].T - self.half_squares[classes]

    def _predict(self, X):
        return best_seen(self._scores(X), self.counts > 0)

    def _probabilities(self, X):
        return softmax_seen(self._scores(X) / TEMPERATURE, self.counts > 0)

    def _correct(self, x, y):
        self.sums[y] += x
        self.counts[y] += 1
        self._derive(y)
        self.changes.append(y)

    def watch(self, Q):
        Z = Q.astype(np.float64)
        standing = StandingScores(
            lambda rows, classes: self._scores(Z[span(rows)], classes), len(Q), self.n_classes, self.changes
        )
        return lambda rows: best_seen(standing(rows), self.counts > 0)

    def storage(self):
        """Sums and counts; means are derived from them."""
        return Storage(self.sums.nbytes + self.counts.nbytes, parameters=self.sums.size)
