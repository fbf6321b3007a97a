"""Your classifier as a system: an object with fit, predict and correct, of scikit-learn, or of river."""

import copy
import functools
import inspect

import numpy as np

from ocrrlib.files import InputError
from ocrrlib.systems import make
from ocrrlib.systems.base import Storage, System

WAYS = "give an object with fit(X, y, classes), predict(X) and correct(x, y), a scikit-learn classifier with "
WAYS += "partial_fit, a river classifier, or a class or a function of the seed that makes one"
# Passes of scikit-learn classifiers with max_iter over the initial rows. The step size of SGDClassifier and its kin
# shrinks with every row: after more passes they hardly learn new classes.
PASSES, LINEAR_PASSES = 30, 5


def title_of(thing):
    """A short name of a system: that of its class or function."""
    name = thing if isinstance(thing, str) else getattr(thing, "__name__", type(thing).__name__)
    return name if name.isidentifier() else "own_system"


def as_system(thing, seed=0, encoder=None):
    """A fresh system from a registry name, an object (which is copied), or a class or function that makes one.

    Parameters
    ----------
    thing : str, callable or object
        See ``ocrrlib.evaluate``.
    seed : int
        Passed on as ``seed`` or ``random_state`` where there is such a parameter.
    encoder : str, optional
        For systems of the registry that read sentences.

    Raises
    ------
    InputError
        If it cannot be used as a system or copied.
    """
    if isinstance(thing, str):
        return make(thing, seed, encoder)
    if inspect.isclass(thing) or inspect.isroutine(thing) or isinstance(thing, functools.partial):
        thing = _made(thing, seed)
    else:
        try:
            thing = copy.deepcopy(thing)
        except Exception as error:  # each kind of object has its own way to fail
            raise InputError(f"{title_of(thing)} cannot be copied ({error}): give a function that makes it") from error
    if isinstance(thing, System):
        thing.seed = seed
        return thing
    for adapter in (Own, River, Sklearn):
        if all(callable(getattr(thing, method, None)) for method in adapter.methods):
            return adapter(thing, seed)
    raise InputError(f"{title_of(thing)} cannot be used as a system: {WAYS}")


def _made(factory, seed):
    """What a class or function makes, with the seed where it takes one."""
    try:
        parameters = inspect.signature(factory).parameters
    except ValueError:  # compiled code may not tell
        parameters = {}
    named = [name for name in ("seed", "random_state") if name in parameters]
    needed = [one.name for one in parameters.values() if one.default is one.empty and one.kind < one.VAR_POSITIONAL]
    if named and needed in ([], named[:1]):
        return factory(**{named[0]: seed})
    if not needed:
        return factory()
    if len(needed) > 1 or inspect.isclass(factory):
        raise InputError(f"{title_of(factory)} needs {', '.join(needed)}: give a function of the seed that makes it")
    return factory(seed)


class Own:
    """An object with the three methods; the other adapters replace what differs."""

    methods = ("fit", "predict", "correct")

    def __init__(self, model, seed):
        self.model, self.seed = model, seed
        try:
            inspect.signature(model.fit).bind("X", "y", "classes")
        except TypeError:
            raise InputError(f"{title_of(model)}.fit must take (X, y, classes)") from None

    def fit(self, X, y, classes):
        self.n_classes = len(classes)
        self.model.fit(X, y, classes)
        return self

    def predict(self, X):
        given = np.asarray(self._answers(X))
        wanted = f"{title_of(self.model)}.predict must give class ids ({len(X)},), from 0 to {self.n_classes - 1} or -1"
        if given.shape != (len(X),) or given.dtype.kind not in "iu":
            nan = " with NaN" if given.dtype.kind == "f" and np.isnan(given).any() else ""
            raise InputError(f"{wanted}; it gave {given.dtype} of shape {given.shape}{nan}")
        if given.size and not -1 <= given.min() <= given.max() < self.n_classes:
            raise InputError(f"{wanted}; it gave {given.min()} to {given.max()}")
        return given.astype(np.int64)

    def _answers(self, X):
        return self.model.predict(X)

    def correct(self, x, y):
        self.model.correct(x, y)

    def storage(self):
        """What the object's own ``storage`` reports; 0 bytes without one."""
        return self.model.storage() if callable(getattr(self.model, "storage", None)) else Storage(bytes=0)


class River(Own):
    """A river classifier; it learns the initial rows one by one, in random order."""

    methods = ("learn_one", "predict_one")

    def __init__(self, model, seed):
        if not getattr(model, "_multiclass", True):
            raise InputError(f"{title_of(model)} is for two classes: give river.multiclass.OneVsRestClassifier of it")
        seeded = hasattr(model, "_get_params") and "seed" in model._get_params()
        self.model, self.seed = model.clone({"seed": seed}) if seeded else model, seed

    def fit(self, X, y, classes):
        self.n_classes = len(classes)
        for row in np.random.default_rng(self.seed).permutation(len(y)):
            self.correct(X[row], int(y[row]))
        return self

    def _answers(self, X):
        answers = [self.model.predict_one(dict(enumerate(x))) for x in X.tolist()]
        return np.array([-1 if answer is None else answer for answer in answers])

    def correct(self, x, y):
        self.model.learn_one(dict(enumerate(x.tolist())), y)


class Sklearn(Own):
    """A scikit-learn classifier with ``partial_fit``; a class without a row yet is never the answer."""

    methods = ("partial_fit", "predict")

    def __init__(self, model, seed):
        self.model, self.seed, params = model, seed, getattr(model, "get_params", dict)()
        if "classes" not in inspect.signature(model.partial_fit).parameters:
            raise InputError(f"{title_of(model)}.partial_fit must take (X, y, classes), as of classifiers: {WAYS}")
        if seeded := [name for name in params if name.split("__")[-1] == "random_state"]:
            model.set_params(**dict.fromkeys(seeded, seed))
        linear = any(cls.__name__ == "BaseSGDClassifier" for cls in type(model).__mro__)
        self.passes = min(params.get("max_iter") or 1, LINEAR_PASSES if linear else PASSES)

    def fit(self, X, y, classes):
        self.n_classes, self.met = len(classes), np.unique(y)
        rng = np.random.default_rng(self.seed)
        for _ in range(self.passes):
            order = rng.permutation(len(y))
            self._learn(X[order], y[order])
        return self

    def _learn(self, X, y):
        with np.errstate(all="ignore"):  # variance and prior of classes without a row are zero
            self.model.partial_fit(X, y, classes=np.arange(self.n_classes))

    def _answers(self, X):
        names = ("predict_joint_log_proba", "decision_function", "predict_proba")
        score = next((getattr(self.model, name) for name in names if hasattr(self.model, name)), None)
        if score is None or self.n_classes < 3:  # of two classes there may be one score
            return self.model.predict(X)
        with np.errstate(all="ignore"):
            scores = np.asarray(score(X))[:, self.met]
        return self.met[np.where(np.isnan(scores), -np.inf, scores).argmax(axis=1)]

    def correct(self, x, y):
        self.met = np.union1d(self.met, y)
        self._learn(x[None], np.array([y]))
