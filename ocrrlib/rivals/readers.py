"""Readers of the substrate's ledger: models and a frozen head beside the nearest entries."""

from ocrrlib.rivals.gaussians import GaussianClasses
from ocrrlib.systems.base import Storage, best_seen
from ocrrlib.systems.heads import StaticLinear, Trained
from ocrrlib.systems.neighbours import Substrate


class LedgerReader(Trained, Substrate):
    """A substrate that answers from a mixture of models, a frozen head and its neighbours.

    A subclass sets ``models``, each with ``learn``, ``project``, ``scores`` and ``nbytes``, and its
    evidence is class probabilities. The models learn entries when the next prediction asks for
    them. The head is that of ``static_linear``, and so is its size: 4 bytes a parameter, as
    published.
    """

    models: list[GaussianClasses]
    asks_neighbours = False

    def _fit(self, X, y):
        super()._fit(X, y)
        self.head = StaticLinear(self.seed, self.epochs, self.fit_lr, self.weight_decay, self.batch)
        self.head.fit(X, y, range(self.n_classes))
        self.n_read = len(X)  # entries that the models have learnt

    def _catch_up(self):
        """Let the models learn the entries written since they last looked."""
        for slot in range(self.n_read, self.entries.size):
            for model in self.models:
                model.learn(self.entries.X[slot], int(self.entries.y[slot]))
        self.n_read = self.entries.size

    def _follow_whole(self, Q):
        return None  # the models give every class a probability

    def _answer(self, evidence):
        return best_seen(evidence, self.seen)

    def _probabilities(self, evidence):
        return evidence

    def storage(self) -> Storage:
        head = self.head.storage()
        models = sum(model.nbytes for model in self.models)
        size = self.entries.nbytes + models + head.bytes
        return Storage(size, entries=self.entries.size, parameters=head.parameters)
