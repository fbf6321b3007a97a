"""``pa``: river's passive-aggressive classifier (Crammer et al. 2006), one-vs-rest."""

import copy

import numpy as np
from river import linear_model, multiclass, utils

from ocrrlib.shared import shared
from ocrrlib.systems.base import Storage, System
from ocrrlib.systems.linear import best_seen, softmax_seen


def _features(x):
    return dict(enumerate(x.tolist()))


class Lazy(linear_model.PAClassifier):
    """river's own, which walks through all weights even where the loss is zero and so is the step."""

    def learn_one(self, x, y):
        if self.loss(y, utils.math.dot(x, self.weights) + self.intercept) > 0:
            super().learn_one(x, y)


@shared(keep=1)
def first_pass(X, y, seed, C, rows):
    """river's own model after one pass over ``rows`` random rows, in random order."""
    model = multiclass.OneVsRestClassifier(Lazy(C=C, mode=1))
    rng = np.random.default_rng(seed)
    for row in rng.permutation(len(y))[:rows]:
        model.learn_one(_features(X[row]), int(y[row]))
    return model


class PassiveAggressive(System):
    """Learning is river's; predictions come from its weights, gathered into one matrix.

    Parameters
    ----------
    C : float
        The longest step (PA-I); 1 by river's default.
    rows : int
        Initial rows it passes over, once: river updates each class's weights number by number.
    """

    def __init__(self, seed=0, C=1.0, rows=1000):
        super().__init__(seed)
        self.C, self.rows = C, rows

    def _fit(self, X, y):
        self.model = copy.deepcopy(first_pass(X, y, self.seed, self.C, self.rows))
        self._gather()

    def _gather(self):
        self.W, self.b = np.zeros((self.n_classes, self.dim)), np.zeros(self.n_classes)
        self.seen = np.zeros(self.n_classes, bool)
        for label, one in self.model.classifiers.items():
            self.W[label], self.b[label] = [one.weights[i] for i in range(self.dim)], one.intercept
            self.seen[label] = True

    def _predict(self, X):
        return best_seen(X.astype(np.float64) @ self.W.T + self.b, self.seen)

    def _probabilities(self, X):
        return softmax_seen(X.astype(np.float64) @ self.W.T + self.b, self.seen)

    def _correct(self, x, y):
        self.model.learn_one(_features(x), y)
        self._gather()

    def storage(self):
        parameters = int(self.seen.sum()) * (self.dim + 1)
        return Storage(bytes=8 * parameters, parameters=parameters)
