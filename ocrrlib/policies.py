"""Correction policies: which mistakes get corrected, when, and what the system is then told (paper, section 3.2)."""

from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np

from ocrrlib.errors import InputError, pick

GOLDEN = (5**0.5 - 1) / 2  # multiples of it, modulo 1, never come close together
DECIMALS = 9  # uncertainties this close are equal: BLAS rounds differently in batches of different size


def _margin(p):
    second, first = np.sort(p)[-2:] if len(p) > 1 else (0.0, p[0])
    return second - first


def _entropy(p):
    p = p[p > 0]
    return -np.sum(p * np.log(p))


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


# How unsure a system is of one row, from its class probabilities (C,).
UNCERTAINTIES = {"margin": _margin, "entropy": _entropy}
# Which class a wrong correction names instead of the true one.
CONFUSIONS = {"uniform": _uniform, "nearest": _nearest}


@dataclass(frozen=True)
class Policy:
    """Who is corrected, with what label, how late; ``dataclasses.replace`` changes one of these at a time.

    Attributes
    ----------
    p : float
        A mistake is corrected with this probability, independently per stream position.
        With ``ask``, the share of the stream that may be asked about.
    wrong : float
        Share of the stream positions where a correction names a wrong class.
    confusion : str
        Which one, a name in ``CONFUSIONS``.
    delay : int
        Stream items between a mistake and its correction; the last ones come at the stream's end.
    ask : str or None
        Ask about the items of which the system is least sure, a name in ``UNCERTAINTIES``,
        instead of tossing coins. An answer that turns out right costs a question all the same.

    Raises
    ------
    InputError
        If a number is out of range or a name unknown.
    """

    name: str
    p: float
    wrong: float = 0.0
    confusion: str = "uniform"
    delay: int = 0
    ask: str | None = None

    def __post_init__(self):
        pick("confusion", self.confusion, CONFUSIONS)
        if self.ask is not None:
            pick("way of asking", self.ask, UNCERTAINTIES)
        for name in ("p", "wrong"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} {getattr(self, name)!r} is out of range: give a share from 0 to 1")
        if not (isinstance(self.delay, (int, np.integer)) and self.delay >= 0):
            raise InputError(f"delay {self.delay!r} is out of range: give a number of stream items from 0 up")

    def coins(self, seed, n):
        """Which of ``n`` stream positions are corrected if wrong, as (n,) bool.

        One coin per position, so that every system sees the same ones.
        """
        return np.random.default_rng([seed, 1]).random(n) < self.p

    def gate(self, n):
        """Who decides on questions about a stream of ``n`` items; None where coins do."""
        return None if self.ask is None else Gate(round(self.p * n), n, UNCERTAINTIES[self.ask])

    def told(self, scenario):
        """The labels that corrections would name, (n,) int64: the true ones but for a share ``wrong``.

        Drawn per position, so that all systems are told the same; what is wrong
        at one rate is wrong in the same way at every higher one.

        Raises
        ------
        InputError
            If there is only one class to name.
        """
        y = scenario.y_stream
        if not self.wrong:
            return y
        classes = np.union1d(scenario.y_initial, y)
        if len(classes) < 2:
            raise InputError("a wrong correction needs a second class to name: give a scenario with more classes")
        coins, draws = np.random.default_rng([scenario.seed, 5]).random((len(y), 2)).T
        return np.where(coins < self.wrong, CONFUSIONS[self.confusion](scenario, classes, draws), y)


class Gate:
    """Spends a number of questions on the most uncertain of ``n`` items, seen one after the other.

    An item is asked about if it is among the most uncertain so far, in the share of the
    questions left to the items left. That share is 1 as soon as the two are equal, so
    that exactly ``budget`` questions are asked. Items that are equally uncertain stand in an order that
    spreads questions evenly over them.
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


POLICIES = {policy.name: policy for policy in (Policy("oracle", 1.0), Policy("random50", 0.5), Policy("random10", 0.1))}
