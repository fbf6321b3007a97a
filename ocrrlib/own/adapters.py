"""Objects of your own, of scikit-learn and of river as systems of the benchmark."""

import copy
import functools
import inspect

import numpy as np

from ocrrlib.files import InputError
from ocrrlib.systems import make
from ocrrlib.systems.base import Storage, System

# Passes of scikit-learn classifiers with max_iter over the initial rows. The step size of
# SGDClassifier and its kin shrinks with every row: after more passes they hardly learn new classes.
PASSES, LINEAR_PASSES = 30, 5


def title_of(thing):
    """A short name of a system: that of its class or function."""
    name = thing if isinstance(thing, str) else getattr(thing, "__name__", type(thing).__name__)
    return name if name.isidentifier() else "own_system"


def as_system(thing, seed=0, encoder=None):
    """A fresh system from what ``evaluate`` takes; ``InputError`` if it cannot be used as one.

    ``encoder`` is for names in the registry whose systems read sentences.
    """
    if isinstance(thing, str):
        return make(thing, seed, encoder)
    if inspect.isclass(thing) or inspect.isroutine(thing) or isinstance(thing, functools.partial):
        taken = inspect.signature(thing).parameters.values()
        named = [one.name for one in taken if one.name in ("seed", "random_state")]
        needed = [
            one for one in taken if one.default is one.empty and one.kind < one.VAR_POSITIONAL
        ]
        takes_seed = needed and not inspect.isclass(thing)
        thing = thing(**{named[0]: seed}) if named else thing(seed) if takes_seed else thing()
    else:
        try:
            thing = copy.deepcopy(thing)
        except Exception as error:  # each kind of object has its own way to fail
            raise InputError(
                f"{title_of(thing)} cannot be copied ({error}): give a function that makes it"
            ) from error
    if isinstance(thing, System):
        thing.seed = seed
        return thing
    for adapter in (Own, River, Sklearn):
        if all(callable(getattr(thing, method, None)) for method in adapter.methods):
            return adapter(thing, seed)
    way_out = "give an object with fit(X, y, classes), predict(X) and correct(x, y), a scikit-learn classifier with "
    way_out += (
        "partial_fit, a river classifier, or a class or a function of the seed that makes one"
    )
    raise InputError(f"{title_of(thing)} cannot be used as a system: {way_out}")


class Own:
    """An object with the three methods; the other adapters replace what differs."""

    methods = ("fit", "predict", "correct")

    def __init__(self, model, seed):
        self.model, self.seed = model, seed
        if type(self) is Own and hasattr(model, "predict_proba"):
            self.predict_proba = self._checked_proba

    def fit(self, X, y, classes):
        self.n_classes = len(classes)
        self.model.fit(X, y, classes)
        return self

    def predict(self, X):
        given, last = np.asarray(self._answers(X)), self.n_classes - 1
        if (
            given.shape != (len(X),)
            or given.dtype.kind not in "iu"
            or not ((given >= -1) & (given <= last)).all()
        ):
            raise InputError(
                f"{title_of(self.model)}.predict must give class ids ({len(X)},), integers from 0 to {last} or -1; "
                f"it gave {given.dtype} of shape {given.shape}, as {given.ravel()[:3]}"
            )
        return given.astype(np.int64)

    def _answers(self, X):
        return self.model.predict(X)

    def _checked_proba(self, X):
        p = np.array(self.model.predict_proba(X), np.float64)
        if p.shape != (len(X), self.n_classes) or not (p >= 0).all():
            wanted = f"({len(X)}, {self.n_classes}), none negative"
            raise InputError(
                f"{title_of(self.model)}.predict_proba must give numbers {wanted}; it gave {p.shape}"
            )
        return p

    def correct(self, x, y):
        self.model.correct(x, y)

    def storage(self):
        """What the object's own ``storage`` reports; 0 bytes without one."""
        return self.model.storage() if hasattr(self.model, "storage") else Storage(bytes=0)


class River(Own):
    """A river classifier; it learns the initial rows one by one, in random order."""

    methods = ("learn_one", "predict_one")

    def __init__(self, model, seed):
        if not getattr(model, "_multiclass", True):
            raise InputError(
                f"{title_of(model)} is for two classes: give river.multiclass.OneVsRestClassifier of it"
            )
        seeded = hasattr(model, "_get_params") and "seed" in model._get_params()
        super().__init__(model.clone({"seed": seed}) if seeded else model, seed)

    def fit(self, X, y, classes):
        self.n_classes = len(classes)
        for row in np.random.default_rng(self.seed).permutation(len(y)):
            self.correct(X[row], int(y[row]))
        return self

    def _answers(self, X):
        answers = [self.model.predict_one(dict(enumerate(x))) for x in X.tolist()]
        return np.array([-1 if answer is None else answer for answer in answers], int)

    def correct(self, x, y):
        self.model.learn_one(dict(enumerate(x.tolist())), y)


class Sklearn(Own):
    """A scikit-learn classifier with ``partial_fit``; a class without a row yet is never the answer."""

    methods = ("partial_fit", "predict")

    def __init__(self, model, seed):
        super().__init__(model, seed)
        params = model.get_params() if hasattr(model, "get_params") else {}
        if seeded := [name for name in params if name.split("__")[-1] == "random_state"]:
            model.set_params(**dict.fromkeys(seeded, seed))
        linear = any(cls.__name__ == "BaseSGDClassifier" for cls in type(model).__mro__)
        self.passes = min(params.get("max_iter") or 1, LINEAR_PASSES if linear else PASSES)

    def fit(self, X, y, classes):
        self.n_classes, self.met, rng = len(classes), np.unique(y), np.random.default_rng(self.seed)
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
        score = next(
            (getattr(self.model, name) for name in names if hasattr(self.model, name)), None
        )
        if score is None or self.n_classes < 3:  # of two classes there may be one score
            return self.model.predict(X)
        scores = np.asarray(score(X))[:, self.met]
        return self.met[np.where(np.isnan(scores), -np.inf, scores).argmax(axis=1)]

    def correct(self, x, y):
        self.met = np.union1d(self.met, y)
        self._learn(x[None], np.array([y]))
