"""``gdumb``: a greedy memory and a dumb learner (Prabhu et al. 2020, GDumb)."""

from ocrrlib.shared import shared
from ocrrlib.systems.heads import train
from ocrrlib.systems.replay import Replay


class GDumb(Replay):
    """Keeps a balanced memory and trains a head from scratch on nothing else.

    The source retrains whenever it is asked; here every prediction asks, so the head is
    trained after ``fit``, at the first row of a class, and after every ``every`` corrections since the last
    time.  Between these it does not change.  Memory and learner are those of the other replay
    systems, where the source has a sampler of its own and a network.

    Parameters
    ----------
    every : int
        Corrections from one training to the next.
    """

    trainer = staticmethod(shared(keep=64)(train))  # streams of one start have their first memory in common

    def __init__(self, seed=0, every=25, **replay):
        super().__init__(seed, **replay)
        self.every = every

    def _train(self, X, y):
        """Whatever it is given, it learns from the memory alone."""
        stored, self.waiting = self.reservoir.size, 0
        super()._train(self.memory_X[:stored], self.memory_y[:stored])

    def _correct(self, x, y):
        new = not self.seen[y]
        self._remember(x, y)
        self.waiting += 1
        if new or self.waiting == self.every:
            self._train(x, y)
