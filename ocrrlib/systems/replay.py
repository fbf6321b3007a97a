"""Replay: a linear head and a class-balanced memory, and step sizes tuned on a rehearsal among the known classes."""

import copy

import numpy as np

from ocrrlib.shared import shared
from ocrrlib.systems.base import Storage, best_seen, softmax
from ocrrlib.systems.heads import LinearHead, OnlineLinear, train, train_head

HELD_OUT = 10  # of the known classes, a quarter at most, are held out in a rehearsal
TESTED = 4  # every so-many-th row of a class is a test row there


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
    Each correction moves the head by one SGD step and enters the memory; subclasses decide which comes first.

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
        self.room = np.empty_like(self.W)
        known, ranks = np.unique(y, return_inverse=True)
        if len(known):
            self.W[known], self.b[known] = self.trainer(X, ranks, len(known), self.seed, **self.training)

    def _answer(self, logits):
        return best_seen(logits, self.seen)

    def _remember(self, x, y):
        """Let one row enter the memory; its slot, or None."""
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


class ER(Replay):
    """Experience replay (Chaudhry et al. 2019, On tiny episodic memories in continual learning).

    One step on the correction and 10 remembered rows at a rate of 0.1, as in the source. There the mean is taken
    over a batch of 10 new and 10 remembered rows.  Here one row is new: both means count half, so that it has the
    weight of the new half.  As there, it enters the memory after the step, so that it is not drawn beside itself.
    """

    def _correct(self, x, y):
        slots = self._draw(self.memory_batch)
        X, labels = np.vstack([x[None], self.memory_X[slots]]), np.append(y, self.memory_y[slots])
        residuals = self._residuals(self._scores(X), labels) * len(labels)
        if len(slots):
            residuals[0] /= 2
            residuals[1:] /= 2 * len(slots)
        self._step(residuals, X)
        self._remember(x, y)


class ERACE(Replay):
    """Replay with an asymmetric cross-entropy (Caccia et al. 2022, ER-ACE).

    New rows compete among the classes of their own batch, remembered ones among all classes seen, so a new class
    does not push known ones aside; only remembered rows set it against them. A batch of one example would have one
    class and no gradient.  The batch is therefore the last ``recent`` corrections (10 new rows in the source), and
    a correction enters the memory before remembered rows are drawn.  Both means are added, as in the source; the
    rate of 0.1 is its code's default, beside which it tries 0.01 and 0.001 on each data set.

    Parameters
    ----------
    recent : int
        Corrections that make up a batch of new rows.
    """

    def __init__(self, seed=0, recent=10, **replay):
        super().__init__(seed, **replay)
        self.recent = recent

    def _fit(self, X, y):
        super()._fit(X, y)
        self.new_X, self.new_y = np.zeros((0, self.dim), np.float32), np.zeros(0, np.int64)

    def _correct(self, x, y):
        self._remember(x, y)
        self.new_X = np.vstack([self.new_X, x[None]])[-self.recent :]
        self.new_y = np.append(self.new_y, y)[-self.recent :]
        own = np.zeros(self.n_classes, bool)
        own[self.new_y] = True
        slots = self._draw(self.memory_batch)
        old_X, old_y = self.memory_X[slots], self.memory_y[slots]
        X, n = np.vstack([self.new_X, old_X]), len(self.new_y)
        logits = self._scores(X)
        residuals = [self._residuals(logits[:n], self.new_y, own), self._residuals(logits[n:], old_y)]
        self._step(np.vstack(residuals), X)

    def storage(self):
        """The last corrections are counted beside the memory, though most are in it."""
        held, recent = super().storage(), len(self.new_y)
        return Storage(held.bytes + recent * (4 * self.dim + 8), held.entries + recent, held.parameters)


class DERPP(Replay):
    """Dark experience replay: the logits of remembered rows are held to what they were (Buzzega et al. 2020, DER++).

    The loss is that of the correction, plus ``alpha`` times the mean squared difference between
    logits of remembered rows and those stored with them, plus ``beta`` times the cross-entropy of
    other remembered rows.  As in its code, a correction enters the memory after the step, with the
    logits from before it; initial rows have those of the trained head.  They are stored over all classes:
    as in the source, those of classes not seen by then, here zero, are held to like the others.

    Parameters
    ----------
    alpha, beta : float
        The source tunes them per data set and memory; 0.1 and 0.5, with a rate of 0.03 and 32
        remembered rows, are its values for CIFAR-10 and 200 rows.
    """

    def __init__(self, seed=0, alpha=0.1, beta=0.5, **replay):
        super().__init__(seed, **replay)
        self.alpha, self.beta = alpha, beta

    def _fit(self, X, y):
        super()._fit(X, y)
        self.memory_logits = self._scores(self.memory_X).astype(np.float32)

    def _correct(self, x, y):
        first, second = self._draw(self.memory_batch), self._draw(self.memory_batch)
        X = np.vstack([x[None], self.memory_X[first], self.memory_X[second]])
        new, old, older = np.split(self._scores(X), [1, 1 + len(first)])
        answered = new[0].copy()  # the residuals use ``new`` up
        residuals = [self._residuals(new, np.array([y]))]
        if len(first):
            drift = old - self.memory_logits[first]
            residuals += [
                self.alpha * 2 * drift / drift.size,
                self.beta * self._residuals(older, self.memory_y[second]),
            ]
        self._step(np.vstack(residuals), X)
        slot = self._remember(x, y)
        if slot is not None:
            self.memory_logits[slot] = answered

    def storage(self):
        held = super().storage()
        return Storage(held.bytes + held.entries * 4 * self.n_classes, held.entries, held.parameters)


