"""Gaussian class models that read a ledger: probabilistic LDA, and LDA on random features of an RBF kernel."""

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.rivals.covariance import basis, is_known
from ocrrlib.rivals.features import cosines_and_sines, median_distance, orthogonal_frequencies
from ocrrlib.shared import shared
from ocrrlib.systems.base import class_means, class_sums


class GaussianClasses:
    """Log-densities of rows under Gaussian classes, given the rows of each class so far.

    ``counts`` (C,) are rows of each class. Log-densities are linear in the features of a row, by
    ``weights`` (C, D) and ``offset`` (C,); ``changes`` lists the classes of the rows learnt, in
    order.
    """

    def __init__(self, counts, sums):
        self.counts, self.sums, self.changes = counts.copy(), sums.copy(), []

    def learn(self, x, y):
        """Learn one row (d,) of class ``y``."""
        self._add(self.project(x[None])[0], y)
        self.changes.append(y)

    def scores(self, F, classes=slice(None)):
        """Log-densities (m, c), less a constant, of features (m, D) under some classes."""
        return F @ self.weights[classes].T + self.offset[classes]

    @property
    def nbytes(self):
        """Bytes of all arrays."""
        return sum(part.nbytes for part in vars(self).values() if isinstance(part, np.ndarray))


@shared(keep=2)
def _plda_start(X, y, n_classes, shrinkage):
    """Basis, counts (C,), sums of coordinates (C, D), squared distances to the class mean (C,), divided by D."""
    centre, P, between = basis(X, y, n_classes, shrinkage)
    with threadpool_limits(1):
        Z = (X - centre) @ P
    sums, counts = class_sums(Z, y, n_classes)
    Z -= class_means(sums, counts)[y]
    scatter = np.zeros(n_classes)
    np.add.at(scatter, y, np.einsum("nd,nd->n", Z, Z) / Z.shape[1])
    return centre, P, between, counts, sums, scatter


class PLDA(GaussianClasses):
    """Two-covariance Gaussian classes (probabilistic LDA; Ioffe 2006), with a spread of each class's own.

    A class mean is Gaussian around ``centre`` and a row Gaussian around its mean. Of a class with n
    rows the mean is known up to a variance that n decides, so that classes of one row and of a
    thousand are compared fairly; the basis is set once. The spread of a class is that of all
    classes, unless its own rows say otherwise. Features are the coordinates of a row, then their
    squares.

    ``X`` (n, d) float32, ``y`` (n,) are the first rows of ``n_classes`` classes. ``shrinkage`` is
    that of the covariance within classes towards a multiple of the identity; ``floor``, above 0,
    the least variance of class means along a coordinate, as new classes may lie where known ones do
    not; ``prior_rows``, above 0, the rows that the common spread counts for against a class's own;
    ``power`` is that of the spread, 0 for none.
    """

    def __init__(self, X, y, n_classes, shrinkage=0.1, floor=0.2, prior_rows=200, power=0.5):
        self.centre, self.P, between, counts, sums, scatter = _plda_start(
            X, y, n_classes, shrinkage
        )
        super().__init__(counts, sums)
        self.between, self.prior_rows, self.power = np.maximum(between, floor), prior_rows, power
        self.scatter, self.offset = scatter.copy(), np.zeros(n_classes)
        self.weights = np.zeros((n_classes, 2 * X.shape[1]))
        for label in np.flatnonzero(self.counts):
            self._derive(label)

    def project(self, X):
        """Features (m, 2 d) float64 of rows (m, d)."""
        Z = (X - self.centre) @ self.P
        return np.hstack([Z, Z**2])

    def _add(self, f, y):
        n, z = self.counts[y], f[: len(self.between)]
        off = z - self.sums[y] / max(n, 1)
        self.scatter[y] += n / (n + 1) * (off @ off) / len(z)
        self.counts[y] += 1
        self.sums[y] += z
        self._derive(y)

    def _derive(self, y):
        n = self.counts[y]
        spread = ((self.prior_rows + self.scatter[y]) / (self.prior_rows + n - 1)) ** self.power
        known = self.between / (n * self.between + 1)  # variance of the mean that is left
        mean, variance = known * self.sums[y], spread + known
        self.weights[y] = np.concatenate([mean / variance, -1 / variance / 2])
        self.offset[y] = -(mean @ (mean / variance) + np.log(variance).sum()) / 2


