"""Objects of your own, of scikit-learn and of river as systems of the benchmark."""

import copy
import functools
import inspect
from typing import Any

import numpy as np

from ocrrlib.files import InputError
from ocrrlib.systems import make
from ocrrlib.systems.base import Storage, System

# Passes of scikit-learn classifiers with max_iter over the initial rows. The step size of
# SGDClassifier and its kin shrinks with every row: after more passes they hardly learn new classes.
PASSES = 30
LINEAR_PASSES = 5


def title_of(thing: Any) -> str:
    """A short name of a system: that of its class or function."""
    if isinstance(thing, str):
        name = thing
    else:
        name = getattr(thing, "__name__", type(thing).__name__)
    return name if name.isidentifier() else "own_system"


def as_system(thing: Any, seed: int = 0, encoder: str | None = None) -> "System | Own":
    """A fresh system from any argument that ``evaluate`` takes.

    ``encoder`` is for names in the registry whose systems read sentences. Raises ``InputError`` if
    ``thing`` cannot be used as a system.
    """
    if isinstance(thing, str):
        return make(thing, seed, encoder)
    if inspect.isclass(thing) or inspect.isroutine(thing) or isinstance(thing, functools.partial):
        model = _call(thing, seed)
    else:
        model = _deep_copy(thing)
    if isinstance(model, System):
        model.seed = seed
        return model
    for adapter in (Own, River, Sklearn):
        if all(callable(getattr(model, method, None)) for method in adapter.methods):
            return adapter(model, seed)
    raise InputError(
        f"{title_of(model)} cannot be used as a system: give an object with fit(X, y, classes), "
        "predict(X) and correct(x, y), a scikit-learn classifier with partial_fit, a river "
        "classifier, or a class or a function of the seed that makes one"
    )


def _call(maker, seed):
    """Make a model; ``seed`` goes to a parameter of that name, or to a function's first one."""
    parameters = inspect.signature(maker).parameters.values()
    for parameter in parameters:
        if parameter.name in ("seed", "random_state"):
            return maker(**{parameter.name: seed})
    needed = [
        one for one in parameters if one.default is one.empty and one.kind < one.VAR_POSITIONAL
    ]
    if needed and not inspect.isclass(maker):
        return maker(seed)
    return maker()


def _deep_copy(model):
    try:
        return copy.deepcopy(model)
    except Exception as error:  # each kind of object has its own way to fail
        raise InputError(
            f"{title_of(model)} cannot be copied ({error}): give a function that makes it"
        ) from error


class Own:
    """An object with ``fit``, ``predict`` and ``correct``; other adapters replace what differs.

    There is a method ``predict_proba`` if the object has one.
    """

    methods: tuple[str, ...] = ("fit", "predict", "correct")

    def __init__(self, model: Any, seed: int):
        self.model = model
        self.seed = seed
        if hasattr(model, "predict_proba"):
            self.predict_proba = self._checked_proba

    def fit(self, X: np.ndarray, y: np.ndarray, classes: tuple[str, ...]) -> "Own":
        """Fit the object on rows (n, d) with class ids (n,), positions in ``classes``."""
        self.n_classes = len(classes)
        self.model.fit(X, y, classes)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Class ids (m,) int64 of rows (m, d), -1 for no answer.

        Raises ``InputError`` if the object gives anything else.
        """
        given = np.asarray(self._answers(X))
        last = self.n_classes - 1
        right_form = given.shape == (len(X),) and given.dtype.kind in "iu"
        if not right_form or not ((given >= -1) & (given <= last)).all():
            raise InputError(
                f"{title_of(self.model)}.predict must give class ids ({len(X)},), integers from 0 "
                f"to {last} or -1; it gave {given.dtype} of shape {given.shape}, "
                f"as {given.ravel()[:3]}"
            )
        return given.astype(np.int64)

    def _answers(self, X):
        return self.model.predict(X)

    def _proba(self, X):
        return self.model.predict_proba(X)

    def _checked_proba(self, X: np.ndarray) -> np.ndarray:
        """Class probabilities (m, C); ``InputError`` if the object gives anything else."""
        p = np.array(self._proba(X), np.float64)
        if p.shape != (len(X), self.n_classes) or not (p >= 0).all():
            raise InputError(
                f"{title_of(self.model)}.predict_proba must give numbers "
                f"({len(X)}, {self.n_classes}), none negative; it gave {p.shape}"
            )
        return p

    def correct(self, x: np.ndarray, y: int) -> None:
        """Make one update with a row (d,) and its class id."""
        self.model.correct(x, y)

    def storage(self) -> Storage:
        """The result of the object's own ``storage``; 0 bytes without one."""
        return self.model.storage() if hasattr(self.model, "storage") else Storage(bytes=0)


