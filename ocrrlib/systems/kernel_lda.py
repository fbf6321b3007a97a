"""Linear discriminants on orthogonal random features of an RBF kernel (Yu et al. 2016), their covariance set once."""

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.shared import shared
from ocrrlib.systems.fourier import Features, lifted, median_distance
from ocrrlib.systems.linear import class_sums
from ocrrlib.systems.scatter import is_known


class OrthogonalFourier(Features):
    """Cosines and sines along frequencies that are orthogonal, d at a time: two features for each frequency.

    At as many features they follow the kernel more closely than frequencies drawn one by one.
    """

    @property
    def nbytes(self):
        """Bytes of the frequencies."""
        return 8 * self.d * (self.features // 2)

    def draw(self):
        """Frequencies (d, D / 2): turned at random, as long as normal ones would be."""
        rng, count, blocks = np.random.default_rng([self.seed, 7]), self.features // 2, []
        for _ in range(0, count, self.d):
            turned, signs = np.linalg.qr(rng.normal(size=(self.d, self.d)))
            blocks.append(turned * np.sign(np.diag(signs)) * np.sqrt(rng.chisquare(self.d, self.d)))
        return np.hstack(blocks)[:, :count] / self.bandwidth

    def __call__(self, X):
        """Features (n, D) float64 of rows (n, d)."""
        angles, half = X.astype(np.float64) @ self.drawn, self.features // 2
        Z = np.empty((len(X), 2 * half))
        np.cos(angles, out=Z[:, :half])
        np.sin(angles, out=Z[:, half:])
        Z *= np.sqrt(1 / half)
        return Z


@shared(keep=2)
def start(X, y, n_classes, lift):
    """Everything that the first rows decide.

    Returns
    -------
    counts : (C,) int64
        Rows of each class.
    sums : (C, D) float64
        Their features, added up.
    values : (D,) float64
        Eigenvalues of the covariance within classes, highest first.
    vectors : (D, r) float64
        The matching eigenvectors, one per column; those of zero eigenvalues may be missing.
    """
    F, counts = lift(X), np.bincount(y, minlength=n_classes)
    sums = class_sums(F, y, n_classes)
    F -= (sums / np.maximum(counts, 1)[:, None])[y]
    free, D = len(y) - np.count_nonzero(counts), lift.features
    if not is_known(np.vdot(F, F), free):  # taken to vary like unit vectors at random
        return counts, sums, np.full(D, 1 / D), np.zeros((D, 0))
    with threadpool_limits(1):  # so that sums are made in one order
        if len(F) < D:
            vectors, lengths, _ = np.linalg.svd(F.T, full_matrices=False)
            return counts, sums, np.append(lengths**2 / free, np.zeros(D - len(F))), vectors
        values, vectors = np.linalg.eigh(F.T @ F / free)
    return counts, sums, np.maximum(values[::-1], 0), vectors[:, ::-1]


class KernelLDA:
    """Log-densities of rows under Gaussian classes with one covariance, given the rows of the class so far.

    Class means run, and are held to the mean of the first rows while rows are few; covariance, bandwidth and
    features are those of the first rows. Beyond the ``rank`` directions in which rows of one class vary most,
    they are taken to vary by the same everywhere: the inverse covariance is ``base * I + U @ diag(gains) @ U.T``.

    Parameters
    ----------
    X, y : (n, d) float32, (n,) int
        The first rows.
    n_classes : int
        Classes in all.
    features : int
        Random features, D.
    bandwidth : float
        Of the kernel, in median distances of the first rows.
    shrinkage : float
        Of the covariance towards a multiple of the identity, above 0.
    prior_rows : float
        How many rows the mean of the first rows counts for against a class's own.
    rank : int
        Directions in which the covariance is kept.
    seed : int
        Of the features.
    """

    def __init__(self, X, y, n_classes, features, bandwidth, shrinkage, prior_rows, rank, seed=0):
        self.lift = OrthogonalFourier(features, seed, X.shape[1], bandwidth * median_distance(X, seed))
        counts, sums, values, vectors = start(X, y, n_classes, self.lift)
        self.counts, self.sums, self.prior_rows = counts.copy(), sums.copy(), prior_rows
        self.centre = sums.sum(axis=0) / max(len(y), 1)
        values, rank = (1 - shrinkage) * values + shrinkage * values.mean(), min(rank, vectors.shape[1], features - 1)
        self.base, self.U = float(1 / values[rank:].mean()), vectors[:, :rank].copy()
        self.gains = 1 / values[:rank] - self.base
        means = self.means()
        self.weights = self.base * means + (means @ self.U * self.gains) @ self.U.T
        self.offset = np.einsum("cd,cd->c", means, self.weights) / -2
        self.changes = []  # classes in the order of their rows

    def means(self, classes=slice(None)):
        """Means of classes, (c, D), held to that of the first rows."""
        weights = np.maximum(self.counts[classes] + self.prior_rows, 1)[..., None]
        return (self.sums[classes] + self.prior_rows * self.centre) / weights

    def project(self, X):
        """Features (m, D) float64 of rows (m, d)."""
        return self.lift(X)

    def project_often(self, X):
        """The same, remembered, for rows that many runs ask about."""
        return lifted(X, self.lift)

    def add(self, z, y):
        """Learn one row, given by its features (D,)."""
        self.counts[y] += 1
        self.sums[y] += z
        mean = self.means(y)
        self.weights[y] = self.base * mean + self.U @ (self.gains * (mean @ self.U))
        self.offset[y] = mean @ self.weights[y] / -2
        self.changes.append(y)

    @property
    def seen(self):
        """(C,) bool: classes that have a row."""
        return self.counts > 0

    def scores(self, Z, classes=slice(None)):
        """Log-densities (m, c), less what all classes have in common, of features (m, D) under some classes."""
        return Z @ self.weights[classes].T + self.offset[classes]

    @property
    def nbytes(self):
        """Bytes of all that is kept."""
        kept = self.U, self.gains, self.centre, self.counts, self.sums, self.weights, self.offset
        return sum(part.nbytes for part in kept) + self.lift.nbytes
