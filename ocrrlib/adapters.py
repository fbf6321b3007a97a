"""Classifiers of others as systems: your own object, scikit-learn's with ``partial_fit``, river's."""

import copy
import inspect

import numpy as np

from ocrrlib.errors import InputError
from ocrrlib.systems.base import Storage, System

PASSES = 30  # over the initial rows at most, by what learns in passes; our own heads make as many
WAYS = (
    "an object with fit(X, y, classes), predict(X) and correct(x, y), a scikit-learn classifier with partial_fit, "
    "or a river classifier"
)
CONTRACT = {"fit": ("X", "y", "classes"), "predict": ("X",), "correct": ("x", "y")}


def as_system(thing, seed=0):
    """A fresh system made of a classifier; what is given stays as it is.

    Parameters
    ----------
    thing : object
        One of

        - a ``System``, which is copied and gets the seed;
        - an object with ``fit(X, y, classes)``, ``predict(X)`` and ``correct(x, y)``, as ``System`` has them,
          which is copied. ``storage()``, a ``Storage``, may be left out: then 0 bytes are reported;
        - a scikit-learn classifier with ``partial_fit``, which is cloned (see ``SklearnSystem``);
        - a river classifier, which is cloned (see ``RiverSystem``).
    seed : int
        Seed of whatever the method draws at random, where it can be set.

    Returns
    -------
    System
        Not fitted yet.

    Raises
    ------
    InputError
        If it is none of these, or one that cannot learn from one row of an embedding.
    """
    if isinstance(thing, System):
        own = copy.deepcopy(thing)
        own.seed = seed
        return own
    if inspect.isclass(thing):
        raise InputError(f"{thing.__name__} is a class: give an object, {thing.__name__}()")
    for adapter, methods in ADAPTERS.items():
        if all(callable(getattr(thing, method, None)) for method in methods):
            return adapter(thing, seed)
    why = (
        "has no partial_fit, so it cannot learn from one row"
        if _is_from("sklearn", thing)
        else "cannot be used as a system"
    )
    raise InputError(f"{_name(thing)} {why}: give {WAYS}")


def _name(thing):
    return type(thing).__name__


def _is_from(library, thing):
    return any(cls.__module__.split(".")[0] == library for cls in type(thing).__mro__)


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


class Adapter(System):
    """What all adapters share: the given object is kept aside, and ``fit`` starts from a copy of it."""

    def __init__(self, given, seed=0):
        super().__init__(seed)
        self.given, self.model = given, None

    @property
    def title(self):
        """The name of the classifier."""
        return _name(self.given)

    def fit(self, X, y, classes):
        self.classes = tuple(classes)
        return super().fit(X, y, classes)

    def storage(self):
        """0 bytes: what the model holds is not known."""
        return Storage(bytes=0)

    def _ids(self, answers, m):
        """Answers as class ids (m,), checked."""
        ids = np.asarray(answers)
        if ids.shape != (m,) or ids.dtype.kind not in "iu":
            what = f"{ids.dtype} of shape {ids.shape}"
            raise InputError(f"{self.title}.predict must give one class id for each of {m} rows; it gave {what}")
        if m and not -1 <= ids.min() <= ids.max() < self.n_classes:
            raise InputError(
                f"{self.title}.predict gave {ids.min()} to {ids.max()}: class ids are 0 to {self.n_classes - 1}, "
                "or -1 for no answer"
            )
        return ids.astype(np.int64)


class OwnSystem(Adapter):
    """An object that has the three methods of a system, and perhaps ``storage``."""

    def __init__(self, given, seed=0):
        super().__init__(given, seed)
        for method, names in CONTRACT.items():
            try:
                inspect.signature(getattr(given, method)).bind(*names)
            except TypeError:
                raise InputError(f"{self.title}.{method} must take ({', '.join(names)})") from None
            except ValueError:  # compiled code may not say what it takes
                pass

    def _fit(self, X, y):
        self.model = copy.deepcopy(self.given)
        self.model.fit(X, y, self.classes)

    def _predict(self, X):
        return self._ids(self.model.predict(X), len(X))

    def _correct(self, x, y):
        self.model.correct(x, y)

    def storage(self):
        """What the object's own ``storage`` says; 0 bytes where it has none."""
        if not hasattr(self.model, "storage"):
            return super().storage()
        held = self.model.storage()
        if not all(isinstance(getattr(held, name, None), (int, np.integer)) for name in ("bytes", "entries")):
            raise InputError(f"{self.title}.storage must give ocrrlib.systems.base.Storage; it gave {held!r}")
        return held


