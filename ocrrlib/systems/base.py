"""The contract of a system: fitted once, then asked and corrected, one example at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ocrrlib.files import InputError
from ocrrlib.metrics import DECIMALS
from ocrrlib.voting import softmax


@dataclass(frozen=True)
class Storage:
    """Memory of a system: bytes in all, stored examples, learnt parameters."""

    bytes: int
    entries: int = 0
    parameters: int = 0


@dataclass(eq=False)
class System:
    """A classifier that is fitted once and then corrected, one example at a time.

    A subclass implements ``_fit``, ``_correct``, ``storage`` and ``_scores``: scores (m, C) of rows
    under all classes. By default the highest score among the classes seen is the answer, and
    probabilities are the softmax of the scores. If scores are probabilities already,
    ``probabilistic`` says so.

    Evidence is whatever answers and probabilities follow from: the scores, unless a subclass
    replaces ``_evidence``, ``_answer`` and ``_probabilities``, as those that ask neighbours do. The
    stream asks the same queries again and again; ``watch`` keeps their answers while nothing is
    learnt, and a subclass whose evidence can be updated faster than found anew replaces
    ``_follow``.

    Hyperparameters are fields of a dataclass. ``dim`` is the length of a row, ``n_classes`` the
    number C of classes, those yet to come included, ``seen`` (C,) bool the classes of which a row
    was met, initially or in a correction: only these are answered. ``corrections`` counts what was
    learnt since ``fit``.

    Examples
    --------
    >>> from ocrrlib.systems import make
    >>> X = np.eye(3, dtype=np.float32)
    >>> system = make("ncm").fit(X[:2], np.array([0, 1]), classes=("card", "pin", "transfer"))
    >>> system.predict(X)
    array([0, 1, 0])
    >>> system.correct(X[2], 2)
    >>> system.predict(X)
    array([0, 1, 2])
    >>> system.storage()
    Storage(bytes=96, entries=0, parameters=9)
    """

    seed: int = 0  #: of the method's random draws
    fitted = False
    learns = True  # whether corrections change anything
    probabilistic = False  # whether scores are class probabilities rather than their logarithms
    temperature = 1.0  # of the softmax over scores
    ahead = 8  # consecutive watched queries that are answered together when one is asked

    def fit(self, X: np.ndarray, y: np.ndarray, classes: Sequence) -> Self:
        """Set the initial state from the known classes; a second call starts afresh.

        ``X`` (n, d) float32 are embeddings, unit rows, ``y`` (n,) their class ids, ``classes`` the
        names of all classes, those yet to come included; a class id is a position in it.

        Raises ``InputError`` if there are no rows, one is not a finite unit vector, or a label is
        missing or not a class id.
        """
        X = self._rows(X)
        y = np.asarray(y)
        labelled = len(X) > 0 and y.shape == X.shape[:1] and y.dtype.kind in "iu"
        if not (labelled and y.min() >= 0 and y.max() < len(classes)):
            last = len(classes) - 1
            raise InputError(
                f"fit needs a class id from 0 to {last} for each row; got {len(X)} rows"
            )
        self.fitted = False  # stays so if the method fails
        self.dim = X.shape[-1]
        self.n_classes = len(classes)
        self.corrections = 0
        self.seen = np.isin(np.arange(len(classes)), y)
        self._fit(X, y.astype(np.int64, copy=False))
        self.fitted = True
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Class ids (m,) of the rows X (m, d).

        Raises ``InputError`` if a row is no finite unit vector of length ``dim``.
        """
        return self._answer(self._evidence(self._known_rows(X)))

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Class probabilities (m, C) float64 of the rows X (m, d); zero for classes not seen.

        Raises ``InputError`` as ``predict``.
        """
        return self._probabilities(self._evidence(self._known_rows(X)))

    def correct(self, x: np.ndarray, y: int) -> None:
        """Learn from one corrected example: x (d,), its class id y; one update step.

        Raises ``InputError`` if ``x`` is no finite unit vector of length ``dim`` or ``y`` no class
        id.
        """
        x = self._known_rows([x])[0]
        if not (isinstance(y, (int, np.integer)) and 0 <= y < self.n_classes):
            raise InputError(f"label {y} is not a class id from 0 to {self.n_classes - 1}")
        if self.learns:
            self.seen[y] = True
            self.corrections += 1
            self._correct(x, int(y))

    def storage(self) -> Storage:
        """Memory in use."""
        raise NotImplementedError

    def watch(self, Q: np.ndarray) -> Watched:
        """Watch fixed queries Q (q, d), which are answered repeatedly."""
        return Watched(self, Q)

    # What a subclass implements.

    def _fit(self, X: np.ndarray, y: np.ndarray) -> None:
        raise NotImplementedError

    def _correct(self, x: np.ndarray, y: int) -> None:
        raise NotImplementedError

    def _scores(self, X: np.ndarray) -> np.ndarray:
        """Scores (m, C) of rows (m, d) under all classes."""
        raise NotImplementedError

    # What it may replace.

    def _evidence(self, X: np.ndarray) -> Any:
        """Whatever answers and probabilities of rows X (m, d) follow from: scores (m, C)."""
        return self._scores(X)

    def _follow(self, Q: np.ndarray) -> Callable[[np.ndarray], Any]:
        """A function from row numbers to the evidence about these rows of Q (q, d), at any time."""
        return lambda rows: self._evidence(Q[rows])

    def _follow_whole(self, Q: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
        """A function from row numbers to what ``Watched.whole_log_probabilities`` returns.

        None where evidence leaves out nothing that is held.
        """
        return None

    def _answer(self, evidence: Any) -> np.ndarray:
        """Class ids (m,)."""
        return best_seen(evidence, self.seen)

    def _probabilities(self, evidence: Any) -> np.ndarray:
        """Class probabilities (m, C)."""
        if self.probabilistic:
            return evidence
        return softmax_seen(evidence / self.temperature, self.seen)

    def _log_probabilities(self, evidence: Any) -> np.ndarray:
        """Log-probabilities (m, C), up to a constant per row and a common factor."""
        if not self.probabilistic:  # probabilities would underflow
            return np.where(self.seen, evidence, -np.inf)
        with np.errstate(divide="ignore"):
            return np.log(self._probabilities(evidence))

    def _known_rows(self, X: Any) -> np.ndarray:
        if not self.fitted:
            raise InputError("the system knows no classes yet: call fit first")
        X = self._rows(X)
        if X.ndim == 2 and X.shape[1] != self.dim:
            raise InputError(f"rows must be of length {self.dim}, as in fit; got shape {X.shape}")
        return X

    @staticmethod
    def _rows(X: Any) -> np.ndarray:
        X = np.asarray(X)
        if X.ndim != 2 or X.dtype.kind not in "fiu":
            raise InputError(
                f"rows must be embeddings, (n, d) numbers; got {X.dtype} of shape {X.shape}"
            )
        lengths = np.sqrt(np.einsum("nd,nd->n", X, X, dtype=np.float64))
        bad = np.flatnonzero(~(np.abs(lengths - 1) < 0.01))  # NaN too
        if len(bad):
            found = f"row {bad[0]} is not a unit vector (length {lengths[bad[0]]:.4g})"
            raise InputError(f"{found}: normalise embeddings")
        return X.astype(np.float32, copy=False)


class Watched:
    """Fixed queries (q, d), asked by row number; answers equal those of ``predict`` at any time.

    A query is answered again only after a correction. Queries that are asked together, as test
    rows are, keep their evidence, too.
    """

    def __init__(self, system: System, Q: np.ndarray):
        self.system = system
        self._evidence_of = system._follow(Q)
        self._answers = np.empty(len(Q), np.int64)
        self._answered_at = np.full(len(Q), -1)  # corrections when each was answered
        self._asked: tuple | None = None  # what is kept is about these rows, at these corrections
        self._evidence: Any = None
        self._log_p: np.ndarray | None = None
        self._whole = system._follow_whole(Q)

    def answers(self, rows: np.ndarray) -> np.ndarray:
        """``predict`` of the queries ``rows`` (m,)."""
        now = self.system.corrections
        if (self._answered_at[rows] != now).any():
            if len(rows) == 1:  # only corrections change answers: the next ones are answered along
                last = min(rows[0] + self.system.ahead, len(self._answers))
                asked = np.arange(rows[0], last)
                evidence = self._evidence_of(asked)
            else:
                asked = rows
                evidence = self._kept_evidence(rows)
            self._answers[asked] = self.system._answer(evidence)
            self._answered_at[asked] = now
        return self._answers[rows]

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        """``predict_proba`` of the queries ``rows`` (m,)."""
        return self.system._probabilities(self._evidence_of(rows))

    def log_probabilities(self, rows: np.ndarray) -> np.ndarray:
        """Log-probabilities (m, C), up to a constant per row and a common factor."""
        evidence = self._kept_evidence(rows)
        if self._log_p is None:
            self._log_p = self.system._log_probabilities(evidence)
        return self._log_p

    def whole_log_probabilities(self, rows: np.ndarray) -> np.ndarray:
        """Log-probabilities (m, C) from all that is held, up to a constant and a common factor.

        A memory that lets few neighbours vote gives no probability to the other classes, though it
        holds their entries; here each class has its nearest entry. Of other systems they are
        ``log_probabilities``.
        """
        if self._whole is None:
            return self.log_probabilities(rows)
        return self._whole(rows)

    def _kept_evidence(self, rows: np.ndarray) -> Any:
        asked = self.system.corrections, rows.tobytes()
        if self._asked != asked:
            self._evidence = self._evidence_of(rows)
            self._log_p = None
            self._asked = asked
        return self._evidence


class TextSystem(System):
    """A system whose rows are sentences: wherever others take X (n, d), it takes n strings."""

    @staticmethod
    def _rows(X: Any) -> np.ndarray:
        X = np.asarray(X)
        if X.ndim != 1 or X.dtype.kind not in "UT" and not all(isinstance(x, str) for x in X):
            raise InputError(
                f"rows must be sentences, (n,) strings; got {X.dtype} of shape {X.shape}"
            )
        empty = [place for place, x in enumerate(X) if not x.strip()]
        if empty:
            raise InputError(f"row {empty[0]} is an empty sentence")
        return X.astype(np.str_, copy=False)


def class_sums(X: np.ndarray, y: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums (n_classes, d) float64 of the rows X (n, d) of each class, and their numbers.

    ``y`` (n,) are class ids; the numbers are (n_classes,).
    """
    sums = np.zeros((n_classes, X.shape[1]))
    for label in np.unique(y):
        sums[label] = X[y == label].sum(axis=0, dtype=np.float64)
    return sums, np.bincount(y, minlength=n_classes)


def class_means(sums, counts, centre=0.0, prior_rows=0) -> np.ndarray:
    """Means (C, d) of classes from their sums and counts, zero where there is no row.

    With ``prior_rows``, each mean is held to a ``centre`` (d,) that is worth so many rows:
    (sum + prior_rows * centre) / (count + prior_rows).
    """
    return (sums + prior_rows * centre) / np.maximum(counts + prior_rows, 1)[..., None]


def softmax_seen(scores: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Softmax (m, C) of scores (m, C) over the classes ``seen`` (C,); zero for the others."""
    return softmax(np.where(seen, scores, -np.inf))


def best_seen(scores: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The class seen (C,) with the highest score (m, C) of each row; the lowest id of equal ones.

    Scores that differ by rounding are equal. Raises ``InputError`` if one of a class seen is NaN.
    """
    rounded = np.where(seen, np.rint(scores * 10.0**DECIMALS), -np.inf)
    best = rounded.argmax(axis=1)  # the first NaN, if there is one
    if np.isnan(rounded[np.arange(len(best)), best]).any():
        raise InputError("a score is NaN: the system's method must give numbers")
    return best
