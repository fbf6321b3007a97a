"""``lwf``: learning without forgetting (paper, section 4.2; Li and Hoiem 2017)."""

import numpy as np

from ocrrlib.systems.base import Storage
from ocrrlib.systems.heads import LinearHead, softmax


class LwF(LinearHead):
    """Adds ``strength * T**2 * KL(teacher || student)`` at temperature T to the loss of each correction.

    The teacher is the head as first trained.
    """

    def __init__(self, seed=0, strength=1.0, temperature=2.0, **head):
        super().__init__(seed, **head)
        self.strength, self.temperature = strength, temperature

    def _fit(self, X, y):
        super()._fit(X, y)
        self.W0, self.b0 = self.W.copy(), self.b.copy()

    def _correct(self, x, y):
        x, T = x.astype(np.float64), self.temperature
        student, teacher = softmax((self.W @ x + self.b) / T), softmax((self.W0 @ x + self.b0) / T)
        self._descend(self._residual(x, y) + self.strength * T * (student - teacher), x)

    def storage(self):
        head = super().storage()
        return Storage(bytes=2 * head.bytes, parameters=head.parameters)  # student and teacher
