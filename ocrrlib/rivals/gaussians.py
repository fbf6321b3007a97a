"""Gaussian class models that read a ledger: probabilistic LDA, and LDA on kernel features."""

import numpy as np
from threadpoolctl import threadpool_limits

from ocrrlib.rivals.covariance import discriminant_basis, varies
from ocrrlib.rivals.features import cosines_and_sines, median_distance, orthogonal_frequencies
from ocrrlib.systems.base import class_means, class_sums

ALL_CLASSES = slice(None)


class GaussianClasses:
    """Log-densities of rows under Gaussian classes, given the rows of each class so far.

    ``counts`` (C,) and ``sums`` (C, D) are numbers and sums of the rows of each class.
    Log-densities are linear in the features of a row, by ``weights`` (C, F) and ``offset`` (C,).
    ``changes`` lists the classes of the rows learnt, in order. Subclasses have ``project`` and
    ``_add``.
    """

    weights: np.ndarray
    offset: np.ndarray

    def __init__(self, counts: np.ndarray, sums: np.ndarray):
        self.counts = counts.copy()
        self.sums = sums.copy()
        self.changes: list[int] = []

    def project(self, X: np.ndarray) -> np.ndarray:
        """Features (m, F) float64 of rows (m, d)."""
        raise NotImplementedError

    def _add(self, features: np.ndarray, y: int) -> None:
        raise NotImplementedError

    def learn(self, x: np.ndarray, y: int) -> None:
        """Learn one row (d,) of class ``y``."""
        self._add(self.project(x[None])[0], y)
        self.changes.append(y)

    def scores(self, features: np.ndarray, classes: slice | np.ndarray = ALL_CLASSES) -> np.ndarray:
        """Log-densities (m, c), less a constant, of features (m, F) under some classes."""
        return features @ self.weights[classes].T + self.offset[classes]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(part.nbytes for part in vars(self).values() if isinstance(part, np.ndarray))


class PLDA(GaussianClasses):
    """Two-covariance Gaussian classes (probabilistic LDA; Ioffe 2006), each with its own spread.

    A class mean is Gaussian around ``mu``, and a row is Gaussian around its class mean. Of a class
    with n rows the mean is known up to a variance that depends on n, so that classes of one row and
    of a thousand are compared fairly. The basis ``P`` and the variances ``psi`` of class means are
    those of the first rows. The spread of a class is the common one unless its own rows say
    otherwise. Features are the coordinates of a row, then their squares.

    ``X`` (n, d) float32 and ``y`` (n,) are the first rows of ``n_classes`` classes. ``shrinkage``
    is the weight of the identity in the covariance within classes. ``floor``, above 0, is the least
    variance of class means along a coordinate, as new classes may lie where known ones do not.
    ``prior_rows``, above 0, is the number of rows that the common spread counts for, and ``power``
    the exponent of the spread, 0 for a common one.
    """

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        n_classes: int,
        shrinkage: float = 0.1,
        floor: float = 0.2,
        prior_rows: float = 200,
        power: float = 0.5,
    ):
        self.mu, self.P, between = discriminant_basis(X, y, n_classes, shrinkage)
        with threadpool_limits(1):  # so that sums are made in one order
            Z = (X - self.mu) @ self.P
        sums, counts = class_sums(Z, y, n_classes)
        super().__init__(counts, sums)
        self.psi = np.maximum(between, floor)
        self.prior_rows = prior_rows
        self.power = power
        # q_c = sum over rows of |z - mean|^2 / d
        R = Z - class_means(sums, counts)[y]
        self.scatter = np.zeros(n_classes)
        np.add.at(self.scatter, y, np.einsum("nd,nd->n", R, R) / Z.shape[1])
        self.weights = np.zeros((n_classes, 2 * X.shape[1]))
        self.offset = np.zeros(n_classes)
        for label in np.flatnonzero(self.counts):
            self._derive(label)

    def project(self, X: np.ndarray) -> np.ndarray:
        """Features (m, 2 d) float64 of rows (m, d)."""
        Z = (X - self.mu) @ self.P
        return np.hstack([Z, Z**2])

    def _add(self, features, y):
        n = self.counts[y]
        z = features[: len(self.psi)]
        off = z - self.sums[y] / max(n, 1)
        self.scatter[y] += n / (n + 1) * (off @ off) / len(z)
        self.counts[y] += 1
        self.sums[y] += z
        self._derive(y)

    def _derive(self, y):
        """Set weights and offset of class ``y``, which has n rows z with the sum t.

        In each coordinate the class mean is N(0, psi) a priori and N(kappa t, kappa) given its
        rows, with kappa = psi / (n psi + 1). A further row is therefore N(m, v), with m = kappa t
        and v = sigma + kappa, where the spread sigma is ((r + q) / (r + n - 1))^power, and
        ``prior_rows`` is r.
        """
        n = self.counts[y]
        r = self.prior_rows
        sigma = ((r + self.scatter[y]) / (r + n - 1)) ** self.power
        kappa = self.psi / (n * self.psi + 1)
        m = kappa * self.sums[y]
        v = sigma + kappa
        # log N(z; m, v) = z m / v - z^2 / (2 v) - (m^2 / v + log v) / 2 + constant
        self.weights[y] = np.concatenate([m / v, -1 / v / 2])
        self.offset[y] = -(m @ (m / v) + np.log(v).sum()) / 2