class River(Own):
    """A river classifier; it learns the initial rows one by one, in random order."""

    methods = ("learn_one", "predict_one")

    def __init__(self, model: Any, seed: int):
        if not getattr(model, "_multiclass", True):
            raise InputError(
                f"{title_of(model)} is for two classes: "
                "give river.multiclass.OneVsRestClassifier of it"
            )
        if hasattr(model, "_get_params") and "seed" in model._get_params():
            model = model.clone({"seed": seed})
        super().__init__(model, seed)

    def fit(self, X: np.ndarray, y: np.ndarray, classes: tuple[str, ...]) -> "River":
        self.n_classes = len(classes)
        for row in np.random.default_rng(self.seed).permutation(len(y)):
            self.correct(X[row], int(y[row]))
        if self._knows_proba(X[0]):
            self.predict_proba = self._checked_proba
        return self

    def _knows_proba(self, x):
        """Whether the model has probabilities; only a call tells, as river's base class raises."""
        if not hasattr(self.model, "predict_proba_one"):
            return False
        try:
            self.model.predict_proba_one(_features(x))
        except NotImplementedError:
            return False
        return True

    def _answers(self, X):
        answers = [self.model.predict_one(_features(x)) for x in X]
        return np.array([-1 if answer is None else answer for answer in answers], int)

    def _proba(self, X):
        p = np.zeros((len(X), self.n_classes))
        for row, x in zip(p, X):
            for label, probability in self.model.predict_proba_one(_features(x)).items():
                row[label] = probability
        return _normalised(p)

    def correct(self, x: np.ndarray, y: int) -> None:
        self.model.learn_one(_features(x), y)


class Sklearn(Own):
    """A scikit-learn classifier with ``partial_fit``, which never names a class without a row."""

    methods = ("partial_fit", "predict")

    def __init__(self, model: Any, seed: int):
        super().__init__(model, seed)
        params = model.get_params() if hasattr(model, "get_params") else {}
        seeded = [name for name in params if name.split("__")[-1] == "random_state"]
        if seeded:
            model.set_params(**dict.fromkeys(seeded, seed))
        linear = any(cls.__name__ == "BaseSGDClassifier" for cls in type(model).__mro__)
        self.passes = min(params.get("max_iter") or 1, LINEAR_PASSES if linear else PASSES)

    def fit(self, X: np.ndarray, y: np.ndarray, classes: tuple[str, ...]) -> "Sklearn":
        self.n_classes = len(classes)
        self.met = np.unique(y)
        rng = np.random.default_rng(self.seed)
        for _ in range(self.passes):
            order = rng.permutation(len(y))
            self._learn(X[order], y[order])
        return self

    @np.errstate(all="ignore")  # variance and prior of classes without a row are zero
    def _learn(self, X, y):
        self.model.partial_fit(X, y, classes=np.arange(self.n_classes))

    @np.errstate(all="ignore")
    def _answers(self, X):
        names = ("predict_joint_log_proba", "decision_function", "predict_proba")
        methods = [getattr(self.model, name) for name in names if hasattr(self.model, name)]
        if not methods or self.n_classes < 3:  # of two classes there may be one score
            return self.model.predict(X)
        scores = np.asarray(methods[0](X))[:, self.met]
        return self.met[np.where(np.isnan(scores), -np.inf, scores).argmax(axis=1)]

    @np.errstate(all="ignore")
    def _proba(self, X):
        p = np.zeros((len(X), self.n_classes))
        if hasattr(self.model, "predict_joint_log_proba"):
            # Naive Bayes normalises over all classes: NaN for one class is NaN for all of them.
            scores = np.asarray(self.model.predict_joint_log_proba(X))[:, self.met]
            p[:, self.met] = np.exp(scores - np.fmax.reduce(scores, axis=1)[:, None])
        else:
            p[:, self.met] = np.asarray(self.model.predict_proba(X))[:, self.met]
        return _normalised(p)

    def correct(self, x: np.ndarray, y: int) -> None:
        self.met = np.union1d(self.met, y)
        self._learn(x[None], np.array([y]))


def _features(x):
    """A row (d,) as river takes it: values by number."""
    return dict(enumerate(x.tolist()))


def _normalised(p):
    """Rows (m, C) that sum to 1, NaN taken as 0; a row without any probability is all zeros."""
    p = np.where(np.isnan(p), 0.0, p)
    total = p.sum(axis=1, keepdims=True)
    return p / np.where(total > 0, total, 1.0)
