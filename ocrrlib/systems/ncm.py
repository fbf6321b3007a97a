"""``ncm``: nearest class mean (Mensink et al. 2013, Distance-based image classification)."""

import numpy as np

from ocrrlib.systems.base import Storage, System
from ocrrlib.systems.linear import best_seen


class NCM(System):
    """Answers the class whose mean has the smallest Euclidean distance; there is nothing to set."""

    def _fit(self, X, y):
        self.sums, self.counts = np.zeros((self.n_classes, self.dim)), np.bincount(y, minlength=self.n_classes)
        np.add.at(self.sums, y, X)  # exact: rows are multiples of 2**-24, so their order does not matter
        self._derive()

    def _derive(self):
        self.means = self.sums / np.maximum(self.counts, 1)[:, None]
        self.half_squares = np.einsum("cd,cd->c", self.means, self.means) / 2

    def _predict(self, X):
        # Half the squared distance, without the part that is the same for all classes, negated.
        return best_seen(X.astype(np.float64) @ self.means.T - self.half_squares, self.counts > 0)

    def _correct(self, x, y):
        self.sums[y] += x
        self.counts[y] += 1
        self.means[y] = self.sums[y] / self.counts[y]
        self.half_squares[y] = np.einsum("d,d->", self.means[y], self.means[y]) / 2

    def storage(self):
        """Sums and counts; means are derived from them."""
        return Storage(self.sums.nbytes + self.counts.nbytes, parameters=self.sums.size)
