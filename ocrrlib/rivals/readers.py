"""Readers of the substrate's ledger: Gaussian models and a frozen head beside the nearest entries."""

from ocrrlib.systems.base import Storage, best_seen
from ocrrlib.systems.heads import StaticLinear, Trained
from ocrrlib.systems.neighbours import Substrate


class LedgerReader(Trained, Substrate):
    """A substrate whose ledger is read by ``models`` and a frozen head beside its neighbours; scores are probabilities.

    The models learn entries when the next prediction asks for them. The head is that of
    ``static_linear``, and so is its size: 4 bytes a parameter, as published.
    """

    def _fit(self, X, y):
        super()._fit(X, y)
        self.head = StaticLinear(self.seed, self.epochs, self.fit_lr, self.weight_decay, self.batch)
        self.head.fit(X, y, range(self.n_classes))
        self.n_read = len(X)

    def _catch_up(self):
        """Let the models learn the entries written since they last looked."""
        for slot in range(self.n_read, self.entries.size):
            for model in self.models:
                model.learn(self.entries.X[slot], int(self.entries.y[slot]))
        self.n_read = self.entries.size

    def _answer(self, p):
        return best_seen(p, self.seen)

    def _probabilities(self, p):
        return p

    def storage(self):
        head, held = (
            self.head.storage(),
            self.entries.nbytes + sum(model.nbytes for model in self.models),
        )
        return Storage(held + head.bytes, self.entries.size, head.parameters)
