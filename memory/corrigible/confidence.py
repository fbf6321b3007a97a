"""Calibrated confidence: the share of right answers among those with the same evidence.

Evidence are two numbers: the probability that the reader gives its answer, and the cosine of the
nearest entry. What they are worth is learnt from the entries themselves. Each half of them, without
a fifth of the classes, is read by a reader of its own, which is asked the other half: rows that it
can be right about, and rows of classes that it cannot know.
"""

from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from corrigible.readers import make_reader
from ocrrlib.search import Entries
from ocrrlib.shared import shared
from ocrrlib.voting import softmax

ASKED = 1000  # entries of known classes at most, and as many of classes that were kept back
MOST = 20_000  # entries that are read for it at most
LEAST = 20  # entries asked, of either kind, from which on evidence is weighed
CLASSES = 5  # parts of the classes, one of which is kept back at a time
HALVES = 2
UNKNOWN = 0.1  # least share of queries of classes without an entry, and what is added at first
RIGHT, WRONG, UNKNOWN_CLASS = range(3)
DECIMALS = 9  # of confidence: batches and threads differ in the last bits
PENALTY = 1e-3  # of squared weights, so that they stay finite


class Sureness(NamedTuple):
    """Evidence for answers to m queries: probabilities of the answers and highest cosines (m,)."""

    probability: np.ndarray
    cosine: np.ndarray

    @property
    def features(self) -> np.ndarray:
        """What is weighed (m, 5): log-odds and cosine, their squares and product."""
        p = np.clip(self.probability, 1e-4, 1 - 1e-4)
        u = np.log(p / (1 - p))
        v = self.cosine
        return np.stack([u, v, u**2, v**2, u * v], axis=1)


class Confidence:
    """Confidence of answers, from the evidence of some whose outcome is known.

    ``outcomes`` (n,) are ``RIGHT``, ``WRONG`` or ``UNKNOWN_CLASS``. Probabilities of the three are
    a softmax of weighted features, as likely as can be when queries of unknown classes are as
    frequent as others. For another share of these, they are weighed anew.
    """

    def __init__(self, sure: Sureness, outcomes: np.ndarray):
        self._outcomes = outcomes
        self._n_unknown = int((outcomes == UNKNOWN_CLASS).sum())
        self._n_known = len(outcomes) - self._n_unknown
        self._weights: np.ndarray | None = None
        if min(self._n_known, self._n_unknown) >= LEAST:
            F = sure.features
            self._centre = F.mean(axis=0)
            self._scale = F.std(axis=0) + 1e-9
            Z = self._scaled(sure)
            weight = 0.5 / np.where(outcomes == UNKNOWN_CLASS, self._n_unknown, self._n_known)
            self._weights = _likeliest(Z, np.eye(3)[outcomes] * weight[:, None])
            self._shares = softmax(Z @ self._weights.T)

    def _scaled(self, sure):
        Z = (sure.features - self._centre) / self._scale
        return np.hstack([Z, np.ones((len(Z), 1))])

    def of(self, sure: Sureness, unknown: float) -> np.ndarray:
        """Probabilities (m,) of being right, if ``unknown`` is the share of unknown classes."""
        if self._weights is None:  # too few entries: the same for all
            right = (self._outcomes == RIGHT).sum()
            overall = (1 - unknown) * (right + 1) / (self._n_known + 2)
            return np.full(len(sure.cosine), overall)
        with threadpool_limits(1):  # so that sums are made in one order
            found = _weighed(softmax(self._scaled(sure) @ self._weights.T), unknown)
        return np.round(found, DECIMALS)

    def least(self, share: float, unknown: float) -> float:
        """The lowest confidence from which on a ``share`` of answers is right; inf if none is."""
        if self._weights is None:
            return np.inf
        confidence = np.round(_weighed(self._shares, unknown), DECIMALS)
        is_unknown = self._outcomes == UNKNOWN_CLASS
        weight = np.where(is_unknown, unknown / self._n_unknown, (1 - unknown) / self._n_known)
        order = np.argsort(-confidence, kind="stable")
        right = np.where(self._outcomes == RIGHT, weight, 0)[order].cumsum()
        enough = np.flatnonzero(right >= share * weight[order].cumsum())
        return float(confidence[order][enough[-1]]) if len(enough) else np.inf