class MIR(Replay):
    """Experience replay of those remembered rows that the correction alone would hurt most (Aljundi et al. 2019).

    Maximally interfered retrieval: of ``candidates`` random rows, the ``memory_batch`` are replayed whose loss would
    rise most by a step on the correction alone: 50 and 10, at a rate of 0.1, as in the source (0.05 for its permuted
    MNIST). Both means are added, as in its code.

    Parameters
    ----------
    candidates : int
        Remembered rows that are compared.
    """

    def __init__(self, seed=0, candidates=50, **replay):
        super().__init__(seed, **replay)
        self.candidates = candidates

    def _correct(self, x, y):
        new = self._residuals(self._scores(x[None]), np.array([y]))
        slots = self._draw(self.candidates)
        X, labels = self.memory_X[slots].astype(np.float64), self.memory_y[slots]
        self._remember(x, y)  # as in its code, after the draw: the correction is not its own interference
        if not len(slots):
            self._step(new, x[None])
            return
        before = self._scores(X)
        after = before - self.lr * (X @ x + 1)[:, None] * new  # logits are linear in the step
        rise = self._losses(after, labels) - self._losses(before, labels)
        most = np.argsort(-np.round(rise, 12), kind="stable")[: self.memory_batch]
        residuals = np.vstack([new, self._residuals(before[most], labels[most])])
        self._step(residuals, np.vstack([x[None], X[most]]))

    def _losses(self, logits, labels):
        logits = logits[:, self.seen]
        top = logits.max(axis=1)
        own = np.cumsum(self.seen)[labels] - 1
        return np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top - logits[np.arange(len(labels)), own]


class GDumb(Replay):
    """Keeps a balanced memory and trains a head from scratch on nothing else (Prabhu et al. 2020, GDumb).

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
        new = not self.reservoir.met[y]
        self._remember(x, y)
        self.waiting += 1
        if new or self.waiting == self.every:
            self._train(x, y)


def rehearse(system, X, y, n_classes, seed):
    """Mean of novel and original accuracy after a stream of held-out known classes, every mistake corrected.

    Only the initial rows X (n, d), y (n,) are used, so that nothing is known of the classes to come.
    """
    rng = np.random.default_rng([seed, 6])
    classes = np.unique(y)
    held = np.isin(y, rng.choice(classes, min(HELD_OUT, len(classes) // 4), replace=False))
    order = rng.permutation(len(y))
    place = np.empty(len(y), np.int64)  # of a row among those of its class, in random order
    for label in classes:
        own = order[y[order] == label]
        place[own] = np.arange(len(own))
    tested = place % TESTED == TESTED - 1
    system.fit(X[~held & ~tested], y[~held & ~tested], range(n_classes))
    for row in order[(held & ~tested)[order]]:
        if system.predict(X[row : row + 1])[0] != y[row]:
            system.correct(X[row], int(y[row]))
    axes = [part for part in (held & tested, ~held & tested) if part.any()]
    return float(np.mean([np.mean(system.predict(X[part]) == y[part]) for part in axes])) if axes else 0.0


@shared(keep=4)
def best_rate(cls, rates, X, y, n_classes, seed, **params):
    """The rate at which ``cls(seed, lr=rate, **params)`` rehearses best, the lowest of equal ones."""
    scores = [rehearse(cls(seed, lr=lr, **params), X, y, n_classes, seed) for lr in rates]
    return rates[int(np.argmax(scores))]


class Rehearsed:
    """Comes before a head in the bases of a class: its step size is the one that did best on a rehearsal.

    Before the head is trained, a quarter of the known classes, ten at most, are held out of it, streamed and
    corrected. The rehearsal corrects every mistake, whatever the policy of the stream, of which a system knows
    nothing: the step size is tuned for a stream in which every mistake is corrected, and is not what fewer
    corrections would ask for. With fewer than four known classes it is the lowest of ``rates``.

    Attributes
    ----------
    head : type
        The class that is rehearsed.
    rates : tuple of float
        Step sizes that are tried, lowest first. A source's rate for deep networks moves a linear head on unit rows
        too little; it is the lowest tried.
    """

    def __init__(self, seed=0, **params):
        super().__init__(seed, lr=self.rates[0], **params)
        self.given = params

    def _fit(self, X, y):
        self.lr = self.rates[0]
        if len(np.unique(y)) >= 4:
            self.lr = best_rate(self.head, self.rates, X, y, self.n_classes, self.seed, **self.given)
        super()._fit(X, y)


class AmongMet(OnlineLinear):
    """``online_linear`` that answers only classes of which a row was met; -1 before the first."""

    def _answer(self, logits):
        return best_seen(logits, self.seen)


class OnlineLinearTuned(Rehearsed, AmongMet):
    """``online_linear`` among the classes met, with the rate that did best on a rehearsal."""

    head, rates = AmongMet, (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


class ERTuned(Rehearsed, ER):
    """``er`` with the rate that did best on a rehearsal."""

    head, rates = ER, (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class ERACETuned(Rehearsed, ERACE):
    """``er_ace`` with the rate that did best on a rehearsal."""

    head, rates = ERACE, (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
