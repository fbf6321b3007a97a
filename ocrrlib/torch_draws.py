"""torch's random draws without torch: the published heads start from them.

torch and NumPy share the Mersenne Twister; what torch makes of its 32-bit words
for ``nn.Linear`` and ``randperm`` on a CPU is repeated here, so that the
benchmark on embeddings needs no torch.  A test compares both.
"""

import math

import numpy as np


class TorchDraws:
    """A stand-in for ``torch.Generator().manual_seed(seed)``."""

    def __init__(self, seed):
        # RandomState seeds the twister as torch does; default_rng would not.
        self._words = np.random.RandomState(seed)._bit_generator.random_raw

    def uniform(self, low, high, shape):
        """``torch.empty(shape).uniform_(low, high)``, float32."""
        fractions = (self._words(int(np.prod(shape))) & 0xFFFFFF) * 2.0**-24
        low, high = np.float32(low), np.float32(high)
        # The sum is rounded once: torch multiplies and adds in one instruction.
        return (fractions * float(high - low) + float(low)).astype(np.float32).reshape(shape)

    def linear(self, d, n_classes):
        """Initial weight (n_classes, d) and bias (n_classes,) of ``torch.nn.Linear``, float32."""
        wide, bound = math.sqrt(3.0) * (math.sqrt(2.0 / 6.0) / math.sqrt(d)), 1 / math.sqrt(d)
        return self.uniform(-wide, wide, (n_classes, d)), self.uniform(-bound, bound, (n_classes,))

    def permutation(self, n):
        """``torch.randperm(n)``."""
        order = list(range(n))
        if n > 1:
            hops = self._words(n - 1) % np.arange(n, 1, -1, dtype=np.uint64)
            for i, hop in enumerate(hops.tolist()):
                order[i], order[i + hop] = order[i + hop], order[i]
        return np.array(order)