def unknown_share(y: np.ndarray, n_first: int) -> float:
    """The share of queries that is taken to be of classes without an entry.

    ``y`` (n,) are the class ids of entries, of which the first ``n_first`` came at once.
    """
    # 1/10 + 1/10 (n_1 + 1) / (n + 1): of n later entries n_1 are the only ones of their class
    # (Good 1953), and one more of both is taken for granted.
    later = y[n_first:]
    counts = np.bincount(y)
    alone = int((counts[later] == 1).sum())
    return UNKNOWN + UNKNOWN * (alone + 1) / (len(later) + 1)


class Calibration:
    """The confidence of a reader, by its name, in answers from entries that others append to.

    It rests on those that were written first, or on 2, 4, ... times as many: it is a function of
    the entries alone, and a correction seldom changes it.
    """

    def __init__(self, reader: str):
        self._reader = reader
        self._known: Confidence  # as of these entries, so many of them
        self._entries: Entries | None = None
        self._size = 0

    def confidence(self, entries: Entries, n_first: int) -> Confidence:
        """The confidence in answers from entries, of which ``n_first`` were written at once."""
        size = n_first
        while 2 * size <= entries.size:
            size *= 2
        if entries is not self._entries or size != self._size:
            self._known = calibrated(self._reader, entries.X, entries.y[:size], n_first)
            self._entries = entries
            self._size = size
        return self._known


def calibrated(reader: str, X: np.ndarray, y: np.ndarray, n_first: int) -> Confidence:
    """The confidence of a reader, by its name, in answers from entries of classes y (n,).

    X has their vectors, and perhaps more. The first ``n_first`` were written at once.
    Of more than ``MOST`` a sample is read.
    """
    kept = np.sort(np.random.default_rng(0).permutation(len(y))[:MOST])
    n_first = max(1, int(np.searchsorted(kept, n_first)))
    return _calibrated(reader, X[kept], y[kept], n_first)


@shared(keep=4)
def _calibrated(name, X, y, n_first):
    n_classes = int(y.max()) + 1
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    by_class = order[np.argsort(y[order], kind="stable")]
    half = np.empty(len(y), np.int64)
    half[by_class] = np.arange(len(y)) % HALVES
    part = rng.permutation(n_classes) % CLASSES
    reader = make_reader(name)
    asked = []
    for side in range(HALVES):
        read = (half != side) & (part[y] != side)
        if read.any():
            reader.read(Entries(X[read], y[read]), max(1, read[:n_first].sum()), n_classes)
            others = order[half[order] == side]
            is_known = np.isin(y[others], y[read])
            for some in (others[is_known], others[~is_known]):
                asked.append(_asked(reader, X, y, some[: ASKED // HALVES], y[read]))
    probability, cosine, outcomes = (np.concatenate(parts) for parts in zip(*asked))
    return Confidence(Sureness(probability, cosine), outcomes)


def _asked(reader, X, y, asked, known):
    """Evidence for the answers to rows ``asked``, and their outcomes."""
    if not len(asked):
        return np.empty(0), np.empty(0), np.empty(0, np.int64)
    ids, probabilities, cosines, _ = reader.answer(X[asked])
    outcomes = np.where(ids == y[asked], RIGHT, WRONG)
    outcomes[~np.isin(y[asked], known)] = UNKNOWN_CLASS
    return probabilities[np.arange(len(ids)), ids], cosines[:, 0], outcomes


def _likeliest(Z, targets):
    """Weights (3, f) under which outcomes are likeliest, given weighted ``targets`` (n, 3)."""
    from scipy.optimize import minimize

    shape = 3, Z.shape[1]
    free = np.ones(shape[1])
    free[-1] = 0  # the constant is not held to zero

    def loss(w):
        # -sum_n sum_o t_no log softmax(Z w)_no + penalty / 2 |w|^2
        w = w.reshape(shape)
        p = softmax(Z @ w.T)
        slope = (p * targets.sum(axis=1, keepdims=True) - targets).T @ Z + PENALTY * w * free
        value = -(targets * np.log(np.maximum(p, 1e-300))).sum()
        return value + PENALTY / 2 * (w**2 @ free).sum(), slope.ravel()

    with threadpool_limits(1):  # so that sums are made in one order
        found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B")
    return found.x.reshape(shape)


def _weighed(shares, unknown):
    """Probabilities of being right, from shares (m, 3) under as many unknown as known classes."""
    # p(right | e) = (1 - u) s_right / ((1 - u) (s_right + s_wrong) + u s_unknown)
    right, wrong, other = shares.T
    return (1 - unknown) * right / ((1 - unknown) * (right + wrong) + unknown * other)
