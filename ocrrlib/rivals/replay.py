"""Replay: a linear head and a class-balanced memory."""

import copy
from collections import deque
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax

from ocrrlib.rivals.tuned import Tuned
from ocrrlib.shared import shared
from ocrrlib.systems.base import Storage, best_seen
from ocrrlib.systems.heads import residuals, train, with_bias


class BalancedReservoir:
    """Rows by class-balancing reservoir sampling (Chrysakis and Moens 2020, algorithm 1).

    Once the memory is full, a row of a class that was never the largest takes the place of a
    random row of the largest class; a row of any other class is sampled against its own class.

    ``X`` (budget, d) float32 and ``y`` (budget,) int64 are the rows and their classes, of which
    ``size`` are filled; ``places`` lists for each class the slots of its rows, ``met`` (C,) counts
    those that were offered.
    """

    def __init__(self, budget: int, d: int, n_classes: int, rng: np.random.Generator):
        self.X = np.zeros((budget, d), np.float32)
        self.y = np.zeros(budget, np.int64)
        self.budget = budget
        self.rng = rng
        self.size = 0
        self.places: list[list[int]] = [[] for _ in range(n_classes)]
        self.met = np.zeros(n_classes, np.int64)
        self.was_largest = np.zeros(n_classes, bool)

    def write(self, x: np.ndarray, y: int) -> int | None:
        """Offer a row (d,) of class ``y``; return its slot, or None if it is not kept."""
        self.met[y] += 1
        own = self.places[y]
        if self.size < self.budget:
            slot = self.size
            self.size += 1
            own.append(slot)
        elif self.was_largest[y]:
            place = int(self.rng.integers(0, self.met[y]))
            if place >= len(own):  # kept with probability len(own) / met
                return None
            slot = own[place]
        else:
            largest = np.flatnonzero(self._largest())
            donor = self.places[largest[self.rng.integers(0, len(largest))]]
            slot = donor.pop(int(self.rng.integers(0, len(donor))))
            own.append(slot)
        if self.size == self.budget:
            self.was_largest |= self._largest()
        self.X[slot] = x
        self.y[slot] = y
        return slot

    def _largest(self):
        sizes = np.array([len(slots) for slots in self.places])
        return sizes == sizes.max()


@shared(keep=4)
def initial_memory(
    X: np.ndarray, y: np.ndarray, n_classes: int, budget: int, seed: int
) -> BalancedReservoir:
    """A memory to which the initial rows were offered in file order."""
    memory = BalancedReservoir(budget, X.shape[1], n_classes, np.random.default_rng([seed, 3]))
    for x, label in zip(X, y.tolist()):
        memory.write(x, label)
    return memory


@dataclass(eq=False)
class Replay(Tuned):
    """A linear head over the classes met, and a memory of rows replayed with each correction.

    The head is trained on the known classes. Rows of weights of classes to come are zero, and their
    logits are left out of every softmax. Each correction moves the head by one SGD step and enters
    the memory; subclasses decide which comes first.
    """

    memory: int = 1000  #: rows kept at most
    memory_batch: int = 10  #: remembered rows that join a correction

    def _fit(self, X, y):
        self._tune(X, y)
        self._remember(X, y)
        self._train(X, y)

    def _remember(self, X, y):
        """Fill the memory from the initial rows."""
        self.held = copy.deepcopy(initial_memory(X, y, self.n_classes, self.memory, self.seed))
        self.rng = np.random.default_rng([self.seed, 4])

    def _train(self, X, y):
        """Train the head from scratch on the classes of these rows."""
        known, ranks = np.unique(y, return_inverse=True)
        self.theta = np.zeros((self.n_classes, self.dim + 1))
        self.theta[known] = self._trained(X, ranks, len(known))

    def _answer(self, evidence):
        return best_seen(evidence, self.seen)

    def _draw(self, n):
        """``n`` different slots of the memory at random, all where there are fewer."""
        return self.rng.choice(self.held.size, min(n, self.held.size), replace=False)

    def _loss(self, X, y, weight=1.0, among=None):
        """A term of the loss: weighted mean cross-entropy of rows X (m, d), y (m,) among classes.

        ``among`` (C,) bool are these classes, by default those seen. Returns the rows and the
        gradient of the term with respect to their logits (m, C).
        """
        # d/dlogits (weight / m) sum_i CE_i = weight / m (softmax - onehot)
        if among is None:
            among = self.seen
        logits = np.where(among, self._scores(X), -np.inf)
        return X, residuals(logits, y) * (weight / len(y))

    def _step(self, *terms):
        """One SGD step on a sum of terms, each as from ``_loss``."""
        # theta -= rate R^T X,  with R the gradients with respect to the logits of all rows X
        X = np.vstack([rows for rows, _ in terms])
        R = np.vstack([gradients for _, gradients in terms])
        self.theta -= self.rate * R.T @ with_bias(X)

    @property
    def stored(self) -> int:
        return self.held.size


@dataclass(eq=False)
class ER(Replay):
    """Experience replay (Chaudhry et al. 2019, On tiny episodic memories in continual learning).

    ``CE(new) / 2 + mean of CE(10 remembered) / 2``, at a rate of 0.1 as in the source. There the
    mean is taken over a batch of 10 new and 10 remembered rows. Here one row is new: both means
    count half, so that it has the weight of the new half. As there, it enters the memory after the
    step, so that it is not drawn beside itself.
    """

    def _correct(self, x, y):
        drawn = self._draw(self.memory_batch)
        new = self._loss(x[None], [y], 0.5)
        old = self._loss(self.held.X[drawn], self.held.y[drawn], 0.5)
        self._step(new, old)
        self.held.write(x, y)


