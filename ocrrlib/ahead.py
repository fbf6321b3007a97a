"""Answers to fixed queries, some ahead of being asked for: until the next correction they do not change."""

import numpy as np

FEWEST, MOST = 4, 32  # queries that are answered at once where one is asked about


class Ahead:
    """A system that is asked about one query after the other, and answers those that follow along with it.

    The answers are those of the system alone, sooner: a row's answer hangs neither on the rows that it is asked
    with nor on what was asked before, as is promised for every system of the registry.

    Parameters
    ----------
    system : System
        One that can ``watch``.
    """

    def __init__(self, system):
        self.system, self.known, self.length = system, np.zeros(0, bool), FEWEST

    def __getattr__(self, name):
        return getattr(self.system, name)

    def correct(self, x, y):
        """As the system does; what it has answered so far counts no longer."""
        self.system.correct(x, y)
        self.known[:], self.length = False, FEWEST

    def watch(self, Q):
        """As of the system; queries that are asked about one by one had better follow each other."""
        ask, answers = self.system.watch(Q), np.empty(len(Q), np.int64)
        self.known = np.zeros(len(Q), bool)

        def answered(rows):
            if not self.known[rows].all():
                asked = rows
                if len(rows) == 1:
                    asked = np.arange(rows[0], min(rows[0] + self.length, len(Q)))
                    self.length = min(2 * self.length, MOST)
                answers[asked], self.known[asked] = ask(asked), True
            return answers[rows]

        return answered