class SklearnSystem(Adapter):
    """A scikit-learn classifier that learns by ``partial_fit``.

    It passes over the initial rows in random order: once, or ``max_iter`` times and at most ``PASSES`` if it
    has this parameter; a correction is one ``partial_fit`` of one row. ``random_state`` becomes the seed.
    Where it has scores for all classes, a class of which no row was met is never the answer.
    """

    def __init__(self, given, seed=0):
        super().__init__(given, seed)
        if _is_from("sklearn", given):
            from sklearn.base import is_classifier
            from sklearn.utils import get_tags

            if not is_classifier(given):
                raise InputError(f"{self.title} is not a classifier: give {WAYS}")
            if get_tags(given).input_tags.positive_only:
                raise InputError(
                    f"{self.title} refuses negative numbers, and embeddings have some: give GaussianNB or BernoulliNB"
                )

    def _fit(self, X, y):
        self.model, params = self._fresh()
        rng = np.random.default_rng(self.seed)
        for _ in range(min(params.get("max_iter") or 1, PASSES) if len(y) else 0):
            order = rng.permutation(len(y))
            self._learn(X[order], y[order])

    def _fresh(self):
        if not hasattr(self.given, "get_params"):
            return copy.deepcopy(self.given), {}
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

    def _correct(self, x, y):
        self._learn(x[None], np.array([y]))

    def storage(self):
        """Bytes of all arrays in the model; a pickle's size would not be the same in every process."""
        return Storage(bytes=_arrays(self.model, {}))


class RiverSystem(Adapter):
    """A river classifier; rows become dicts, and it predicts and learns one after the other.

    It passes over the initial rows once, in random order. ``seed`` becomes the seed, also of what it is made
    of. It has no answer before it has learnt something. 0 bytes are reported: what river holds has random
    generators in it that no seed reaches, so that its size is not the same twice.
    """

    def __init__(self, given, seed=0):
        super().__init__(given, seed)
        if _is_from("river", given) and not hasattr(given, "_multiclass"):
            raise InputError(f"{self.title} is not a classifier: give {WAYS}")
        if not getattr(given, "_multiclass", True):
            raise InputError(
                f"{self.title} is for two classes: give river.multiclass.OneVsRestClassifier({self.title}())"
            )

    def _fit(self, X, y):
        if hasattr(self.given, "_get_params"):
            self.model = self.given.clone(_seeded(self.given._get_params(), self.seed))
        else:  # written elsewhere, with river's methods
            self.model = copy.deepcopy(self.given)
        for row in np.random.default_rng(self.seed).permutation(len(y)):
            self._correct(X[row], y[row])

    def _predict(self, X):
        if not self.met:
            return np.full(len(X), -1)
        answers = [self.model.predict_one(_features(x)) for x in X]
        return self._ids(np.array([-1 if answer is None else answer for answer in answers], np.int64), len(X))

    def _correct(self, x, y):
        self.model.learn_one(_features(x), int(y))


def _features(x):
    return dict(enumerate(x.tolist()))


def _seeded(params, seed):
    """A river model's parameters with the seed in every place for one; parts are (class, parameters) or steps."""
    found = {}
    for name, value in params.items():
        if isinstance(value, tuple) and len(value) == 2 and inspect.isclass(value[0]) and isinstance(value[1], dict):
            value = value[0], _seeded(value[1], seed)
        elif isinstance(value, dict):
            value = _seeded(value, seed)
        found[name] = seed if name == "seed" else value
    return found


ADAPTERS = {
    OwnSystem: tuple(CONTRACT),
    RiverSystem: ("learn_one", "predict_one"),
    SklearnSystem: ("partial_fit", "predict"),
}
