"""The even rule, put on any class model: known and new classes are equally likely."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from ocrrlib.search import SAME_VECTOR, Entries, StandingClasses, nearest_cosines
from ocrrlib.systems import make
from ocrrlib.systems.base import Storage, System

HELD_BACK = 5  # one in so many initial rows of each class sets the temperature


def even_prior(counts: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Prior weight (C,) of each class under the even rule.

    ``counts`` (C,) are the rows of each class so far, ``known`` (C,) bool the classes that the
    system was fitted on. A known class weighs 1. Once a new class has two rows it weighs K / N,
    with K known classes and N new ones met so far: known and new classes weigh the same together.
    A new class of one row weighs 1.
    """
    new = ~known & (counts > 0)
    n_new = int(np.count_nonzero(new))
    weight = np.count_nonzero(known) / max(n_new, 1)
    return np.where(new & (counts > 1), weight, 1.0)


@dataclass(eq=False)
class Even(System):
    """A system of the registry under the even rule; without a lookup nothing else of it changes.

    p(c) is the other's to the power 1 / T times the prior of ``even_prior``. Initial rows that are
    held back, one in five of each class, set the temperature T, under which they are likeliest; the
    other system is then fitted on all rows.
    """

    of: str = "slda"  #: its name
    #: whether rows are stored and looked up: if the vector of x is stored, only classes that store
    #: it are possible
    lookup: bool = False

    def _fit(self, X, y):
        self.known = self.seen.copy()
        self.counts = np.bincount(y, minlength=self.n_classes)
        self.inner = make(self.of, self.seed)
        self.tempered_by = self._held_back_temperature(X, y)
        self.inner.fit(X, y, range(self.n_classes))
        stored = len(X) if self.lookup else 0  # without entries no vector is found
        self.entries = Entries(X[:stored], y[:stored])

    def _held_back_temperature(self, X, y):
        order = np.argsort(y, kind="stable")
        place = np.empty(len(y), np.int64)  # of each row among those of its class
        place[order] = np.arange(len(y)) - np.searchsorted(y[order], y[order])
        held = place % HELD_BACK == HELD_BACK - 1
        self.inner.fit(X[~held], y[~held], range(self.n_classes))
        scores = self.inner._log_probabilities(self.inner._evidence(X[held]))
        own = np.searchsorted(np.flatnonzero(self.known), y[held])
        return best_temperature(scores[:, self.known], own, default=1.0)

    def _tempered(self, evidence):
        """Log-probabilities (m, C), but for a constant, from the other's evidence."""
        # log p(c) = log p_inner(c) / T + log prior(c) + constant
        log_p = self.inner._log_probabilities(evidence)
        return log_p / self.tempered_by + np.log(even_prior(self.counts, self.known))

    def _looked_up(self, log_p, cosines):
        """Log-probabilities (m, C) that leave a stored vector only the classes that store it.

        ``cosines`` (m, C) are the highest to an entry of each class.
        """
        copies = cosines >= SAME_VECTOR
        possible = copies | ~copies.any(axis=1, keepdims=True)
        return np.where(possible, log_p, -np.inf)

    def _scores(self, X):
        log_p = self._tempered(self.inner._evidence(X))
        return self._looked_up(log_p, nearest_cosines(X, self.entries, self.n_classes))

    def _follow(self, Q):
        evidence = self.inner._follow(Q)
        nearest = StandingClasses(Q, self.entries, self.n_classes)
        return lambda rows: self._looked_up(self._tempered(evidence(rows)), nearest.cosines(rows))

    def _correct(self, x, y):
        self.counts[y] += 1
        self.inner.correct(x, y)
        if self.lookup:
            self.entries.append(x, y)

    def storage(self) -> Storage:
        inner = self.inner.storage()
        size = inner.bytes + self.counts.nbytes + self.entries.nbytes
        return Storage(size, inner.entries + self.entries.size, inner.parameters)


def best_temperature(scores: np.ndarray, own: np.ndarray, default: float) -> float:
    """The temperature of a softmax over scores (m, C) under which classes own (m,) are likeliest.

    It is searched for within a factor of e^5 of ``default``, which is the answer if there are no
    rows, or fewer than two classes.
    """
    if not len(own) or scores.shape[1] < 2:
        return default
    scores = scores - scores.max(axis=1, keepdims=True)
    mean_own = scores[np.arange(len(own)), own].mean()

    def loss(log_temperature):
        # mean of log sum_c exp(score_c / T) - score_own / T
        temperature = np.exp(log_temperature)
        return np.log(np.exp(scores / temperature).sum(axis=1)).mean() - mean_own / temperature

    bounds = np.log(default) + (-5, 5)
    found = minimize_scalar(loss, bounds=bounds, method="bounded")
    return float(np.exp(found.x))
