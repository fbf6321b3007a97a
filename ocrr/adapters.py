"""Wrap objects of your own, of scikit-learn and of river as systems of the benchmark."""

import copy
import functools
import inspect
import operator
import random
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ocrrlib.files import InputError
from ocrrlib.systems import make
from ocrrlib.systems.base import Storage, System
from ocrrlib.voting import softmax

# Passes of scikit-learn classifiers with max_iter over the initial rows. The step size of
# SGDClassifier and its kin shrinks with every row: after more passes they hardly learn new classes.
PASSES = 30
LINEAR_PASSES = 5
SEED_PARAMETERS = ("seed", "random_state")  # parameters of models that get the seed
NEEDED = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)


def title_of(thing: Any) -> str:
    """A short name of a system: that of its class or function."""
    if isinstance(thing, str):
        name = thing
    else:
        name = getattr(thing, "__name__", type(thing).__name__)
    return name if name.isidentifier() else "own_system"


def settings_of(thing: Any) -> str:
    """Parameters or attributes of an object, or arguments of a partial one, as text.

    Addresses in memory, which differ from process to process, are left out.
    """
    settings: Any = ()
    if isinstance(thing, Refit):
        settings = (settings_of(thing.model), thing.every)
    elif isinstance(thing, functools.partial):
        settings = (thing.args, thing.keywords)
    elif not (inspect.isclass(thing) or inspect.isroutine(thing)):
        parameters = getattr(thing, "get_params", None) or getattr(thing, "_get_params", None)
        settings = parameters() if parameters else getattr(thing, "__dict__", {})
    return re.sub(r" at 0x[0-9a-f]+", "", repr(settings))


def as_system(thing: Any, seed: int = 0, encoder: str | None = None) -> "System | Own":
    """A fresh system from any argument that ``evaluate`` takes.

    ``encoder`` is for names in the registry whose systems read sentences. Raises ``InputError`` if
    ``thing`` cannot be used as a system.
    """
    if isinstance(thing, str):
        return make(thing, seed, encoder)
    maker = inspect.isclass(thing) or inspect.isroutine(thing)
    maker = maker or isinstance(thing, functools.partial)
    if maker:
        model = _call(thing, seed)
    else:
        model = _copied(copy.deepcopy, thing)
    if isinstance(model, System):
        model.seed = seed
        return model
    for adapter in (Own, River, Sklearn):
        if all(callable(getattr(model, method, None)) for method in adapter.methods):
            settings = adapter.settings
            if settings and not (maker or hasattr(model, settings)):
                raise InputError(
                    f"{title_of(model)} has no {settings} to copy it without what it learned: "
                    "give its class, or a function that makes it"
                )
            return adapter(model, seed)
    raise InputError(
        f"{title_of(model)} cannot be used as a system: give an object with fit(X, y, classes), "
        "predict(X) and correct(x, y), a scikit-learn classifier with partial_fit, ocrr.Refit of "
        "one without, a river classifier, or a class or a function of the seed that makes one"
    )


def prepared(thing: Any, seed: int, encoder: str | None = None) -> "System | Own":
    """``as_system`` for a run, once the global generators have its seed."""
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
    return as_system(thing, seed, encoder)


def whole_number(name: str, value: Any) -> int:
    """A whole number from 1 of any type; ``InputError`` for others, ``True`` among them."""
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} {value!r} cannot be used: give a whole number from 1")
    return number


def _call(maker, seed):
    """Make a model; ``seed`` goes to a parameter of that name, or to a function's first one."""
    try:
        signature = inspect.signature(maker)
    except ValueError:  # of some built-in types it is not known
        signature = inspect.Signature()
    parameters = signature.parameters.values()
    needed = [one for one in parameters if one.default is one.empty and one.kind in NEEDED]
    by_name = {one.name: seed for one in parameters if one.name in SEED_PARAMETERS}
    by_name = dict(list(by_name.items())[:1])
    first = [seed] if needed and not (by_name or inspect.isclass(maker)) else []
    try:
        signature.bind(*first, **by_name)
    except TypeError as error:
        raise InputError(
            f"{title_of(maker)} cannot be made with a seed alone ({error}): give an object, or a "
            "function of the seed that makes one"
        ) from error
    try:
        return maker(*first, **by_name)
    except (OSError, SystemExit) as error:  # else it would pass for one of the command line
        raise RuntimeError(f"{title_of(maker)} failed: {error!r}") from error


