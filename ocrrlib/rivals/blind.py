"""The floor of learning new classes: always the class of the last correction."""

import numpy as np

from ocrrlib.systems.base import Storage, System


class Blind(System):
    """Answers the class of the last correction whatever it is asked; before any, the most frequent initial class."""

    probabilistic = True

    def _fit(self, X, y):
        self._correct(None, np.bincount(y).argmax())

    def _correct(self, x, y):
        self.last = np.eye(self.n_classes)[y]

    def _scores(self, X):
        return np.tile(self.last, (len(X), 1))

    def storage(self):
        return Storage(8)
