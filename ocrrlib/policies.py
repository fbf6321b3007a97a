"""Correction policies: which mistakes are corrected, when, and with what label (paper, section 3.2)."""

from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from ocrrlib.files import InputError, pick
from ocrrlib.metrics import DECIMALS

GOLDEN = (5**0.5 - 1) / 2  # its multiples, modulo 1, are spread evenly


def _uniform(scenario, classes, draws):
    """Any other class, all equally likely."""
    places = np.searchsorted(classes, scenario.y_stream)
    others = (draws * (len(classes) - 1)).astype(np.int64)
    return classes[others + (others >= places)]


def _nearest(scenario, classes, draws):
    """The class whose mean training row is closest to the mean of the true class."""
    X = np.concatenate([scenario.X_initial, scenario.X_stream]).astype(np.float64)
    y = np.concatenate([scenario.y_initial, scenario.y_stream])
    means = np.array([X[y == label].mean(axis=0) for label in classes])
    distances = np.round(np.linalg.norm(means[:, None] - means, axis=2), DECIMALS)
    np.fill_diagonal(distances, np.inf)
    return classes[distances.argmin(axis=1)[np.searchsorted(classes, scenario.y_stream)]]


# Of one row, from its class probabilities (C,).
UNCERTAINTIES = {
    "margin": lambda p: np.subtract(*np.sort(p)[-2:]),
    "entropy": lambda p: entr(p).sum(),
}
CONFUSIONS = {"uniform": _uniform, "nearest": _nearest}  # the class that a wrong correction names


@dataclass(frozen=True)
class Policy:
    """Correction policy; ``dataclasses.replace`` changes one setting at a time.

    A mistake is corrected with probability ``p``, one Bernoulli draw per stream position. With
    ``exact``, ``round(p * n)`` random items are asked about instead; with ``ask``, a name in
    ``UNCERTAINTIES``, as many of the most uncertain ones. A question whose answer was right already
    is spent all the same. A share ``wrong`` of the corrections names a wrong class, chosen by
    ``confusion``, a name in ``CONFUSIONS``. A correction comes ``delay`` stream items after its
    mistake, the last ones at the end of the stream.

    Raises ``InputError`` if a number is out of range or a name unknown.
    """

    name: str
    p: float
    wrong: float = 0.0
    confusion: str = "uniform"
    delay: int = 0
    ask: str | None = None
    exact: bool = False

    def __post_init__(self):
        pick("confusion", self.confusion, CONFUSIONS)
        pick("way of asking", self.ask or "margin", UNCERTAINTIES)
        if not (0 <= self.p <= 1 and 0 <= self.wrong <= 1 and self.delay >= 0):
            raise InputError(
                f"{self} is out of range: give p and wrong from 0 to 1, a delay from 0 up"
            )

    def draws(self, seed, n):
        """Stream positions that are corrected if wrong, (n,) bool; the same for all systems, nested over ``p``."""
        uniform = np.random.default_rng([seed, 1]).random(n)
        if self.exact:
            return np.isin(np.arange(n), np.argsort(uniform, kind="stable")[: round(self.p * n)])
        return uniform < self.p

    def gate(self, n):
        """A ``Gate`` for a stream of ``n`` items; None where draws decide."""
        return None if self.ask is None else Gate(round(self.p * n), n, UNCERTAINTIES[self.ask])

    def labels(self, scenario):
        """Labels that corrections name, (n,) int64: the true ones but for a share ``wrong``.

        Drawn per position, so that all systems get the same, nested over rates.
        """
        y = scenario.y_stream
        if not self.wrong:
            return y
        classes = np.union1d(scenario.y_initial, y)
        uniform, draws = np.random.default_rng([scenario.seed, 5]).random((len(y), 2)).T
        return np.where(
            uniform < self.wrong, CONFUSIONS[self.confusion](scenario, classes, draws), y
        )


class Gate:
    """Spends exactly ``budget`` questions on the most uncertain of ``n`` items, seen one after the other.

    An item is asked about if its uncertainty ranks, among the items so far, within the share of
    questions left to items left. Equal uncertainties are ranked by a sequence that spreads
    questions evenly over them.
    """

    def __init__(self, budget, n, uncertainty):
        self.budget, self.left, self.uncertainty, self.seen = budget, n, uncertainty, []

    def asks(self, probabilities):
        """Whether to ask about the next item, of these class probabilities (C,)."""
        value = float(np.round(self.uncertainty(probabilities), DECIMALS)), self.left * GOLDEN % 1
        before = len(self.seen) - bisect_left(self.seen, value)
        insort(self.seen, value)
        asked = before * self.left < self.budget * len(self.seen)
        self.left -= 1
        self.budget -= asked
        return asked


JOINT = Policy(
    "joint", 0.0
)  # for the joint fit of all classes: there is no stream, and nothing is corrected
POLICIES = {
    policy.name: policy
    for policy in (Policy("oracle", 1.0), Policy("random50", 0.5), Policy("random10", 0.1))
}
