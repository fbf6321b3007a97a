"""river's one-vs-rest logistic regression, on arrays."""

from dataclasses import dataclass

import numpy as np
from river import linear_model, optim
from scipy.special import expit

from ocrrlib.systems.base import Storage, System


class StackedLogistic(linear_model.LogisticRegression):
    """river's own model, loss and optimizer on arrays, for all classes at once.

    ``OneVsRestClassifier`` holds a model per class instead.

    ``labels`` are the classes seen, in order: rows of the weights (c, d) and places of the
    intercept (c,).
    """

    def __init__(self, lr, dim):
        super().__init__(optim.SGD(lr))
        self.labels: list[int] = []
        self._weights = np.zeros((0, dim))
        self.intercept = np.zeros(0)

    @property
    def weights(self):
        return self._weights

    def learn_one(self, x, y, w=1.0):
        """One step of every class's model on a row (d,) float64 of class ``y``."""
        if y not in self.labels:
            self.labels.append(y)
            self._weights = np.vstack([self._weights, np.zeros_like(x)])
            self.intercept = np.append(self.intercept, 0.0)
        self._fit(
            x, np.array([label == y for label in self.labels], np.int64), w, self._eval_gradient_one
        )

    def _raw_dot_one(self, x):
        return self._weights @ x + self.intercept

    def _eval_gradient_one(self, x, y, w):
        slopes = w * self.loss.gradient(y, self._raw_dot_one(x))
        return np.multiply.outer(slopes, x), slopes


@dataclass(eq=False)
class RiverLogReg(System):
    """river's one-vs-rest logistic regression (paper, section 4.2; Montiel et al. 2021)."""

    lr: float = 0.01  #: step of river's SGD
    rows: int = 3000  #: initial rows it passes over, once, in random order
    probabilistic = True

    def _fit(self, X, y):
        self.model = StackedLogistic(self.lr, X.shape[1])
        rng = np.random.default_rng(self.seed)
        chosen = rng.choice(len(y), min(self.rows, len(y)), replace=False)
        for row in chosen[rng.permutation(len(chosen))]:
            self._correct(X[row], int(y[row]))

    def _scores(self, X):
        """Logits (m, C), -inf for classes not met."""
        scores = np.full((len(X), self.n_classes), -np.inf)
        logits = X.astype(np.float64) @ self.model.weights.T + self.model.intercept
        scores[:, self.model.labels] = logits
        return scores

    def _answer(self, scores):
        # The highest probability has the highest logit; equal ones go to the class met first.
        labels = np.array(self.model.labels)
        return labels[scores[:, labels].argmax(axis=1)]

    def _probabilities(self, scores):
        """As in river: one class against the rest each, scaled to sum to 1."""
        p = expit(scores)
        return p / p.sum(axis=1, keepdims=True)

    def _correct(self, x, y):
        self.model.learn_one(x.astype(np.float64), y)

    def storage(self) -> Storage:
        parameters = self.model.weights.size + self.model.intercept.size
        return Storage(bytes=8 * parameters, parameters=parameters)
