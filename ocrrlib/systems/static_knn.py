"""``static_knn``: the substrate's search and vote over the initial entries only (paper, section 4.1)."""

import numpy as np

from ocrrlib.search import Entries
from ocrrlib.systems.substrate import Neighbours


class StaticKNN(Neighbours):
    def _fit(self, X, y):
        self.entries = Entries(X, y)

    def watch(self, Q):
        answers = super().watch(Q)(np.arange(len(Q)))  # for good: nothing changes them
        return lambda rows: answers[rows]

    def _correct(self, x, y):
        """The point of this baseline: it does not learn."""