@dataclass(eq=False)
class ERACE(Replay):
    """Replay with an asymmetric cross-entropy (Caccia et al. 2022, ER-ACE).

    ``mean of CE(new, among their classes) + mean of CE(remembered, among all classes seen)``: a new
    class does not push known ones aside; only remembered rows set it against them. A batch of one
    example would have one class and no gradient. The new batch is therefore the last ``recent``
    corrections (10 new rows in the source), and a correction enters the memory before remembered
    rows are drawn. Both means are added, as in the source; the rate of 0.1 is its code's default,
    beside which it tries 0.01 and 0.001 on each data set.
    """

    recent: int = 10  #: corrections that make up a batch of new rows

    def _fit(self, X, y):
        super()._fit(X, y)
        self.new = deque(maxlen=self.recent)

    def _correct(self, x, y):
        self.held.write(x, y)
        self.new.append((x.copy(), y))
        X = np.array([row for row, _ in self.new])
        labels = np.array([label for _, label in self.new])
        own = np.isin(np.arange(self.n_classes), labels)
        drawn = self._draw(self.memory_batch)
        new = self._loss(X, labels, among=own)
        old = self._loss(self.held.X[drawn], self.held.y[drawn])
        self._step(new, old)

    @property
    def stored(self) -> int:
        """The last corrections are counted beside the memory, though most are in it."""
        return self.held.size + len(self.new)


@dataclass(eq=False)
class DERPP(Replay):
    """Dark experience replay, which holds logits to what they were (Buzzega et al. 2020, DER++).

    ``CE(new) + alpha mean of (logits - stored logits)^2 + beta mean of CE(remembered)``, the second
    mean over other draws than the first. As in its code, a correction enters the memory after the
    step, with the logits from before it; initial rows have those of the trained head. They are
    stored over all classes: as in the source, those of classes not seen by then, here zero, are
    held to like the others.

    The source tunes ``alpha`` and ``beta`` per data set and memory; 0.1 and 0.5, with a rate of
    0.03 and 32 remembered rows, are its values for CIFAR-10 and 200 rows.
    """

    alpha: float = 0.1
    beta: float = 0.5

    def _fit(self, X, y):
        super()._fit(X, y)
        self.logits = self._scores(self.held.X).astype(np.float32)

    def _correct(self, x, y):
        first = self._draw(self.memory_batch)
        second = self._draw(self.memory_batch)
        answered = self._scores(x[None])[0]
        new = self._loss(x[None], [y])
        # d/dlogits alpha mean(drift^2) = 2 alpha drift / size of drift
        X = self.held.X[first]
        drift = self._scores(X) - self.logits[first]
        dark = X, self.alpha * 2 * drift / drift.size
        old = self._loss(self.held.X[second], self.held.y[second], self.beta)
        self._step(new, dark, old)
        slot = self.held.write(x, y)
        if slot is not None:
            self.logits[slot] = answered

    def storage(self) -> Storage:
        held = super().storage()
        logits = held.entries * 4 * self.n_classes
        return Storage(held.bytes + logits, held.entries, held.parameters)


@dataclass(eq=False)
class MIR(Replay):
    """Experience replay of rows that the correction alone would hurt most (Aljundi et al. 2019).

    Maximally interfered retrieval: of ``candidates`` random rows, the ``memory_batch`` are replayed
    whose loss would rise most by a step on the correction alone: 50 and 10, at a rate of 0.1, as in
    the source (0.05 for its permuted MNIST). ``CE(new) + mean of CE(these)``, as in its code.
    """

    candidates: int = 50  #: remembered rows that are compared

    def _correct(self, x, y):
        new = self._loss(x[None], [y])
        drawn = self._draw(self.candidates)
        X = self.held.X[drawn]
        labels = self.held.y[drawn]
        # As in its code, after the draw: the correction is not its own interference.
        self.held.write(x, y)
        # A step of -rate r x^T, r being the gradient of CE(new) with respect to the logits,
        # changes those of a row x' by -rate (x' . x + 1) r.
        logits = self._scores(X)
        change = -self.rate * (X.astype(np.float64) @ x + 1)[:, None] * new[1]
        before = self._log_likelihoods(logits, labels)
        after = self._log_likelihoods(logits + change, labels)
        most = np.argsort(np.round(after - before, 12), kind="stable")[: self.memory_batch]
        self._step(new, self._loss(X[most], labels[most]))

    def _log_likelihoods(self, logits, y):
        """Log-likelihoods (m,) of classes y (m,) by logits (m, C), among the classes seen."""
        among = np.where(self.seen, logits, -np.inf)
        return log_softmax(among, axis=1)[np.arange(len(y)), y]


@dataclass(eq=False)
class GDumb(Replay):
    """A head trained from scratch on a balanced memory, and nothing else (Prabhu et al. 2020).

    The source retrains whenever it is asked; here every prediction asks, so the head is trained
    after ``fit``, at the first row of a class, and after every ``every`` corrections since the last
    time. Between these it does not change. Memory and learner are those of the other replay
    systems, where the source has a sampler of its own and a network.
    """

    every: int = 25  #: corrections from one training to the next
    trainer = staticmethod(train)  # each time on other rows

    def _fit(self, X, y):
        self._remember(X, y)
        self._train_on_memory()

    def _train_on_memory(self):
        self.waiting = 0
        self._train(self.held.X[: self.held.size], self.held.y[: self.held.size])

    def _correct(self, x, y):
        new = not self.held.met[y]
        self.held.write(x, y)
        self.waiting += 1
        if new or self.waiting == self.every:
            self._train_on_memory()
