"""``pa``: river's passive-aggressive classifier (Crammer et al. 2006), one-vs-rest."""

import copy

import numpy as np
from river import linear_model, multiclass

from ocrrlib.shared import shared
from ocrrlib.systems.base import Storage, System
from ocrrlib.systems.certain import best_class
from ocrrlib.systems.linear import softmax_seen

SLACK = 1e-9  # a loss so close to zero is river's to decide


class OneVsRest(multiclass.OneVsRestClassifier):
    """river's OneVsRestClassifier with its weights mirrored in one matrix.

    Rows are (d,) float64. Binary models whose hinge loss is zero are skipped, since they would not change.

    Attributes
    ----------
    W, b : (C, d) and (C,) float64
        Weights and intercepts of the models, zero for classes not seen.
    """

    def __init__(self, classifier, n_classes, dim):
        super().__init__(classifier)
        self.W, self.b = np.zeros((n_classes, dim)), np.zeros(n_classes)

    def learn_one(self, x, y):
        if y not in self.classifiers:
            self.classifiers[y] = self.classifier.clone()
        losses, features = 1 + self.W @ x + self.b, dict(enumerate(x.tolist()))
        losses[y] = 2 - losses[y]
        for label in np.flatnonzero(losses > -SLACK).tolist():
            if label in self.classifiers:
                model = self.classifiers[label]
                model.learn_one(features, label == y)
                self.W[label], self.b[label] = list(model.weights.values()), model.intercept


@shared(keep=1)
def first_pass(X, y, n_classes, seed, C, rows=None):
    """river's model after one pass over the rows in random order, or over the first ``rows`` in that order."""
    model = OneVsRest(linear_model.PAClassifier(C=C, mode=1), n_classes, X.shape[1])
    rng = np.random.default_rng(seed)
    for row in rng.permutation(len(y))[:rows]:
        model.learn_one(X[row].astype(np.float64), int(y[row]))
    return model


class PassiveAggressive(System):
    """Learning is river's; predictions come from its weights, in one matrix.

    Parameters
    ----------
    C : float
        The longest step (PA-I); 1 by river's default.
    rows : int, optional
        At most so many initial rows, drawn at random, are learnt, each once; all without it.
    """

    def __init__(self, seed=0, C=1.0, rows=None):
        super().__init__(seed)
        self.C, self.rows = C, rows

    def _fit(self, X, y):
        self.model = copy.deepcopy(first_pass(X, y, self.n_classes, self.seed, self.C, self.rows))

    @property
    def _seen(self):
        return np.isin(np.arange(self.n_classes), list(self.model.classifiers))

    def _margins(self, X):
        return X.astype(np.float64) @ self.model.W.T + self.model.b

    def _predict(self, X):
        return best_class(X, self.model.W, self.model.b, self._seen)

    def _probabilities(self, X):
        return softmax_seen(self._margins(X), self._seen)

    def _correct(self, x, y):
        self.model.learn_one(x.astype(np.float64), y)

    def storage(self):
        parameters = len(self.model.classifiers) * (self.dim + 1)
        return Storage(bytes=8 * parameters, parameters=parameters)
