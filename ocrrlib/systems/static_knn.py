"""``static_knn``: the substrate's search and vote over the initial entries only (paper, section 4.1)."""

from ocrrlib.entries import Entries
from ocrrlib.systems.substrate import Neighbours


class StaticKNN(Neighbours):
    def _fit(self, X, y):
        self.entries = Entries(X, y)

    def _correct(self, x, y):
        """The point of this baseline: it does not learn."""
