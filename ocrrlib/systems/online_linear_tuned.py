"""``online_linear_tuned``: plain SGD at a rate chosen on classes that it holds out itself."""

from ocrrlib.systems.certain import best_class
from ocrrlib.systems.online_linear import OnlineLinear
from ocrrlib.systems.rehearsal import Rehearsed


class AmongMet(OnlineLinear):
    """``online_linear`` that answers only classes of which a row was met; -1 before the first."""

    def _predict(self, X):
        return best_class(X, self.W, self.b, self._is_met)


class OnlineLinearTuned(Rehearsed, AmongMet):
    """``online_linear`` among the classes met, with the rate that did best on a rehearsal.

    It is tuned for a stream in which every mistake is corrected: the rehearsal corrects all, while policies may
    leave out most.
    """

    head, rates = AmongMet, (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