class KernelLDA(GaussianClasses):
    """Linear discriminants on orthogonal random features of an RBF kernel (Yu et al. 2016).

    Class means run, and are held to the mean of the first rows while there are few rows. Bandwidth,
    features and covariance are those of the first rows. Beyond the ``rank`` directions in which
    rows of one class vary most, they are taken to vary by the same everywhere: the inverse
    covariance is ``base * I + U @ diag(gains) @ U.T``.

    ``X`` (n, d) float32 and ``y`` (n,) are the first rows of ``n_classes`` classes. ``features`` is
    the even number D of random features, drawn from ``seed``; ``bandwidth`` is the kernel's, in
    median distances of the first rows; ``shrinkage``, above 0, is the weight of the identity in the
    covariance; ``prior_rows`` is the number of rows that the mean of the first rows counts for.
    """

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        n_classes: int,
        features: int,
        bandwidth: float,
        shrinkage: float,
        prior_rows: float,
        rank: int,
        seed: int = 0,
    ):
        width = bandwidth * median_distance(X, seed)
        self.frequencies = orthogonal_frequencies(features // 2, X.shape[1], width, seed)
        F = self.project(X)
        sums, counts = class_sums(F, y, n_classes)
        super().__init__(counts, sums)
        self.prior_rows = prior_rows
        self.centre = sums.sum(axis=0) / len(y)
        F -= class_means(sums, counts)[y]
        values, vectors = _principal_axes(F, len(y) - int(np.count_nonzero(counts)))
        # (1 - s) Sigma + s mean(values) I has the same axes
        values = (1 - shrinkage) * values + shrinkage * values.mean()
        rank = min(rank, vectors.shape[1], features - 1)
        self.base = float(1 / values[rank:].mean())
        self.U = vectors[:, :rank].copy()
        self.gains = 1 / values[:rank] - self.base
        # w_c = Sigma^-1 m_c = base m_c + U diag(gains) U^T m_c
        means = self.means()
        self.weights = self.base * means + (means @ self.U * self.gains) @ self.U.T
        self.offset = np.einsum("cd,cd->c", means, self.weights) / -2

    def means(self, classes: slice | int = ALL_CLASSES) -> np.ndarray:
        """Means of classes, (c, D), held to that of the first rows."""
        return class_means(self.sums[classes], self.counts[classes], self.centre, self.prior_rows)

    def project(self, X: np.ndarray) -> np.ndarray:
        """Features (m, D) float64 of rows (m, d)."""
        return cosines_and_sines(X, self.frequencies)

    def _add(self, features, y):
        self.counts[y] += 1
        self.sums[y] += features
        # log p(z | c) = z . w_c - m_c . w_c / 2 + constant,  with w_c = Sigma^-1 m_c
        m = self.means(y)
        self.weights[y] = self.base * m + self.U @ (self.gains * (m @ self.U))
        self.offset[y] = m @ self.weights[y] / -2


def _principal_axes(R: np.ndarray, dof: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues (D,), highest first, and eigenvectors (D, r) of the covariance R^T R / dof.

    ``R`` (n, D) are residuals of rows; eigenvectors of zero eigenvalues may be missing. If rows do
    not vary, unit vectors at random are assumed instead, of covariance I / D.
    """
    n, D = R.shape
    if not varies(np.vdot(R, R), dof):
        return np.full(D, 1 / D), np.zeros((D, 0))
    with threadpool_limits(1):  # so that sums are made in one order
        if n < D:
            vectors, lengths, _ = np.linalg.svd(R.T, full_matrices=False)
            return np.append(lengths**2 / dof, np.zeros(D - n)), vectors
        values, vectors = np.linalg.eigh(R.T @ R / dof)
    return np.maximum(values[::-1], 0), vectors[:, ::-1]
