"""Correction policies: which mistakes are corrected, when, with what label (paper, section 3.2)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from ocrrlib.files import InputError, pick
from ocrrlib.metrics import DECIMALS
from ocrrlib.scenario import Scenario

GOLDEN = (5**0.5 - 1) / 2  # its multiples, modulo 1, are spread evenly


def margin(p: np.ndarray) -> float:
    """Minus the lead of the most probable class of p (C,) over the next one."""
    second, first = np.sort(p)[-2:]
    return second - first


def entropy(p: np.ndarray) -> float:
    """Entropy of class probabilities p (C,), in nats."""
    return entr(p).sum()


# How uncertain a prediction is.
UNCERTAINTIES: dict[str, Callable[[np.ndarray], float]] = {"margin": margin, "entropy": entropy}


def uniform_confusion(scenario: Scenario, classes: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """For each stream item another class, all equally likely, by uniform ``draws`` (n,)."""
    places = np.searchsorted(classes, scenario.y_stream)
    others = (draws * (len(classes) - 1)).astype(np.int64)
    return classes[others + (others >= places)]


def nearest_confusion(scenario: Scenario, classes: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """For each stream item the class nearest to its own, by mean training rows."""
    X = np.concatenate([scenario.X_initial, scenario.X_stream]).astype(np.float64)
    y = np.concatenate([scenario.y_initial, scenario.y_stream])
    means = np.array([X[y == label].mean(axis=0) for label in classes])
    distances = np.round(np.linalg.norm(means[:, None] - means, axis=2), DECIMALS)
    np.fill_diagonal(distances, np.inf)
    nearest = classes[distances.argmin(axis=1)]
    return nearest[np.searchsorted(classes, scenario.y_stream)]


# The class that a wrong correction names.
CONFUSIONS = {"uniform": uniform_confusion, "nearest": nearest_confusion}


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

    Examples
    --------
    >>> from dataclasses import replace
    >>> half = Policy("half", p=0.5)
    >>> half.draws(seed=0, n=8)
    array([False, False, False, False,  True,  True, False,  True])
    >>> half.draws(seed=0, n=1000).sum()
    np.int64(482)
    >>> replace(half, name="exact half", exact=True).draws(seed=0, n=1000).sum()
    np.int64(500)
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
            way_out = "give p and wrong from 0 to 1, a delay from 0 up"
            raise InputError(f"{self} is out of range: {way_out}")

    def draws(self, seed: int, n: int) -> np.ndarray:
        """Stream positions that are corrected if wrong, (n,) bool.

        They are the same for all systems, and nested over ``p``.
        """
        uniform = np.random.default_rng([seed, 1]).random(n)
        if self.exact:
            asked = np.argsort(uniform, kind="stable")[: round(self.p * n)]
            return np.isin(np.arange(n), asked)
        return uniform < self.p

    def gate(self, n: int) -> Gate | None:
        """A gate for a stream of ``n`` items; None where draws decide."""
        if self.ask is None:
            return None
        return Gate(round(self.p * n), n, UNCERTAINTIES[self.ask])

    def labels(self, scenario: Scenario) -> np.ndarray:
        """Labels that corrections name, (n,) int64: the true ones but for a share ``wrong``.

        Drawn per position, so that all systems get the same, nested over rates.
        """
        y = scenario.y_stream
        if not self.wrong:
            return y
        classes = np.union1d(scenario.y_initial, y)
        uniform, draws = np.random.default_rng([scenario.seed, 5]).random((len(y), 2)).T
        others = CONFUSIONS[self.confusion](scenario, classes, draws)
        return np.where(uniform < self.wrong, others, y)


class Gate:
    """Spend exactly ``budget`` questions on the most uncertain of ``n`` items, seen one by one.

    An item is asked about if its uncertainty ranks, among the items so far, within the share of
    questions left to items left. Equal uncertainties are ranked by a sequence that spreads
    questions evenly over them.
    """

    def __init__(self, budget: int, n: int, uncertainty: Callable[[np.ndarray], float]):
        self.budget = budget  # questions left
        self.left = n  # items left
        self.uncertainty = uncertainty
        self.seen: list[tuple[float, float]] = []  # uncertainties so far, in order

    def asks(self, probabilities: np.ndarray) -> bool:
        """Whether to ask about the next item, of these class probabilities (C,)."""
        value = float(np.round(self.uncertainty(probabilities), DECIMALS))
        ranked = (value, self.left * GOLDEN % 1)
        more_uncertain = len(self.seen) - bisect_left(self.seen, ranked)
        insort(self.seen, ranked)
        # rank / items so far < questions left / items left
        asked = more_uncertain * self.left < self.budget * len(self.seen)
        self.left -= 1
        self.budget -= asked
        return asked


# For the joint fit of all classes: there is no stream, and nothing is corrected.
JOINT = Policy("joint", 0.0)
POLICIES = {
    "oracle": Policy("oracle", 1.0),
    "random50": Policy("random50", 0.5),
    "random10": Policy("random10", 0.1),
}
