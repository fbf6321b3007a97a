"""Classifiers of scikit-learn that learn by ``partial_fit``."""

import inspect

import numpy as np

from ocrrlib.adapters.base import WAYS, Adapter, is_from
from ocrrlib.errors import InputError
from ocrrlib.systems.base import Storage

PASSES = 30  # over the initial rows at most, by what learns in passes; our own heads make as many
# The same of SGDClassifier and its kin, which fit one problem per class: a pass takes long, and their steps shrink with
# every row. After 30 passes SGDClassifier(loss="log_loss") hardly learns new classes, after one it forgets old ones.
LINEAR_PASSES = 5


def _takes_classes(method):
    """Whether a method has a parameter ``classes``."""
    try:
        found = inspect.signature(method).parameters.values()
    except ValueError:  # compiled code may not say what it takes
        return True
    return any(one.name == "classes" or one.kind is one.VAR_KEYWORD for one in found)


class SklearnSystem(Adapter):
    """A scikit-learn classifier that learns by ``partial_fit``.

    It passes over the initial rows in random order, one ``partial_fit`` a pass; a correction is one of one row.
    ``random_state`` becomes the seed. Where it has scores for all classes, a class of which no row was met is never
    the answer.

    Parameters
    ----------
    given : object
        The classifier.
    seed : int
        Also that of the order of rows.
    passes : int, optional
        Over the initial rows, if it has the parameter ``max_iter``, and ``max_iter`` where that is fewer; others
        pass once. By default ``LINEAR_PASSES`` of ``SGDClassifier``, ``Perceptron`` and their kin, and ``PASSES`` of
        others. Where steps shrink with every row, more passes keep the original classes better, and new ones are
        learnt more slowly.

    Raises
    ------
    InputError
        If it is not a classifier, refuses negative numbers, its ``partial_fit`` does not take ``classes``, or
        ``passes`` is no number from 1 up.
    """

    def __init__(self, given, seed=0, passes=None):
        super().__init__(given, seed)
        if passes is None:
            linear = any(cls.__name__ == "BaseSGDClassifier" for cls in type(given).__mro__)
            passes = LINEAR_PASSES if linear else PASSES
        if not (isinstance(passes, (int, np.integer)) and passes >= 1):
            raise InputError(f"{passes!r} passes are out of range: give a number from 1 up")
        self.passes = passes
        if is_from("sklearn", given):
            from sklearn.base import is_classifier
            from sklearn.utils import get_tags

            if not is_classifier(given):
                raise InputError(f"{self.title} is not a classifier: give {WAYS}")
            if get_tags(given).input_tags.positive_only:
                raise InputError(
                    f"{self.title} refuses negative numbers, and embeddings have some: give GaussianNB or BernoulliNB"
                )
        if not _takes_classes(given.partial_fit):
            raise InputError(f"{self.title}.partial_fit must take (X, y, classes), as scikit-learn's: give it the last")

    def _fit(self, X, y):
        self.model, params = self._fresh()
        rng = np.random.default_rng(self.seed)
        for _ in range(min(params.get("max_iter") or 1, self.passes) if len(y) else 0):
            order = rng.permutation(len(y))
            self._learn(X[order], y[order])

    def _fresh(self):
        if not hasattr(self.given, "get_params"):
            return self._copied(), {}
        from sklearn.base import clone

        model = clone(self.given)
        params = model.get_params()
        model.set_params(**{name: self.seed for name in params if name.split("__")[-1] == "random_state"})
        return model, params

    def _learn(self, X, y):
        with np.errstate(all="ignore"):  # of classes without a row, variance and prior are zero
            self.model.partial_fit(X, y, classes=np.arange(self.n_classes))

    def _predict(self, X):
        if not (self.met and len(X)):
            return np.full(len(X), -1)
        with np.errstate(all="ignore"):
            scores = self._scores(X)
            if scores is None:
                return self._ids(self.model.predict(X), len(X))
        met = np.sort(np.fromiter(self.met, np.int64))
        return met[np.where(np.isnan(scores[:, met]), -np.inf, scores[:, met]).argmax(axis=1)]

    def _scores(self, X):
        """One number for each row and class, the highest for the answer; None where the model has none."""
        for method in ("predict_joint_log_proba", "decision_function", "predict_proba"):
            if hasattr(self.model, method):  # some have it for some of their settings only
                scores = np.asarray(getattr(self.model, method)(X), np.float64)
                if scores.ndim == 1:  # of two classes, that of the second alone
                    scores = np.column_stack([-scores, scores])
                if scores.shape == (len(X), self.n_classes):
                    return scores
        return None

    def _given_probabilities(self, X):
        with np.errstate(all="ignore"):
            return super()._given_probabilities(X)

    def _correct(self, x, y):
        self._learn(x[None], np.array([y]))

    def storage(self):
        """Bytes of all arrays in the model; a pickle's size would not be the same in every process."""
        return Storage(bytes=_arrays(self.model, {}))


def _arrays(part, seen):
    """Bytes of the arrays in an object and in what it is made of, each counted once; ``seen`` is filled."""
    if id(part) in seen:
        return 0
    seen[id(part)] = part  # kept, so that no other object gets its number
    if isinstance(part, np.ndarray):
        return part.nbytes
    if isinstance(part, (list, tuple, set)):
        return sum(_arrays(inner, seen) for inner in part)
    inside = part if isinstance(part, dict) else getattr(part, "__dict__", {})
    return sum(_arrays(inner, seen) for inner in inside.values()) if not inspect.isclass(part) else 0
