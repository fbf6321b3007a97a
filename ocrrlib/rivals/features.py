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
    cosines = (X[rows].astype(np.float64) @ X[rows].T.astype(np.float64))[
        np.triu_indices(len(rows), 1)
    ]
    # Unit rows; the mid of an even number of pairs is the lower one, an exact value.
    return (
        float(np.sqrt(max(2 - 2 * np.quantile(cosines, 0.5, method="lower"), 0)) or 1.0)
        if len(cosines)
        else 1.0
    )


def orthogonal_frequencies(count, d, bandwidth, seed):
    """Frequencies (d, count) of an RBF kernel, orthogonal d at a time (Yu et al. 2016), as long as normal ones."""
    rng, blocks = np.random.default_rng([seed, 7]), []
    for _ in range(0, count, d):
        turned, signs = np.linalg.qr(rng.normal(size=(d, d)))
        blocks.append(turned * np.sign(np.diag(signs)) * np.sqrt(rng.chisquare(d, d)))
    return np.hstack(blocks)[:, :count] / bandwidth


def cosines_and_sines(X, frequencies):
    """Two features of unit length in all for each frequency (d, f) of rows (n, d): (n, 2 f) float64.

    At as many features they follow the kernel more closely than cosines along frequencies drawn one
    by one.
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
