"""Class scores of fixed queries, kept up to date as classes change."""

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
