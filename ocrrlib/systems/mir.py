"""``mir``: maximally interfered retrieval (Aljundi et al. 2019, MIR)."""

import numpy as np

from ocrrlib.systems.replay import Replay


class MIR(Replay):
    """Experience replay of those remembered rows that the correction alone would hurt most.

    Of ``candidates`` random rows, the ``memory_batch`` are replayed whose loss would rise most by a step on
    the correction alone: 50 and 10, at a rate of 0.1, as in the source (0.05 for its permuted MNIST).
    Both means are added, as in its code.

    Parameters
    ----------
    candidates : int
        Remembered rows that are compared.
    """

    def __init__(self, seed=0, candidates=50, **replay):
        super().__init__(seed, **replay)
        self.candidates = candidates

    def _correct(self, x, y):
        self.seen[y] = True
        new = self._residuals(self._logits(x[None]), np.array([y]))
        slots = self._draw(self.candidates)
        X, labels = self.memory_X[slots].astype(np.float64), self.memory_y[slots]
        self._remember(x, y)  # as in its code, after the draw: the correction is not its own interference
        if not len(slots):
            self._step(new, x[None])
            return
        before = self._logits(X)
        after = before - self.lr * (X @ x + 1)[:, None] * new  # logits are linear in the step
        rise = self._losses(after, labels) - self._losses(before, labels)
        most = np.argsort(-np.round(rise, 12), kind="stable")[: self.memory_batch]
        residuals = np.vstack([new, self._residuals(before[most], labels[most])])
        self._step(residuals, np.vstack([x[None], X[most]]))

    def _losses(self, logits, labels):
        logits = logits[:, self.seen]
        top = logits.max(axis=1)
        own = np.cumsum(self.seen)[labels] - 1
        return np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top - logits[np.arange(len(labels)), own]