def _copied(copied: Callable, model: Any, *options: Any) -> Any:
    """``copied(model, *options)``, a copy; ``InputError`` if there cannot be one."""
    try:
        return copied(model, *options)
    except Exception as error:  # each kind of object has its own way to fail
        why = " ".join(str(error).split())
        raise InputError(
            f"{title_of(model)} cannot be copied ({why}): give a function that makes it, or an "
            "object with fit, predict and correct"
        ) from error


def _unfitted(part: Any, seed: int) -> Any:
    """A copy of a model of scikit-learn or river, or of a parameter of one, without any training.

    Its own parameters called as in ``SEED_PARAMETERS``, and those of all its parts, get the seed.
    """
    if type(part) in (list, tuple):
        return type(part)([_unfitted(one, seed) for one in part])
    if type(part) is dict:
        return {
            name: seed if name in SEED_PARAMETERS else _unfitted(one, seed)
            for name, one in part.items()
        }
    if inspect.isclass(part):
        return part
    if hasattr(part, "get_params"):
        return _unfitted_sklearn(part, seed)
    if hasattr(part, "_get_params"):
        return _unfitted_river(part, seed)
    return copy.deepcopy(part)


def _unfitted_sklearn(model, seed):
    from sklearn.base import clone  # slow to import, and there where a model is like those in it

    model = clone(model)
    for name, value in model.get_params().items():
        if name.split("__")[-1] in SEED_PARAMETERS:
            model.set_params(**{name: seed})
        elif hasattr(value, "_get_params") or type(value) in (list, tuple, dict):
            model.set_params(**{name: _unfitted(value, seed)})
    return model


def _unfitted_river(model, seed):
    params = {}
    for name, value in model._get_params().items():
        if name in SEED_PARAMETERS:
            params[name] = seed
        elif name == "_POSITIONAL_ARGS":
            params[name] = _unfitted(value, seed)
        elif hasattr(model, name):
            params[name] = _unfitted(getattr(model, name), seed)
        elif hasattr(model, "__getitem__"):  # the steps of a pipeline
            params[name] = _unfitted(model[name], seed)
    return model.clone(params)


