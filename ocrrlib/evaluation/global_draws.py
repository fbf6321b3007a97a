"""Generators that a whole process shares, for systems that draw from these."""

import random
import sys
from contextlib import contextmanager

import numpy as np


@contextmanager
def seeded(seed):
    """Python's, NumPy's and, where it is imported, torch's own generators start from a seed, and are then as before."""
    torch = sys.modules.get("torch")
    before = random.getstate(), np.random.get_state(), torch and torch.get_rng_state()
    random.seed(seed)
    np.random.seed(seed)
    if torch:
        torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        if torch:
            torch.set_rng_state(before[2])
