"""``river_logreg``: river's one-vs-rest logistic regression (paper, section 4.2; Montiel et al. 2021)."""

import copy

import numpy as np
from river import linear_model, multiclass, optim
from scipy.special import expit

from ocrrlib.shared import shared
from ocrrlib.systems.base import Storage, System


def _features(x):
    return dict(enumerate(x.tolist()))


@shared(keep=1)
def first_pass(X, y, seed, lr, rows):
    """river's own model after one pass over ``rows`` random rows, in random order."""
    model = multiclass.OneVsRestClassifier(linear_model.LogisticRegression(optim.SGD(lr)))
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(y), min(rows, len(y)), replace=False)
    for row in chosen[rng.permutation(len(chosen))]:
        model.learn_one(_features(X[row]), int(y[row]))
    return model


class RiverLogReg(System):
    """Learning is river's; predictions come from its weights, gathered into one matrix.

    Parameters
    ----------
    lr : float
        Step of river's SGD.
    rows : int
        Initial rows it passes over, once.
    """

    def __init__(self, seed=0, lr=0.01, rows=3000):
        super().__init__(seed)
        self.lr, self.rows = lr, rows

    def _fit(self, X, y):
        self.model = copy.deepcopy(first_pass(X, y, self.seed, self.lr, self.rows))
        self._gather()

    def _gather(self):
        features, models = list(range(self.dim)), self.model.classifiers
        self.labels = np.array(list(models), np.int64)
        self.W = np.array([m._weights.to_numpy(features) for m in models.values()]).reshape(-1, self.dim)
        self.b = np.array([m.intercept for m in models.values()], np.float64)

    def _predict(self, X):
        if not len(self.labels):
            return np.full(len(X), -1)
        # The highest probability has the highest logit; equal ones go to the class seen first.
        return self.labels[(X.astype(np.float64) @ self.W.T + self.b).argmax(axis=1)]

    def _probabilities(self, X):
        """As in river: one class against the rest each, made to sum to 1."""
        p = np.zeros((len(X), self.n_classes))
        if len(self.labels):
            p[:, self.labels] = expit(X.astype(np.float64) @ self.W.T + self.b)
            p /= p.sum(axis=1, keepdims=True)
        return p

    def _correct(self, x, y):
        self.model.learn_one(_features(x), y)
        self._gather()

    def storage(self):
        parameters = self.W.size + self.b.size
        return Storage(bytes=8 * parameters, parameters=parameters)
