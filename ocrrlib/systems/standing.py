"""Class scores of fixed queries, kept up to date as classes change, or weights by terms of rank one."""

from collections import deque

import numpy as np


class StandingScores:
    """Scores a query anew only under the classes that changed since it was last asked about.

    Parameters
    ----------
    score : callable
        From row numbers (m,) and class ids (c,) to scores (m, c).
    n, n_classes : int
        Queries and classes.
    changes : list of int
        The class of each change so far, in order; it grows outside of here.
    """

    def __init__(self, score, n, n_classes, changes):
        self.score, self.changes = score, changes
        self.kept, self.upto = np.empty((n, n_classes)), np.full(n, -1)  # no score is known yet

    def __call__(self, rows):
        """Scores (len(rows), n_classes) of the queries ``rows``; a copy."""
        known = self.upto[rows]
        for upto in np.unique(known):
            if upto < len(self.changes):
                stale = rows[known == upto]
                all_classes = np.arange(self.kept.shape[1])
                classes = all_classes if upto < 0 else np.unique(self.changes[upto:])
                self.kept[np.ix_(stale, classes)] = self.score(stale, classes)
        self.upto[rows] = len(self.changes)
        return self.kept[rows]


class Moves:
    """Terms of rank one that were added to weights (C, D), as far back as it is less work to follow them."""

    def __init__(self, n_classes, dim):
        self.count = 0
        self.terms = deque(maxlen=n_classes * dim // (n_classes + dim))

    def add(self, left, right):
        """The weights moved by the outer product of ``left`` (C,) and ``right`` (D,)."""
        self.terms.append((left, right))
        self.count += 1

    def restart(self):
        """The weights were set anew."""
        self.terms.clear()
        self.count += 1

    def since(self, count):
        """Both factors, (r, C) and (r, D), of what came after the first ``count`` moves; None if that is not kept."""
        missed = self.count - count
        if missed > len(self.terms):
            return None
        return tuple(np.array(side) for side in zip(*list(self.terms)[len(self.terms) - missed :]))


class StandingProducts:
    """Products of fixed rows with weights that move: only the moves are multiplied anew.

    Parameters
    ----------
    Z : (n, D) float64
        The rows.
    weights : callable
        Gives the weights (C, D) as they are.
    moves : Moves
        How they moved; it grows outside of here.
    """

    def __init__(self, Z, weights, moves):
        self.Z, self.weights, self.moves = Z, weights, moves
        self.kept, self.upto = np.empty((len(Z), len(weights()))), np.full(len(Z), -1)  # nothing is known yet

    def __call__(self, rows):
        """Products (len(rows), C) of the rows ``rows``; a copy."""
        known = self.upto[rows]
        for upto in np.unique(known[known < self.moves.count]):
            stale = span(rows[known == upto])
            moved = None if upto < 0 else self.moves.since(upto)
            if moved is None:
                self.kept[stale] = self.Z[stale] @ self.weights().T
            else:
                self.kept[stale] += (self.Z[stale] @ moved[1].T) @ moved[0]
        self.upto[rows] = self.moves.count
        return self.kept[rows]


def span(rows):
    """Rows that follow one another as a slice, which needs no copy."""
    consecutive = len(rows) > 1 and np.all(np.diff(rows) == 1)
    return slice(rows[0], rows[-1] + 1) if consecutive else rows
