"""``online_linear``: one plain SGD step on the head per correction (paper, section 4.1)."""

import numpy as np

from ocrrlib.systems.heads import LinearHead


class OnlineLinear(LinearHead):
    def _correct(self, x, y):
        residual = self._residual(x.astype(np.float64), y)
        self.W -= np.outer(self.lr * residual, x)
        self.b -= self.lr * residual
