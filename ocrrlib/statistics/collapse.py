"""Which systems do not know the original classes any more."""

import numpy as np

FLOOR = "static_linear"  # what knows the original classes and nothing else
DROP = 0.05  # original accuracy that a system may be below it


def collapsed(original, floor, drop=DROP):
    """Whether mean original accuracies are more than ``drop`` below the floor's; none is where that is NaN.

    Parameters
    ----------
    original : (n,) array
        Fractions of test rows.
    floor : float
        The same of ``FLOOR``.

    Returns
    -------
    (n,) bool
    """
    return np.round(original - (floor - drop), 12) < 0  # a difference by rounding alone is none
