"""``a_gem``: averaged gradient episodic memory (paper, section 4.2; Chaudhry et al. 2019)."""

import numpy as np

from ocrrlib.systems.base import Storage
from ocrrlib.systems.heads import LinearHead, softmax


class AGEM(LinearHead):
    """Removes from each gradient the part that would raise the loss on remembered rows.

    Parameters
    ----------
    memory : int
        Initial rows remembered, drawn once.
    memory_batch : int
        Remembered rows that a correction is checked against.
    """

    def __init__(self, seed=0, memory=1000, memory_batch=64, **head):
        super().__init__(seed, **head)
        self.memory, self.memory_batch = memory, memory_batch

    def _fit(self, X, y):
        super()._fit(X, y)
        self.rng = np.random.default_rng(self.seed)
        rows = self.rng.choice(len(X), min(self.memory, len(X)), replace=False)
        self.memory_X, self.memory_y = X[rows].astype(np.float64), y[rows]

    def _correct(self, x, y):
        residual = self._residual(x.astype(np.float64), y)
        g_W, g_b = np.outer(residual, x), residual
        if len(self.memory_y):
            rows = self.rng.choice(len(self.memory_y), min(self.memory_batch, len(self.memory_y)), replace=False)
            r_W, r_b = self._memory_gradient(rows)
            overlap = np.vdot(g_W, r_W) + g_b @ r_b
            if overlap < 0:
                scale = overlap / (np.vdot(r_W, r_W) + r_b @ r_b)
                g_W, g_b = g_W - scale * r_W, g_b - scale * r_b
        self.W -= self.lr * g_W
        self.b -= self.lr * g_b

    def _memory_gradient(self, rows):
        """Gradient of the mean cross-entropy over remembered rows."""
        X = self.memory_X[rows]
        residual = softmax(X @ self.W.T + self.b)
        residual[np.arange(len(rows)), self.memory_y[rows]] -= 1
        residual /= len(rows)
        return residual.T @ X, residual.sum(axis=0)

    def storage(self):
        head = super().storage()
        stored = len(self.memory_y)
        return Storage(head.bytes + stored * (4 * self.dim + 8), entries=stored, parameters=head.parameters)
