"""Correction policies: which wrong predictions get corrected (paper, section 3.2)."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Policy:
    """A wrong prediction is corrected with probability ``p``, independently per stream position."""

    name: str
    p: float

    def coins(self, seed, n):
        """Which of ``n`` stream positions are corrected if wrong, as (n,) bool.

        One coin per position, so that every system sees the same ones.
        """
        return np.random.default_rng([seed, 1]).random(n) < self.p


POLICIES = {policy.name: policy for policy in (Policy("oracle", 1.0), Policy("random50", 0.5), Policy("random10", 0.1))}
