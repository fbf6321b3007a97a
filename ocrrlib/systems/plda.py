"""Two-covariance Gaussian classes (probabilistic LDA; Ioffe 2006), with a spread of each class's own."""

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.shared import shared
from ocrrlib.systems.linear import class_sums
from ocrrlib.systems.scatter import is_known

LEAST = 1e-3  # least variance of a direction within classes, as a share of the mean variance


def basis(X, y, n_classes, shrinkage):
    """Coordinates in which rows of one class vary by 1 in every direction, and class means independently.

    Where rows of one class are not known to vary, they are taken to vary like unit vectors at random.

    Returns
    -------
    centre : (d,) float64
        Mean of the class means.
    P : (d, d) float64
        Projection; rows are ``(X - centre) @ P``.
    between : (d,) float64
        Variance of class means along each coordinate, highest first; may be negative.
    """
    d, counts = X.shape[1], np.bincount(y, minlength=n_classes)
    known, free = counts > 0, len(y) - np.count_nonzero(counts)
    sums = class_sums(X, y, n_classes)
    R = X - (sums / np.maximum(counts, 1)[:, None])[y]
    with threadpool_limits(1):  # so that sums are made in one order
        scatter = np.vdot(R, R)
    if not is_known(scatter, free, np.vdot(X, X) / max(len(X), 1)):
        return np.zeros(d), np.sqrt(d) * np.eye(d), np.zeros(d)
    means = sums[known] / counts[known, None]
    centre = means.mean(axis=0)
    with threadpool_limits(1):
        W = (1 - shrinkage) * (R.T @ R) / free
        variance = scatter / free / d
        W.flat[:: d + 1] += shrinkage * variance
        values, vectors = np.linalg.eigh(W)
        whiten = vectors / np.sqrt(np.maximum(values, LEAST * variance))
        C = (means - centre) @ whiten
        # Means of few rows vary by themselves, too: by 1 / rows, in these coordinates.
        B = C.T @ C / max(len(means) - 1, 1) - np.eye(d) * np.mean(1 / counts[known])
        between, rotation = np.linalg.eigh(B)
    return centre, whiten @ rotation[:, ::-1], between[::-1]


@shared(keep=2)
def start(X, y, n_classes, shrinkage):
    """Everything that the first rows decide.

    Returns
    -------
    centre, P, between
        As from ``basis``.
    counts : (C,) int64
        Rows of each class.
    sums : (C, D) float64
        Their coordinates, added up.
    scatter : (C,) float64
        Their squared distances to the mean of their class, added up and divided by D.
    """
    centre, P, between = basis(X, y, n_classes, shrinkage)
    with threadpool_limits(1):
        Z = (X - centre) @ P
    counts, sums, scatter = np.bincount(y, minlength=n_classes), class_sums(Z, y, n_classes), np.zeros(n_classes)
    Z -= (sums / np.maximum(counts, 1)[:, None])[y]
    np.add.at(scatter, y, np.einsum("nd,nd->n", Z, Z) / Z.shape[1])
    for array in (found := (centre, P, between, counts, sums, scatter)):
        array.flags.writeable = False
    return found


@shared(keep=1)
def _projected(X, centre, P):
    return (X - centre) @ P


class PLDA:
    """Log-densities of rows under each class, given the rows of the class so far.

    A class mean is Gaussian around ``centre`` and a row Gaussian around its mean. Of a class with
    n rows the mean is known up to a variance that n decides, so that classes of one row and of a
    thousand are compared fairly; the basis is set once. The spread of a class is that of all classes,
    unless its own rows say otherwise.

    Parameters
    ----------
    X, y : (n, d) float32, (n,) int
        The rows that the basis is made from.
    n_classes : int
        Classes in all.
    shrinkage : float
        Of the covariance within classes towards a multiple of the identity.
    floor : float
        Least variance of class means along each coordinate, above 0: new classes may lie where known ones do not.
    prior_rows : float
        How many rows the common spread counts for against a class's own.
    power : float
        Power of the spread; 0 gives all classes the same.
    """

    def __init__(self, X, y, n_classes, shrinkage=0.1, floor=0.2, prior_rows=200, power=0.5):
        self.centre, self.P, between, counts, sums, scatter = start(X, y, n_classes, shrinkage)
        self.between, self.prior_rows, self.power = np.maximum(between, floor), prior_rows, power
        self.counts, self.sums, self.scatter = counts.copy(), sums.copy(), scatter.copy()
        self.precision, self.weights, self.offset = np.zeros_like(sums), np.zeros_like(sums), np.zeros(n_classes)
        self.changes = []  # classes in the order of their rows
        for label in np.flatnonzero(self.counts):
            self._derive(label)

    def project(self, X):
        """Coordinates (m, D) float64 of rows (m, d)."""
        return (X - self.centre) @ self.P

    def project_often(self, X):
        """The same, remembered, for rows that many runs ask about."""
        return _projected(X, self.centre, self.P)

    def add(self, z, y):
        """Learn one row, given by its coordinates (D,)."""
        n = self.counts[y]
        if n:
            off = z - self.sums[y] / n
            self.scatter[y] += n / (n + 1) * (off @ off) / len(z)
        self.counts[y] += 1
        self.sums[y] += z
        self._derive(y)
        self.changes.append(y)

    def _derive(self, y):
        n, own = self.counts[y], self.prior_rows + self.scatter[y]
        rows = self.prior_rows + n - 1  # that say how wide the class is; where none does, it is as wide as all
        spread = (own / rows) ** self.power if rows else 1.0
        known = self.between / (n * self.between + 1)  # variance of the mean that is left
        mean, variance = known * self.sums[y], spread + known
        self.precision[y] = 1 / variance
        self.weights[y] = mean / variance
        self.offset[y] = -(mean @ self.weights[y] + np.log(variance).sum()) / 2

    @property
    def seen(self):
        """(C,) bool: classes that have a row."""
        return self.counts > 0

    def scores(self, Z, squares, classes=slice(None)):
        """Log-densities (m, c), less a constant, of coordinates (m, d) and their squares under some classes."""
        return Z @ self.weights[classes].T - squares @ (self.precision[classes] / 2).T + self.offset[classes]

    @property
    def nbytes(self):
        """Bytes of all that is kept."""
        kept = self.P, self.sums, self.counts, self.scatter, self.precision, self.weights, self.offset
        return sum(part.nbytes for part in kept) + self.centre.nbytes + self.between.nbytes
