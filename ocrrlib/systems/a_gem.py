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
        self.products = self.memory_X @ self.memory_X.T + 1  # of the rows with the bias's constant 1

    def _correct(self, x, y):
        x = x.astype(np.float64)
        residual = self._residual(x, y)
        if len(self.memory_y):
            rows = self.rng.choice(len(self.memory_y), min(self.memory_batch, len(self.memory_y)), replace=False)
            M = self.memory_X[rows]
            R = self._memory_residual(M, rows)
            # Gradients are residual x^T and R^T M, so their products need neither of them written out.
            overlap = (R @ residual) @ (M @ x) + R.sum(axis=0) @ residual
            if overlap < 0:
                scale = overlap / np.vdot(R @ R.T, self.products[np.ix_(rows, rows)])
                self.W += self.lr * scale * (R.T @ M)
                self.b += self.lr * scale * R.sum(axis=0)
        self._descend(residual, x)

    def _memory_residual(self, M, rows):
        """Gradient of the mean cross-entropy over remembered rows with respect to their logits, (r, C)."""
        R = softmax(M @ self.W.T + self.b)
        R[np.arange(len(rows)), self.memory_y[rows]] -= 1
        return R / len(rows)

    def storage(self):
        head = super().storage()
        stored = len(self.memory_y)
        return Storage(head.bytes + stored * (4 * self.dim + 8), entries=stored, parameters=head.parameters)
