"""The floor of learning new classes: always the class of the last correction."""

import numpy as np

from ocrrlib.systems.base import Storage, System


class Blind(System):
    """Answers the class of the last correction; before any, the most frequent initial class."""

    probabilistic = True

    def _fit(self, X, y):
        self._answer_with(np.bincount(y).argmax())

    def _correct(self, x, y):
        self._answer_with(y)

    def _answer_with(self, label):
        self.last = np.eye(self.n_classes)[label]

    def _scores(self, X):
        return np.tile(self.last, (len(X), 1))

    def storage(self) -> Storage:
        return Storage(8)