class Own:
    """An object with ``fit``, ``predict`` and ``correct``; other adapters replace what differs.

    There is a method ``predict_proba`` if the object has one.
    """

    methods: tuple[str, ...] = ("fit", "predict", "correct")
    settings = ""  # the method that gives what an unfitted copy is made of

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
        return _class_ids(self.model, self._answers(X), len(X), self.n_classes)

    def _answers(self, X):
        return self.model.predict(X)

    def _proba(self, X):
        return self.model.predict_proba(X)

    def _checked_proba(self, X: np.ndarray) -> np.ndarray:
        """Class probabilities (m, C); ``InputError`` if the object gives anything else."""
        p = np.array(self._proba(X), np.float64)
        _refuse_nan(self.model, "predict_proba", p, self.n_classes)
        if p.shape != (len(X), self.n_classes) or not ((p >= 0) & np.isfinite(p)).all():
            raise InputError(
                f"{title_of(self.model)}.predict_proba must give numbers "
                f"({len(X)}, {self.n_classes}), finite and none negative; it gave {p.shape}"
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
    settings = "_get_params"

    def __init__(self, model: Any, seed: int):
        last = model
        while hasattr(last, "_last_step"):  # of a pipeline
            last = last._last_step
        if hasattr(model, "_get_params"):
            from river.base import Classifier  # slow to import, and there where a model is of it

            _refuse_others(model, isinstance(last, Classifier))
        if not getattr(last, "_multiclass", True):
            raise InputError(
                f"{title_of(last)} is for two classes: "
                "give river.multiclass.OneVsRestClassifier of it"
            )
        super().__init__(_copied(_unfitted, model, seed), seed)

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
        except (NotImplementedError, AttributeError):  # of river, of scikit-learn inside river
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
    settings = "get_params"

    def __init__(self, model: Any, seed: int):
        _refuse_regressors(model)
        if not hasattr(model, "get_params") and _trained(model):
            raise InputError(
                f"{title_of(model)} is fitted already, and has no get_params to copy it without: "
                "give one that is not, or a function that makes it"
            )
        model = _copied(_unfitted, model, seed)
        super().__init__(model, seed)
        params = model.get_params() if hasattr(model, "get_params") else {}
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
        names = [name for name in names if hasattr(self.model, name)]
        if not names:
            return self.model.predict(X)
        scores = self._scores(names[0], X)
        among_met = self.met[scores[:, self.met].argmax(axis=1)]
        # A predict that does not follow the scores is the model's own, and counts.
        answers = np.asarray(self.model.predict(X))
        return np.where(answers == scores.argmax(axis=1), among_met, answers)

    def _scores(self, method, X):
        scores = _scores_by_class(self.model, method, X, self.n_classes, np.arange(self.n_classes))
        _refuse_nan(self.model, method, scores[:, self.met], self.n_classes)
        return scores

    @np.errstate(all="ignore")
    def _proba(self, X):
        p = np.zeros((len(X), self.n_classes))
        if hasattr(self.model, "predict_joint_log_proba"):
            # Naive Bayes normalises over all classes: NaN for one class is NaN for all of them.
            scores = self._scores("predict_joint_log_proba", X)[:, self.met]
            best = scores.max(axis=1, keepdims=True)
            p[:, self.met] = np.exp(scores - np.where(best > -np.inf, best, 0.0))
        else:
            p[:, self.met] = self._scores("predict_proba", X)[:, self.met]
            p[p == -np.inf] = 0
        return _normalised(p)

    def correct(self, x: np.ndarray, y: int) -> None:
        self.met = np.union1d(self.met, y)
        self._learn(x[None], np.array([y]))


class Refit(System):
    """A classifier without ``partial_fit``, fitted anew on all rows after so many corrections.

    ``model`` has ``fit(X, y)`` and ``predict(X)``, as those of scikit-learn. Rows are kept, initial
    and corrected ones; after ``every`` corrections an unfitted copy of ``model`` is fitted on all
    of them, and its answers stay until the next one is. ``refits`` counts these. Probabilities, and
    with them curves, follow from ``predict_proba`` or else ``decision_function``, if there is one.
    The memory in use is that of the rows; the model's is not known.

    Raises ``InputError`` if ``model`` is no such classifier or ``every`` no whole number from 1.
    """

    refits = 0

    def __init__(self, model: Any, every: int = 50):
        name = title_of(model)
        if inspect.isclass(model):
            raise InputError(f"Refit cannot use the class {name}: give an object, as {name}()")
        methods = (getattr(model, method, None) for method in ("fit", "predict"))
        if isinstance(model, System) or not all(map(callable, methods)):
            raise InputError(f"Refit needs a classifier with fit and predict, and {name} is none")
        _refuse_regressors(model)
        self.model = model
        self.every = whole_number("every", every)
        self.__name__ = f"Refit_{name}"

    def _fit(self, X, y):
        self.rows = [X]
        self.labels = [y]
        self._fit_anew()
        self.refits = 0

    def _fit_anew(self):
        y = np.concatenate(self.labels)
        self.known = np.unique(y)
        self.fitted_model = _copied(_unfitted, self.model, self.seed)
        self.fitted_model.fit(np.concatenate(self.rows), y)

    def _correct(self, x, y):
        self.rows.append(x[None])
        self.labels.append(np.array([y]))
        if (len(self.rows) - 1) % self.every == 0:
            self._fit_anew()
            self.refits += 1
        # Only what was learnt counts: until it changes, answers to watched queries are kept.
        self.corrections = self.refits * self.every

    def _evidence(self, X):
        return X

    def _answer(self, X):
        return _class_ids(self.model, self.fitted_model.predict(X), len(X), self.n_classes)

    def _log_probabilities(self, X):
        for method in ("predict_proba", "decision_function"):
            if hasattr(self.fitted_model, method):
                scores = _scores_by_class(self.fitted_model, method, X, self.n_classes, self.known)
                _refuse_nan(self.model, method, scores, self.n_classes)
                if method == "decision_function":
                    return scores
                with np.errstate(divide="ignore"):
                    return np.log(np.maximum(scores, 0))
        return None

    def _probabilities(self, X):
        log_p = self._log_probabilities(X)
        if log_p is None:
            raise InputError(f"{title_of(self.model)} has neither probabilities nor scores")
        return softmax(log_p)

    def storage(self) -> Storage:
        """Bytes of the rows and their labels, and how many there are."""
        arrays = [*self.rows, *self.labels]
        return Storage(sum(array.nbytes for array in arrays), sum(map(len, self.labels)))


def _class_ids(model, answers, n, n_classes):
    """The answers (n,) of a model as int64; ``InputError`` if they are no class ids or -1."""
    given = np.asarray(answers)
    last = n_classes - 1
    right_form = given.shape == (n,) and given.dtype.kind in "iu"
    if not right_form or not ((given >= -1) & (given <= last)).all():
        raise InputError(
            f"{title_of(model)}.predict must give class ids ({n},), integers from 0 "
            f"to {last} or -1; it gave {given.dtype} of shape {given.shape}, "
            f"as {given.ravel()[:3]}"
        )
    return given.astype(np.int64)


def _scores_by_class(model, method, X, n_classes, known):
    """Numbers (m, C) that a method gives, at the ids of ``classes_``; others are -inf.

    Columns of a model without ``classes_`` are those of the ids ``known``.
    """
    given = np.asarray(getattr(model, method)(X))
    ids = np.asarray(getattr(model, "classes_", known))
    if given.ndim == 1 and len(ids) == 2:  # one score, for the second class
        given = np.stack([np.zeros(len(X)), given], axis=1)
    if given.shape != (len(X), len(ids)) or not np.isin(ids, np.arange(n_classes)).all():
        raise InputError(
            f"{title_of(model)}.{method} must give one column for each of its classes_, "
            f"which are class ids; it gave {given.shape} for {len(ids)}"
        )
    scores = np.full((len(X), n_classes), -np.inf)
    scores[:, ids] = given
    return scores


def _refuse_nan(model, method, numbers, n_classes):
    if np.isnan(numbers).any():
        raise InputError(
            f"{title_of(model)}.{method} must give numbers ({len(numbers)}, {n_classes}), but it "
            "gave NaN: choose a method, or settings, that can learn from a single row"
        )


def _features(x):
    """A row (d,) as river takes it: values by number."""
    return dict(enumerate(x.tolist()))


def _normalised(p):
    """Rows (m, C) that sum to 1; one without any probability stays as it is, all zeros."""
    total = p.sum(axis=1, keepdims=True)
    return p / np.where(total == 0, 1.0, total)


def _trained(model):
    """Whether a model has attributes that, by scikit-learn's convention, come from training."""
    attributes = getattr(model, "__dict__", {})
    return any(name.endswith("_") and not name.startswith("_") for name in attributes)


def _refuse_regressors(model):
    """Refuse what scikit-learn knows as another kind of model."""
    if hasattr(model, "__sklearn_tags__"):
        from sklearn.base import is_classifier  # slow to import, and there where a model is

        _refuse_others(model, is_classifier(model))


def _refuse_others(model, classifies):
    if not classifies:
        raise InputError(
            f"{title_of(model)} is no classifier, which alone can learn classes: give one"
        )
