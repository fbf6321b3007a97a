"""The contract of a system, and class scores: softmax and the best class among those seen."""

from dataclasses import dataclass

import numpy as np

from ocrrlib.files import InputError
from ocrrlib.metrics import DECIMALS, rivals

TEMPERATURE = 0.1  # of a softmax over cosines and scores of their size, as in ``knn_lm``


@dataclass(frozen=True)
class Storage:
    """Memory of a system: bytes in all, stored examples, learnt parameters."""

    bytes: int
    entries: int = 0
    parameters: int = 0


@dataclass(eq=False)
class System:
    """A classifier that is fitted once and then corrected, one example at a time.

    A method implements ``_fit``, ``_correct``, ``storage`` and ``_scores``: scores (m, C) of rows,
    from which the best class and probabilities follow. It may replace ``_answer`` and ``_probabilities``,
    which turn scores into these (into which it turns the rows themselves if it has no scores), and
    ``_follow``, which scores fixed queries. Its hyperparameters are fields of a dataclass.

    ``dim`` is the length of a row, ``n_classes`` the number of classes, those yet to come included,
    ``seen`` (C,) bool those of which a row was met, initially or in a correction: only these are
    answered.
    """

    seed: int = 0  #: of the method's random draws
    fitted, temperature = False, 1.0
    ahead = 8  # watched queries that are answered at once where one is asked about

    def fit(self, X, y, classes):
        """Set the initial state, from the known classes only; a second call starts afresh.

        ``X`` (n, d) float32 are embeddings, unit rows, ``y`` (n,) their class ids, ``classes``
        names of all classes, those yet to come included; a class id is a position in it. Raises
        ``InputError`` if there are no rows, one is not a finite unit vector, or a label is missing
        or not a class id.
        """
        X, y = self._rows(X), np.asarray(y)
        given = len(X) and y.shape == X.shape[:1] and y.dtype.kind in "iu"
        if not (given and 0 <= y.min() and y.max() < len(classes)):
            raise InputError(
                f"fit needs a class id from 0 to {len(classes) - 1} for each row; got {len(X)} rows"
            )
        self.fitted, self.dim, self.n_classes = (
            False,
            X.shape[-1],
            len(classes),
        )  # half fitted is not fitted
        self.corrections = 0
        self.seen = np.isin(np.arange(len(classes)), y)
        self._fit(X, y.astype(np.int64, copy=False))
        self.fitted = True
        return self

    def predict(self, X):
        """Class ids (m,) of the rows X (m, d); ``InputError`` if one is no finite unit vector of the right length."""
        return self._answer(self._scores(self._known_rows(X)))

    def correct(self, x, y):
        """Learn from one corrected example: x (d,), its class id y; one update step.

        Raises ``InputError`` if ``x`` is not a finite unit vector of the right length or ``y`` not
        a class id.
        """
        x = self._known_rows([x])[0]
        if not (isinstance(y, (int, np.integer)) and 0 <= y < self.n_classes):
            raise InputError(f"label {y} is not a class id from 0 to {self.n_classes - 1}")
        self.seen[y] = True
        self.corrections += 1
        self._correct(x, int(y))

    def predict_proba(self, X):
        """Class probabilities (m, C), float64, of rows as for ``predict``; zero for a class of which no row was met."""
        return self._probabilities(self._scores(self._known_rows(X)))

    def storage(self):
        """Memory in use, as ``Storage``."""
        raise NotImplementedError

    def watch(self, Q):
        """``Watched`` of fixed queries Q (q, d), which are answered repeatedly."""
        return Watched(self, Q)

    def _scores(self, X):
        return X

    def _follow(self, Q):
        return lambda rows: self._scores(Q[rows])

    def _answer(self, scores):
        return best_seen(scores, self.seen)

    def _probabilities(self, scores):
        return softmax_seen(scores / self.temperature, self.seen)

    def _rivals(self, scores, new):
        """As ``ocrrlib.metrics.rivals``."""
        if (
            type(self)._probabilities is System._probabilities
        ):  # scores are log-probabilities, but for the temperature
            return rivals(scores, new, self.seen)
        return rivals(self._probabilities(scores), new, log=True)

    def _known_rows(self, X):
        if not self.fitted:
            raise InputError("the system knows no classes yet: call fit first")
        X = self._rows(X)
        if X.ndim == 2 and X.shape[1] != self.dim:
            raise InputError(f"rows must be of length {self.dim}, as in fit; got shape {X.shape}")
        return X

    @staticmethod
    def _rows(X):
        X = np.asarray(X)
        if X.ndim != 2 or X.dtype.kind not in "fiu":
            raise InputError(
                f"rows must be embeddings, (n, d) numbers; got {X.dtype} of shape {X.shape}"
            )
        lengths = np.sqrt(np.einsum("nd,nd->n", X, X, dtype=np.float64))
        bad = np.flatnonzero(~(np.abs(lengths - 1) < 0.01))  # NaN too
        if len(bad):
            raise InputError(
                f"row {bad[0]} is not a unit vector (length {lengths[bad[0]]:.4g}): normalise embeddings"
            )
        return X.astype(np.float32, copy=False)


