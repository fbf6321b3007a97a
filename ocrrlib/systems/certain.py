"""The best class of many rows: float32 finds it where it leaves no doubt, float64 decides the rest."""

import numpy as np

from ocrrlib.systems.linear import DECIMALS, best_seen

FEW = 32  # for fewer rows, float64 at once is faster than float32 first
ROUNDING = 2.0**-23  # twice the largest relative error of one float32 operation
MOST = 1e15  # weights so large may be too large for float32


def best_class(X, W, b, seen=None):
    """The class with the highest logit of X W^T + b of each row, as from ``best_seen``, or ``argmax`` among all.

    Parameters
    ----------
    X : (m, d) float32
        Unit rows.
    W, b : (C, d) and (C,) float64
        Weights and intercepts.
    seen : (C,) bool, optional
        Classes that may be answered; all without it.

    Returns
    -------
    (m,) int64
        -1 where no class was seen.
    """
    if len(X) < FEW or len(b) < 2 or not np.abs(W).max() + np.abs(b).max() < MOST:
        return _decide(X, W, b, seen)
    rough = X @ W.T.astype(np.float32)
    rough += (b if seen is None else np.where(seen, b, -np.inf)).astype(np.float32)
    rows, best = np.arange(len(X)), rough.argmax(axis=1)
    top = rough[rows, best]
    rough[rows, best] = -np.inf
    longest = np.sqrt(np.einsum("cd,cd->c", W, W)).max() + np.abs(b).max()
    slack = 2 * ROUNDING * (W.shape[1] + 2) * longest + 10 ** (1 - DECIMALS)  # scores may count as equal
    with np.errstate(invalid="ignore"):  # where no class was seen
        unclear = ~(top - rough.max(axis=1) > slack)
    best[unclear] = _decide(X[unclear], W, b, seen)
    return best


def _decide(X, W, b, seen):
    logits = X.astype(np.float64) @ W.T + b
    return logits.argmax(axis=1) if seen is None else best_seen(logits, seen)
