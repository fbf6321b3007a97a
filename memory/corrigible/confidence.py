"""Calibrated confidence: the share of right answers among those with the same evidence.

Evidence are two numbers: the probability that the reader gives its answer, and the cosine of the
nearest entry. What they are worth is learnt from the entries themselves, which are dealt to two
halves. A reader of one half is asked the other, and tells right answers from wrong ones. A reader
of one half without a fifth of the classes tells what answers to texts of unknown classes look like.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from corrigible.fitted import keep, kept, key_of
from corrigible.readers import make_reader, version_of
from ocrrlib.search import SAME_VECTOR, Entries
from ocrrlib.shared import shared
from ocrrlib.voting import softmax

ASKED = 2000  # entries of known classes, and as many of classes that were kept back, at most
MOST = 5000  # entries that are used for it at most; with four times as many, no more is answered
LEAST = 20  # entries asked, of either kind, from which on evidence is weighed
CLASSES = 5  # parts of the classes, one of which is kept back at a time
KEPT_BACK = 15  # classes that are kept back in all at least, if there are so many
LEAST_CLASSES = 5  # from which on it is learnt what texts of unknown classes look like
HALVES = 2
GROWTH = 10  # it is learnt anew when entries are more by a tenth
UNKNOWN = 0.1  # least share of queries of classes without an entry, and what is added at first
MISS = 0.1  # probability that a promise is not kept
RIGHT, WRONG, UNKNOWN_CLASS = range(3)
DECIMALS = 9  # of confidence: batches and threads differ in the last bits
PENALTY = 1e-3  # of squared weights, so that they stay finite
FIT = 1  # raised when other confidence is learnt from the same entries
LEAST_KEPT = 1000  # entries from which on what is learnt is kept: of fewer it is learnt at once
BLOCK = 256  # rows that are compared with all others at a time


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
    frequent as others. For another share of these, they are weighed anew. Where none of unknown
    classes were asked, these have the evidence of others.
    """

    def __init__(
        self,
        sure: Sureness,
        outcomes: np.ndarray,
        lack: str | None = None,
        weights: np.ndarray | None = None,
    ):
        """``lack`` says why nothing can be promised, if so; ``weights`` (3, 6) may be known."""
        self._evidence = sure, outcomes, lack
        self.lack = lack
        is_unknown = outcomes == UNKNOWN_CLASS
        n_unknown = int(is_unknown.sum())
        self._right = outcomes == RIGHT
        self._n_known = len(outcomes) - n_unknown
        self._is_unknown = is_unknown
        self._weights: np.ndarray | None = None
        if self._n_known < LEAST or 0 < n_unknown < LEAST:
            self.lack = lack or f"the {len(outcomes)} entries that were tried are too few"
            return
        F = sure.features
        self._centre = F.mean(axis=0)
        self._scale = F.std(axis=0) + 1e-9
        self._parts = np.where(is_unknown, 1 / max(1, n_unknown), 1 / self._n_known)
        Z = self._scaled(sure)
        if weights is None:
            weights = _likeliest(Z, np.eye(3)[outcomes] * self._parts[:, None] / 2)
        self._weights = weights
        self._shares = self._weighted(Z)

    def to_json(self) -> list:
        """Return all that it was made from, and the weights, as lists and numbers."""
        sure, outcomes, lack = self._evidence
        weights = None if self._weights is None else self._weights.tolist()
        return [*(one.tolist() for one in (*sure, outcomes)), lack, weights]

    @classmethod
    def from_json(cls, values: list) -> "Confidence":
        """Make what ``to_json`` told of."""
        probability, cosine, outcomes, lack, weights = values
        sure = Sureness(np.array(probability), np.array(cosine))
        known = None if weights is None else np.array(weights)
        return cls(sure, np.array(outcomes, np.int64), lack, known)

    def _scaled(self, sure):
        Z = (sure.features - self._centre) / self._scale
        return np.hstack([Z, np.ones((len(Z), 1))])

    def _weighted(self, Z):
        # Not by BLAS, whose sums differ between batches and threads.
        shares = softmax((Z[:, None] * self._weights).sum(axis=2))
        if not self._is_unknown.any():
            shares[:, UNKNOWN_CLASS] = shares[:, :UNKNOWN_CLASS].sum(axis=1)
        return shares

    def of(self, sure: Sureness, unknown: float) -> np.ndarray:
        """Probabilities (m,) of being right, if ``unknown`` is the share of unknown classes."""
        if self._weights is None:  # too few entries: the same for all
            overall = (1 - unknown) * (self._right.sum() + 1) / (self._n_known + 2)
            return np.full(len(sure.cosine), overall)
        found = _weighed(self._weighted(self._scaled(sure)), unknown)
        return np.round(found, DECIMALS)

    def promised(self, confidence: np.ndarray, unknown: float) -> np.ndarray:
        """Lower bounds (m,) of the share of right answers among those at least as sure; or 0.

        ``confidence`` (m,) is theirs, as from ``of``, with the same share ``unknown``.
        """
        if self.lack is not None:
            return np.zeros(len(confidence))
        tried = np.round(_weighed(self._shares, unknown), DECIMALS)
        order = np.argsort(-tried, kind="stable")
        tried = tried[order]
        weight = (self._parts * np.where(self._is_unknown, unknown, 1 - unknown))[order]
        total = weight.cumsum()
        right = np.where(self._right[order], weight, 0).cumsum()
        bounds = _lower_bound(right / total, total**2 / (weight**2).cumsum())
        # Equal ones stand or fall together. What is promised of many holds for the surest of them.
        last = np.append(tried[1:] < tried[:-1], True)
        bounds = np.maximum.accumulate(bounds[last][::-1])
        place = np.searchsorted(tried[last][::-1], confidence, side="right")
        return np.append(0.0, bounds)[place]

    def coverage(self, at_least: float, unknown: float) -> float:
        """The share of answers that are ``promised`` to be right at least so often.

        As those that were tried, if ``unknown`` is the share of unknown classes.
        """
        if self.lack is not None:
            return 0.0
        tried = np.round(_weighed(self._shares, unknown), DECIMALS)
        weight = self._parts * np.where(self._is_unknown, unknown, 1 - unknown)
        is_promised = self.promised(tried, unknown) >= at_least
        return float(weight[is_promised].sum() / weight.sum())


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

    It rests on those that were written first and, whenever they have grown by a tenth, on all of
    them: it is a function of the entries alone, and a correction seldom changes it. It may be
    ``kept`` in a file, see ``corrigible.fitted``.
    """

    def __init__(self, reader: str, kept: Path | None = None):
        self._reader = reader
        self._kept = kept
        self._known: Confidence  # as of these entries, so many of them
        self._entries: Entries | None = None
        self._size = 0

    def confidence(self, entries: Entries, n_first: int) -> Confidence:
        """The confidence in answers from entries, of which ``n_first`` were written at once."""
        size = n_first
        while size + size // GROWTH < entries.size:
            size += size // GROWTH + 1
        if entries is not self._entries or size != self._size:
            y = entries.y[:size]
            self._known = calibrated(self._reader, entries.X, y, n_first, self._kept)
            self._entries = entries
            self._size = size
        return self._known


def calibrated(
    reader: str, X: np.ndarray, y: np.ndarray, n_first: int, path: Path | None = None
) -> Confidence:
    """The confidence of a reader, by its name, in answers from entries of classes y (n,).

    X has their vectors, and perhaps more. The first ``n_first`` were written at once.
    Of more than ``MOST`` a sample is used. It may be kept at a ``path``.
    """
    sampled = np.sort(np.random.default_rng(0).permutation(len(y))[:MOST])
    n_first = max(1, int(np.searchsorted(sampled, n_first)))
    X = X[sampled]
    y = y[sampled]
    if path is None or len(y) < LEAST_KEPT:
        return _calibrated(reader, X, y, n_first)
    key = key_of([FIT, version_of(reader), reader, n_first], X, y)
    found = kept(path, key)
    if found is not None:
        return Confidence.from_json(found)
    known = _calibrated(reader, X, y, n_first)
    keep(path, key, known.to_json())
    return known


@shared(keep=4)
def _calibrated(name, X, y, n_first):
    # A text that is in both halves would be known by heart.
    kept = _newest_of_equals(X)
    n_first = max(1, int(np.searchsorted(kept, n_first)))
    X = X[kept]
    y = y[kept]
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    by_class = order[np.argsort(y[order], kind="stable")]
    half = np.empty(len(y), np.int64)
    half[by_class] = np.arange(len(y)) % HALVES
    labels, ranks = np.unique(y, return_inverse=True)
    part = rng.permutation(len(labels))[ranks] % CLASSES
    reader = make_reader(name)
    n_classes = int(y.max()) + 1
    evidence = [(np.empty(0), np.empty(0), np.empty(0, np.int64))]

    def ask(asked, read):
        """Ask rows of a reader of others, both in random order."""
        read = np.sort(read)
        reader.read(Entries(X[read], y[read]), max(1, (read < n_first).sum()), n_classes)
        ids, probabilities, cosines, _ = reader.answer(X[asked])
        outcomes = np.where(ids == y[asked], RIGHT, WRONG)
        outcomes[~np.isin(y[asked], y[read])] = UNKNOWN_CLASS
        evidence.append((probabilities[np.arange(len(ids)), ids], cosines[:, 0], outcomes))

    sides = HALVES if len(y) < HALVES * ASKED else 1  # one of many is enough to ask
    for side in range(sides):
        read = order[half[order] != side]
        asked = order[(half[order] == side) & np.isin(y[order], y[read])]
        if len(asked):
            ask(asked[: ASKED // sides], read)
    lack = None
    if len(labels) < LEAST_CLASSES:
        lack = f"{len(labels)} labels are too few to learn what texts of others look like"
    else:
        parts = min(CLASSES, -(-KEPT_BACK * CLASSES // len(labels)))  # rounded up
        for kept_back in range(parts):
            is_asked = part[order] == kept_back
            ask(order[is_asked][: ASKED // parts], order[~is_asked][: MOST // HALVES])
    probability, cosine, outcomes = (np.concatenate(found) for found in zip(*evidence))
    return Confidence(Sureness(probability, cosine), outcomes, lack)


def _newest_of_equals(X):
    """Places (k,), in order, of the rows X (n, d) that no newer row equals."""
    stays = np.ones(len(X), bool)
    for start in range(0, len(X), BLOCK):
        equal = X[start : start + BLOCK] @ X[start:].T >= SAME_VECTOR
        stays[start : start + BLOCK] = ~np.triu(equal, 1).any(axis=1)  # columns of newer rows
    return np.flatnonzero(stays)


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


def _lower_bound(share, n):
    """Lower confidence bounds of shares, each of n tried ones; not kept with probability MISS."""
    # Clopper and Pearson (1934): the MISS quantile of Beta(n p, n - n p + 1), where weighted ones
    # count as n = (sum w)^2 / sum w^2 equal ones (Korn and Graubard 1998).
    from scipy.special import betaincinv

    right = np.minimum(share, 1) * n
    return np.where(right > 0, betaincinv(np.maximum(right, 1e-9), n - right + 1, MISS), 0)
