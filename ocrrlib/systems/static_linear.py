"""``static_linear``: a head over the known classes, never updated (paper, section 4.1)."""

import numpy as np

from ocrrlib.systems.heads import LinearHead, softmax, train_head


class StaticLinear(LinearHead):
    def _fit(self, X, y):
        self.known, known_y = np.unique(y, return_inverse=True)
        if len(self.known):
            self.W, self.b = train_head(X, known_y, len(self.known), self.seed, **self.training)
        else:
            self.W, self.b = np.zeros((0, self.dim)), np.zeros(0)

    def _predict(self, X):
        if not len(self.known):
            return np.full(len(X), -1)
        return self.known[super()._predict(X)]

    def _probabilities(self, X):
        p = np.zeros((len(X), self.n_classes))
        if len(self.known):
            p[:, self.known] = softmax(self._logits(X))
        return p

    def watch(self, Q):
        answers = self._predict(Q)  # for good: nothing changes them
        return lambda rows: answers[rows]

    def _correct(self, x, y):
        """The point of this baseline: it does not learn."""
