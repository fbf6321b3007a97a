"""``online_linear``: one plain SGD step on the head per correction (paper, section 4.1)."""

import numpy as np

from ocrrlib.systems.heads import LinearHead


class OnlineLinear(LinearHead):
    def _correct(self, x, y):
        x = x.astype(np.float64)
        self._descend(self._residual(x, y), x)
