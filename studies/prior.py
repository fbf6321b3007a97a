"""The prior of new classes against known ones, estimated while items stream by.

The proposed system has a rule instead: as soon as they are known, new classes together are as
likely as known ones. Here stream items are answered with an estimated share in place of one half.
"""

import numpy as np
from scipy.special import logit

from ocrrlib.metrics import best_known_and_new

# Where the share comes from: EM on probabilities of the items so far, or corrections so far.
PRIOR_RULES = ("em", "told")
CLOSE = 1e-5  # an estimate stands when a step of EM moves it by less
ESTIMATE_DECIMALS = 4  # that are kept: beyond, rounding of sums and of EM would show


def estimate(mass: np.ndarray, start: float = 0.5) -> float:
    """Share of new classes among items, by EM on the class prior (Saerens et al. 2002).

    ``mass`` (n,) is each item's probability of a new class under a prior of one half. One further
    item of either kind keeps the share off 0 and 1.
    """
    # pi = (1 + sum_i pi m_i / (pi m_i + (1 - pi) (1 - m_i))) / (n + 2)
    share = start
    moved = 1.0
    while moved >= CLOSE:
        new = share * mass
        total = new + (1 - share) * (1 - mass)
        before = share
        share = float((1 + (new / total).sum()) / (len(mass) + 2))
        moved = abs(share - before)
    return share


def answers_under(share: float, p: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Answers (m,) if new classes have the prior ``share`` in all, in place of one half.

    ``p`` (m, C) are class probabilities under one half, ``new`` (C,) bool the new classes.
    """
    # log p_new + log pi > log p_known + log(1 - pi)
    with np.errstate(divide="ignore"):
        known, other, lead = best_known_and_new(np.log(p), new)
    return np.where(lead > -logit(share), other, known)


class Followed:
    """Record the probability that a system gives to new classes, ``mass``, item by item.

    With a rule, a name in ``PRIOR_RULES``, it answers these items under the share that the rule
    estimates from what came before. Test rows are answered as ever.
    """

    def __init__(self, system, new: np.ndarray, rule: str | None = None):
        self.system = system
        self.new = new
        self.rule = rule
        self.mass: list[float] = []
        self.share = 0.5  # that goes for the next item
        self.told = np.ones(2)  # corrections of known and of new classes, and one of either

    def watch(self, Q):
        return FollowedQueries(self.system.watch(Q), self)

    def correct(self, x, y):
        self.told[int(self.new[y])] += 1
        self.system.correct(x, y)
        if self.rule == "told":
            self.share = self.told[1] / self.told.sum()

    def meet(self, p: np.ndarray) -> None:
        """Take note of an item's class probabilities (C,)."""
        self.mass.append(p[self.new].sum())
        if self.rule == "em":
            self.share = estimate(np.array(self.mass), self.share)

    def __getattr__(self, name):
        return getattr(self.system, name)


class FollowedQueries:
    """The queries of a followed system; stream items are asked one by one, in order."""

    def __init__(self, queries, followed: Followed):
        self.queries = queries
        self.followed = followed

    def answers(self, rows):
        followed = self.followed
        if len(rows) > 1 or rows[0] != len(followed.mass):  # a test, or an item asked again
            return self.queries.answers(rows)
        p = self.queries.predict_proba(rows)
        if followed.rule:
            found = answers_under(followed.share, p, followed.new)
        else:
            found = self.queries.answers(rows)
        followed.meet(p[0])
        return found

    def __getattr__(self, name):
        return getattr(self.queries, name)
