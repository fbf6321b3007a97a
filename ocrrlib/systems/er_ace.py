"""``er_ace``: replay with an asymmetric cross-entropy (Caccia et al. 2022, ER-ACE)."""

import numpy as np

from ocrrlib.systems.replay import Replay


class ERACE(Replay):
    """New rows compete among the classes of their own batch, remembered ones among all classes seen.

    So a new class does not push known ones aside; only remembered rows set it against them.
    A batch of one example would have one class and no gradient.  The batch is therefore the
    last ``recent`` corrections (10 new rows in the source), and a correction enters the memory before
    remembered rows are drawn.  Both means are added, as in the source; the rate of 0.1 is its code's
    default, beside which it tries 0.01 and 0.001 on each data set.

    Parameters
    ----------
    recent : int
        Corrections that make up a batch of new rows.
    """

    def __init__(self, seed=0, recent=10, **replay):
        super().__init__(seed, **replay)
        self.recent = recent

    def _fit(self, X, y):
        super()._fit(X, y)
        self.new_X, self.new_y = np.zeros((0, self.dim), np.float32), np.zeros(0, np.int64)

    def _correct(self, x, y):
        self._remember(x, y)
        self.new_X = np.vstack([self.new_X, x[None]])[-self.recent :]
        self.new_y = np.append(self.new_y, y)[-self.recent :]
        own = np.zeros(self.n_classes, bool)
        own[self.new_y] = True
        slots = self._draw(self.memory_batch)
        old_X, old_y = self.memory_X[slots], self.memory_y[slots]
        X, n = np.vstack([self.new_X, old_X]), len(self.new_y)
        logits = self._logits(X)
        residuals = [self._residuals(logits[:n], self.new_y, own), self._residuals(logits[n:], old_y)]
        self._step(np.vstack(residuals), X)

    def storage(self):
        """The last corrections are counted beside the memory, though most are in it."""
        held, recent = super().storage(), len(self.new_y)
        return type(held)(held.bytes + recent * (4 * self.dim + 8), held.entries + recent, held.parameters)
