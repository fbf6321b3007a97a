"""What all adapters of classifiers of others share."""

import copy

import numpy as np

from ocrrlib.errors import InputError
from ocrrlib.systems.base import Storage, System

WAYS = (
    "an object with fit(X, y, classes), predict(X) and correct(x, y), a scikit-learn classifier with partial_fit, "
    "or a river classifier"
)


def is_from(library, thing):
    """Whether an object's class, or one that it is made from, is of this library."""
    return any(cls.__module__.split(".")[0] == library for cls in type(thing).__mro__)


def copied(thing):
    """A deep copy.

    Raises
    ------
    InputError
        If the thing cannot be copied.
    """
    try:
        return copy.deepcopy(thing)
    except Exception as error:  # each kind of object has its own way to fail
        name = type(thing).__name__
        raise InputError(
            f"{name} cannot be copied ({error}), and each seed starts from a copy: give the class, or a function that "
            f"makes a new one, as lambda seed: {name}(...)"
        ) from error


class Adapter(System):
    """What all adapters share: the given object is kept aside, and ``fit`` starts from a copy of it.

    Attributes
    ----------
    fresh : bool
        Whether it was made for this system alone, so that ``fit`` may once start from itself if it cannot be copied.
    """

    fresh = False

    def __init__(self, given, seed=0):
        super().__init__(seed)
        self.given, self.model = given, None

    @property
    def title(self):
        """The name of the classifier."""
        return type(self.given).__name__

    def fit(self, X, y, classes):
        self.classes = tuple(classes)
        return super().fit(X, y, classes)

    def _copied(self):
        """What ``fit`` starts from."""
        try:
            return copied(self.given)
        except InputError:
            if not self.fresh:
                raise
            self.fresh = False
            return self.given

    def storage(self):
        """0 bytes: what the model holds is not known."""
        return Storage(bytes=0)

    def _probabilities(self, X):
        nothing = not len(X) or not self.met
        given = np.zeros((len(X), self.n_classes)) if nothing else self._given_probabilities(X)
        if given is None:
            raise InputError(
                f"{self.title} gives no class probabilities, and the policy asks where a system is unsure: give it "
                f"predict_proba(X), (n, {self.n_classes}), or take another policy"
            )
        found = np.asarray(given, np.float64)
        if found.shape != (len(X), self.n_classes) or (found < 0).any() or np.isinf(found).any():
            raise InputError(
                f"{self.title}.predict_proba must give {self.n_classes} numbers from 0 to 1 for each of {len(X)} rows; "
                f"it gave {found.dtype} of shape {found.shape}"
            )
        found = np.nan_to_num(found, nan=0.0)
        return found / np.maximum(found.sum(axis=1, keepdims=True), np.finfo(float).tiny)

    def _given_probabilities(self, X):
        """Probabilities (m, C) as the classifier gives them; None where it gives none."""
        return self.model.predict_proba(X) if hasattr(self.model, "predict_proba") else None

    def _ids(self, answers, m):
        """Answers as class ids (m,), checked."""
        ids = np.asarray(answers)
        if ids.shape != (m,) or ids.dtype.kind not in "iu":
            what = f"{ids.dtype} of shape {ids.shape}"
            if ids.ndim == 2:
                what += ": take argmax(axis=1)"
            elif ids.dtype.kind in "USO":
                what += ": give places in classes, not names"
            elif ids.dtype.kind == "f":
                what += ": give integers"
            raise InputError(f"{self.title}.predict must give one class id for each of {m} rows; it gave {what}")
        if m and not -1 <= ids.min() <= ids.max() < self.n_classes:
            raise InputError(
                f"{self.title}.predict gave {ids.min()} to {ids.max()}: class ids are 0 to {self.n_classes - 1}, "
                "or -1 for no answer"
            )
        return ids.astype(np.int64)
