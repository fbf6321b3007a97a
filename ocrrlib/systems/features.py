"""Random features of rows: Fourier features of an RBF kernel, drawn one by one or orthogonally, and rectified ones."""

import numpy as np

SAMPLE = 1000  # rows that the bandwidth of random features is taken from


def lift(X, frequencies=None, phases=0.0):
    """Rows (n, d) as float64, or their random Fourier features (n, D) (Rahimi and Recht 2007)."""
    Z = X.astype(np.float64)
    if frequencies is not None:
        Z = Z @ frequencies
        Z += phases
        np.cos(Z, out=Z)
        Z *= np.sqrt(2 / len(phases))
    return Z


def draw_features(features, d, bandwidth, seed):
    """Frequencies (d, D) and phases (D,) of features whose products approximate an RBF kernel of this bandwidth."""
    rng = np.random.default_rng([seed, 2])
    return rng.normal(0, 1 / bandwidth, (d, features)), rng.uniform(0, 2 * np.pi, features)


def median_distance(X, seed):
    """The median distance between two of at most ``SAMPLE`` rows; 1 where there are no two different ones."""
    rows = np.random.default_rng([seed, 1]).permutation(len(X))[:SAMPLE]
    cosines = (X[rows].astype(np.float64) @ X[rows].T.astype(np.float64))[np.triu_indices(len(rows), 1)]
    # Unit rows; the mid of an even number of pairs is the lower one, an exact value.
    return float(np.sqrt(max(2 - 2 * np.quantile(cosines, 0.5, method="lower"), 0)) or 1.0) if len(cosines) else 1.0


def orthogonal_frequencies(count, d, bandwidth, seed):
    """Frequencies (d, count) of an RBF kernel, orthogonal d at a time (Yu et al. 2016), as long as normal ones."""
    rng, blocks = np.random.default_rng([seed, 7]), []
    for _ in range(0, count, d):
        turned, signs = np.linalg.qr(rng.normal(size=(d, d)))
        blocks.append(turned * np.sign(np.diag(signs)) * np.sqrt(rng.chisquare(d, d)))
    return np.hstack(blocks)[:, :count] / bandwidth


def cosines_and_sines(X, frequencies):
    """Two features of unit length in all for each frequency (d, f) of rows (n, d): (n, 2 f) float64.

    At as many features they follow the kernel more closely than cosines along frequencies drawn one by one.
    """
    angles, half = X.astype(np.float64) @ frequencies, frequencies.shape[1]
    F = np.empty((len(X), 2 * half))
    np.cos(angles, out=F[:, :half])
    np.sin(angles, out=F[:, half:])
    F *= np.sqrt(1 / half)
    return F


def rectified(X, projection):
    """Positive parts of rows (n, d) along the columns of a normal projection (d, M): (n, M) float64.

    Scaled so that features of a unit row have unit length on average.
    """
    F = X.astype(np.float64) @ projection
    np.maximum(F, 0, out=F)
    F *= np.sqrt(2 / F.shape[1])
    return F


def in_a_row(rows):
    """Row numbers as a slice, so that large features are not copied, where each follows the one before."""
    return slice(rows[0], rows[-1] + 1) if (np.diff(rows) == 1).all() else rows


class StandingProducts:
    """Products of fixed features (q, D) with vectors (D,) of a list that only grows, each computed once.

    Where weights change by terms of rank one, few vectors come between two tests and there are many classes.
    """

    def __init__(self, F):
        self.F, self.upto, self.known = F, np.zeros(len(F), np.int64), 0
        self.V, self.kept = np.empty((0, F.shape[1])), np.empty((len(F), 0))

    def __call__(self, vectors, rows):
        """Products (len(rows), k) of the features ``rows`` with all vectors so far."""
        k, upto = len(vectors), self.upto[rows]
        if k > len(self.V):
            self.V = np.vstack([self.V, np.empty((k, self.V.shape[1]))])
            self.kept = np.hstack([self.kept, np.empty((len(self.F), k))])
        if k > self.known:
            self.V[self.known : k], self.known = vectors[self.known :], k
        for first in np.unique(upto[upto < k]):
            stale = in_a_row(rows[upto == first])
            self.kept[stale, first:k] = self.F[stale] @ self.V[first:k].T
        self.upto[rows] = k
        return self.kept[rows, :k]
