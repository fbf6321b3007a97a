"""``er``: experience replay (Chaudhry et al. 2019, On tiny episodic memories in continual learning)."""

import numpy as np

from ocrrlib.systems.replay import Replay


class ER(Replay):
    """One step on the correction and 10 remembered rows at a rate of 0.1, as in the source.

    There the mean is taken over a batch of 10 new and 10 remembered rows.  Here one row is new:
    both means count half, so that it has the weight of the new half.  As there, it enters the memory
    after the step, so that it is not drawn beside itself.
    """

    def _correct(self, x, y):
        self.seen[y] = True
        slots = self._draw(self.memory_batch)
        X, labels = np.vstack([x[None], self.memory_X[slots]]), np.append(y, self.memory_y[slots])
        residuals = self._residuals(self._logits(X), labels) * len(labels)
        if len(slots):
            residuals[0] /= 2
            residuals[1:] /= 2 * len(slots)
        self._step(residuals, X)
        self._remember(x, y)