class Watched:
    """Fixed queries (q, d), answered again and again, by row numbers: at any time as the system does for these rows."""

    def __init__(self, system, Q):
        self.system, self._scores = system, system._follow(Q)
        self._answers, self._upto = np.empty(len(Q), np.int64), np.full(len(Q), -1)
        self._asked, self._rivals = None, None

    def answers(self, rows):
        """``predict``; answers change with corrections only, so queries after a single one are answered along."""
        system, kept, upto = self.system, self._answers, self._upto
        if (upto[rows] != system.corrections).any():
            asked = (
                np.arange(rows[0], min(rows[0] + system.ahead, len(kept)))
                if len(rows) == 1
                else rows
            )
            kept[asked], upto[asked] = system._answer(self._scores(asked)), system.corrections
        return kept[rows]

    def predict_proba(self, rows):
        """``predict_proba``."""
        return self.system._probabilities(self._scores(rows))

    def rivals(self, rows, new):
        """``predict``, and ``ocrrlib.metrics.rivals`` of ``predict_proba`` and the ``new`` classes (C,) bool."""
        if self._asked != (asked := (self.system.corrections, rows.tobytes(), new.tobytes())):
            scores = self._scores(rows)
            found = self.system._rivals(scores, new)  # first: an answer may use up the scores
            self._asked, self._rivals = asked, (self.system._answer(scores), found)
        return self._rivals


class TextSystem(System):
    """A system whose rows are sentences: wherever others take X (n, d), it takes n strings."""

    @staticmethod
    def _rows(X):
        X = np.asarray(X)
        if X.ndim != 1 or X.dtype.kind not in "UT" and not all(isinstance(x, str) for x in X):
            raise InputError(
                f"rows must be sentences, (n,) strings; got {X.dtype} of shape {X.shape}"
            )
        empty = [place for place, x in enumerate(X) if not x.strip()]
        if empty:
            raise InputError(f"row {empty[0]} is an empty sentence")
        return X.astype(np.str_, copy=False)


def class_sums(X, y, n_classes):
    """Rows (n, d) added up by their classes (n,), (n_classes, d) float64, and the number of each, (n_classes,)."""
    sums = np.zeros((n_classes, X.shape[1]))
    for label in np.unique(y):
        sums[label] = X[y == label].sum(axis=0, dtype=np.float64)
    return sums, np.bincount(y, minlength=n_classes)


def class_means(sums, counts, centre=0.0, prior_rows=0):
    """Means (C, d) of classes, zero where there is no row; or held to a ``centre`` (d,) worth ``prior_rows`` rows."""
    return (sums + prior_rows * centre) / np.maximum(counts + prior_rows, 1)[..., None]


def softmax(logits):
    """Probabilities along the last axis."""
    powers = logits - logits.max(axis=-1, keepdims=True)
    np.exp(powers, out=powers)
    powers /= powers.sum(axis=-1, keepdims=True)
    return powers


def softmax_seen(scores, seen):
    """Softmax of scores (m, C), used up, over the classes seen (C,) only; zero for the others."""
    scores[:, ~seen] = -np.inf
    return softmax(scores)


def best_seen(scores, seen):
    """The class seen (C,) with the highest score (m, C), used up, of each row; the lowest id of equal ones."""
    np.rint(np.multiply(scores, 10.0**DECIMALS, out=scores), out=scores)
    scores[:, ~seen] = -np.inf
    return scores.argmax(axis=1)
