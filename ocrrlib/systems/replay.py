"""What ``er``, ``er_ace``, ``der_pp``, ``mir`` and ``gdumb`` share: a linear head and a class-balanced memory."""

import copy

import numpy as np

from ocrrlib.shared import shared
from ocrrlib.systems.base import Storage
from ocrrlib.systems.certain import best_class
from ocrrlib.systems.heads import LinearHead, softmax, train_head
from ocrrlib.systems.linear import softmax_seen


class BalancedReservoir:
    """Class-balancing reservoir sampling (Chrysakis and Moens 2020, algorithm 1).

    Once the memory is full, a row of a class that was never the largest takes the place of a
    random row of the largest class; a row of any other class is sampled against its own class.

    Attributes
    ----------
    places : list of list of int
        For each class, the slots that hold its rows.
    """

    def __init__(self, budget, n_classes, rng):
        self.budget, self.rng, self.size = budget, rng, 0
        self.places, self.met = [[] for _ in range(n_classes)], [0] * n_classes
        self.was_largest = [False] * n_classes

    def slot(self, y):
        """Where a row of class ``y`` goes, or None if it is not kept."""
        self.met[y] += 1
        own = self.places[y]
        if self.size == self.budget and self.was_largest[y]:
            place = int(self.rng.integers(0, self.met[y]))
            return own[place] if place < len(own) else None  # kept with probability len(own) / met
        if self.size < self.budget:
            slot = self.size
            self.size += 1
        else:
            largest = self._largest()
            donor = self.places[largest[int(self.rng.integers(0, len(largest)))]]
            slot = donor.pop(int(self.rng.integers(0, len(donor))))
        own.append(slot)
        if self.size == self.budget:
            for label in self._largest():
                self.was_largest[label] = True
        return slot

    def _largest(self):
        sizes = [len(slots) for slots in self.places]
        top = max(sizes)
        return [label for label, size in enumerate(sizes) if size == top]


@shared(keep=4)
def initial_memory(y, n_classes, budget, seed):
    """Stream the initial rows through a new reservoir in file order.

    Returns the row number in each slot (m,), and the reservoir.
    """
    reservoir = BalancedReservoir(budget, n_classes, np.random.default_rng([seed, 3]))
    rows = np.full(min(budget, len(y)), -1)
    for row, label in enumerate(y.tolist()):
        slot = reservoir.slot(label)
        if slot is not None:
            rows[slot] = row
    return rows, reservoir


class Replay(LinearHead):
    """The head is trained on the known classes; no class takes part in anything before its first row.

    Rows of weights of classes to come are zero, and their logits are left out of every softmax.
    Each correction moves the head by one SGD step and enters the memory; subclasses say which comes first.

    Parameters
    ----------
    memory : int
        Rows kept at most.
    memory_batch : int
        Remembered rows that join a correction.
    lr, epochs, fit_lr, weight_decay, batch
        As for every head.
    """

    trainer = staticmethod(train_head)

    def __init__(self, seed=0, memory=1000, memory_batch=10, **head):
        super().__init__(seed, **head)
        self.memory, self.memory_batch = memory, memory_batch

    def _fit(self, X, y):
        rows, reservoir = initial_memory(y, self.n_classes, self.memory, self.seed)
        self.reservoir = copy.deepcopy(reservoir)
        self.rng = np.random.default_rng([self.seed, 4])
        self.memory_X, self.memory_y = np.zeros((self.memory, self.dim), np.float32), np.zeros(self.memory, np.int64)
        self.memory_X[: len(rows)], self.memory_y[: len(rows)] = X[rows], y[rows]
        self._train(X, y)

    def _train(self, X, y):
        """Train the head from scratch on the classes of these rows."""
        self.W, self.b = np.zeros((self.n_classes, self.dim)), np.zeros(self.n_classes)
        self.room, self.seen = np.empty_like(self.W), np.zeros(self.n_classes, bool)
        known, ranks = np.unique(y, return_inverse=True)
        if len(known):
            self.W[known], self.b[known] = self.trainer(X, ranks, len(known), self.seed, **self.training)
            self.seen[known] = True

    def _predict(self, X):
        return best_class(X, self.W, self.b, self.seen)

    def _probabilities(self, X):
        return softmax_seen(self._logits(X), self.seen)

    def _remember(self, x, y):
        """Let one row enter the memory; its slot, or None."""
        self.seen[y] = True
        slot = self.reservoir.slot(y)
        if slot is not None:
            self.memory_X[slot], self.memory_y[slot] = x, y
        return slot

    def _draw(self, n):
        """``n`` different slots at random, all where there are fewer."""
        return self.rng.choice(self.reservoir.size, min(n, self.reservoir.size), replace=False)

    def _residuals(self, logits, y, among=None):
        """Gradient of the mean cross-entropy with respect to the logits (m, C), used up, among some of the classes."""
        logits[:, ~(self.seen if among is None else among)] = -np.inf
        residuals = softmax(logits)
        residuals[np.arange(len(y)), y] -= 1
        return residuals / len(y)

    def _step(self, residuals, X):
        """One SGD step along the gradient residuals^T X."""
        residuals = self.lr * residuals
        self.W -= np.matmul(residuals.T, X.astype(np.float64), out=self.room)
        self.b -= residuals.sum(axis=0)

    def storage(self):
        head, stored = super().storage(), self.reservoir.size
        return Storage(head.bytes + stored * (4 * self.dim + 8), entries=stored, parameters=head.parameters)
