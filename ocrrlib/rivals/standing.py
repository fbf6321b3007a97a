"""Fixed queries whose products and scores are kept: only what changed since is computed again."""

import numpy as np


def in_a_row(rows):
    """Row numbers as a slice, so that large features are not copied, where each follows the one before."""
    return slice(rows[0], rows[-1] + 1) if (np.diff(rows) == 1).all() else rows


class StandingProducts:
    """Products of fixed features (q, D) with vectors (D,) of a list that only grows, each computed once.

    Where weights change by terms of rank one, few vectors come between two tests and there are many
    classes.
    """

    def __init__(self, F):
        self.F, self.upto, self.known = F, np.zeros(len(F), np.int64), 0
        self.V, self.kept = np.empty((0, F.shape[1])), np.empty((len(F), 0))

    def __call__(self, vectors, rows):
        """Products (len(rows), k) of the features ``rows`` with all vectors so far."""
        k, upto = len(vectors), self.upto[rows]
        if k > len(self.V):
            self.V = np.vstack([self.V, np.empty((k, self.V.shape[1]))])
            self.kept = np.hstack([self.kept, np.empty((len(self.F), k))])
        if k > self.known:
            self.V[self.known : k], self.known = vectors[self.known :], k
        for first in np.unique(upto[upto < k]):
            stale = in_a_row(rows[upto == first])
            self.kept[stale, first:k] = self.F[stale] @ self.V[first:k].T
        self.upto[rows] = k
        return self.kept[rows, :k]


class StandingScores:
    """A model's scores of fixed features (q, D), computed again only under classes that changed since."""

    def __init__(self, model, F):
        self.model, self.F = model, F
        self.kept, self.upto = (
            np.empty((len(F), len(model.counts))),
            np.full(len(F), -1),
        )  # no score is known yet

    def __call__(self, rows):
        """Scores (len(rows), C) of the features ``rows``; a copy."""
        changes, known = self.model.changes, self.upto[rows]
        for upto in np.unique(known[known < len(changes)]):
            stale = rows[known == upto]
            classes = np.arange(self.kept.shape[1]) if upto < 0 else np.unique(changes[upto:])
            self.kept[np.ix_(stale, classes)] = self.model.scores(self.F[in_a_row(stale)], classes)
        self.upto[rows] = len(changes)
        return self.kept[rows]