@shared(keep=2)
def _kernel_start(X, y, n_classes, frequencies):
    """Counts (C,), sums (C, D), eigenvalues (D,) of the covariance within classes, highest first, eigenvectors (D, r).

    Eigenvectors of zero eigenvalues may be missing.
    """
    F = cosines_and_sines(X, frequencies)
    sums, counts = class_sums(F, y, n_classes)
    F -= class_means(sums, counts)[y]
    free, D = len(y) - np.count_nonzero(counts), F.shape[1]
    if not is_known(np.vdot(F, F), free):  # taken to vary like unit vectors at random
        return counts, sums, np.full(D, 1 / D), np.zeros((D, 0))
    with threadpool_limits(1):  # so that sums are made in one order
        if len(F) < D:
            vectors, lengths, _ = np.linalg.svd(F.T, full_matrices=False)
            return counts, sums, np.append(lengths**2 / free, np.zeros(D - len(F))), vectors
        values, vectors = np.linalg.eigh(F.T @ F / free)
    return counts, sums, np.maximum(values[::-1], 0), vectors[:, ::-1]


class KernelLDA(GaussianClasses):
    """Linear discriminants on orthogonal random features of an RBF kernel, their covariance set once.

    Class means run, and are held to the mean of the first rows while rows are few; covariance,
    bandwidth and features are those of the first rows. Beyond the ``rank`` directions in which rows
    of one class vary most, they are taken to vary by the same everywhere: the inverse covariance is
    ``base * I + U @ diag(gains) @ U.T``.

    ``X`` (n, d) float32, ``y`` (n,) are the first rows of ``n_classes`` classes. ``features`` is
    the even number D of random features, drawn from ``seed``; ``bandwidth`` is the kernel's, in
    median distances of the first rows; ``shrinkage``, above 0, that of the covariance towards a
    multiple of the identity; ``prior_rows`` the rows that the mean of the first rows counts for
    against a class's own.
    """

    def __init__(self, X, y, n_classes, features, bandwidth, shrinkage, prior_rows, rank, seed=0):
        width = bandwidth * median_distance(X, seed)
        self.frequencies = orthogonal_frequencies(features // 2, X.shape[1], width, seed)
        counts, sums, values, vectors = _kernel_start(X, y, n_classes, self.frequencies)
        super().__init__(counts, sums)
        self.prior_rows, self.centre = prior_rows, sums.sum(axis=0) / len(y)
        values, rank = (
            (1 - shrinkage) * values + shrinkage * values.mean(),
            min(rank, vectors.shape[1], features - 1),
        )
        self.base, self.U = float(1 / values[rank:].mean()), vectors[:, :rank].copy()
        self.gains = 1 / values[:rank] - self.base
        means = self.means()
        self.weights = self.base * means + (means @ self.U * self.gains) @ self.U.T
        self.offset = np.einsum("cd,cd->c", means, self.weights) / -2

    def means(self, classes=slice(None)):
        """Means of classes, (c, D), held to that of the first rows."""
        return class_means(self.sums[classes], self.counts[classes], self.centre, self.prior_rows)

    def project(self, X):
        """Features (m, D) float64 of rows (m, d)."""
        return cosines_and_sines(X, self.frequencies)

    def _add(self, z, y):
        self.counts[y] += 1
        self.sums[y] += z
        mean = self.means(y)
        self.weights[y] = self.base * mean + self.U @ (self.gains * (mean @ self.U))
        self.offset[y] = mean @ self.weights[y] / -2
