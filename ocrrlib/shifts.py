"""Initial rows in another order."""

from dataclasses import replace

import numpy as np


def shuffled(scenario):
    """The same scenario with its initial rows in random order, drawn from its seed."""
    order = np.random.default_rng(scenario.seed).permutation(len(scenario.y_initial))
    return replace(scenario, X_initial=scenario.X_initial[order], y_initial=scenario.y_initial[order])
