"""Random features of rows: Fourier features of an RBF kernel, and rectified projections."""

import numpy as np

BANDWIDTH_ROWS = 1000  # whose distances the bandwidth is taken from


def lift(
    X: np.ndarray, frequencies: np.ndarray | None = None, phases: np.ndarray | None = None
) -> np.ndarray:
    """Random Fourier features (n, D) float64 of rows (n, d) (Rahimi and Recht 2007).

    Without ``frequencies`` (d, D) and ``phases`` (D,), the rows themselves, as float64.
    """
    Z = X.astype(np.float64)
    if frequencies is not None and phases is not None:
        # z(x) = sqrt(2 / D) cos(x Omega + phi), so that z(x) . z(x') ~ exp(-|x - x'|^2 / 2 sigma^2)
        Z = Z @ frequencies
        Z += phases
        np.cos(Z, out=Z)
        Z *= np.sqrt(2 / len(phases))
    return Z


def draw_features(
    features: int, d: int, bandwidth: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies (d, D) and phases (D,) of Fourier features of an RBF kernel, for ``lift``."""
    rng = np.random.default_rng([seed, 2])
    frequencies = rng.normal(0, 1 / bandwidth, (d, features))
    phases = rng.uniform(0, 2 * np.pi, features)
    return frequencies, phases


def median_distance(X: np.ndarray, seed: int) -> float:
    """The median distance between two of at most ``BANDWIDTH_ROWS`` unit rows (n, d).

    Returns 1 if that is 0, or there is one row.
    """
    rows = np.random.default_rng([seed, 1]).permutation(len(X))[:BANDWIDTH_ROWS]
    sample = X[rows].astype(np.float64)
    cosines = (sample @ sample.T)[np.triu_indices(len(rows), 1)]
    if not len(cosines):
        return 1.0
    # Of an even number of pairs the lower median, which is an exact value.
    middle = np.quantile(cosines, 0.5, method="lower")
    distance = float(np.sqrt(max(2 - 2 * middle, 0)))  # |a - b|^2 = 2 - 2 a . b
    return distance or 1.0


def rectified(X: np.ndarray, projection: np.ndarray) -> np.ndarray:
    """Rectified projections (n, M) float64 of rows (n, d), by a normal projection (d, M).

    Scaled so that features of a unit row have unit length on average.
    """
    # z(x) = sqrt(2 / M) max(0, x P)
    F = X.astype(np.float64) @ projection
    np.maximum(F, 0, out=F)
    F *= np.sqrt(2 / F.shape[1])
    return F
