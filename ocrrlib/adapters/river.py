"""Classifiers of river."""

import inspect

import numpy as np

from ocrrlib.adapters.base import WAYS, Adapter, is_from
from ocrrlib.errors import InputError


class RiverSystem(Adapter):
    """A river classifier; rows become dicts, and it predicts and learns one after the other.

    It passes over the initial rows once, in random order. ``seed`` becomes the seed, also of what it is made
    of. It has no answer before it has learnt something. 0 bytes are reported: what river holds has random
    generators in it that no seed reaches, so that its size is not the same twice.
    """

    def __init__(self, given, seed=0):
        super().__init__(given, seed)
        if is_from("river", given) and not hasattr(given, "_multiclass"):
            raise InputError(f"{self.title} is not a classifier: give {WAYS}")
        if not getattr(given, "_multiclass", True):
            raise InputError(
                f"{self.title} is for two classes: give river.multiclass.OneVsRestClassifier({self.title}())"
            )

    def _fit(self, X, y):
        if hasattr(self.given, "_get_params"):
            self.model = self.given.clone(_seeded(self.given._get_params(), self.seed))
        else:  # written elsewhere, with river's methods
            self.model = self._copied()
        for row in np.random.default_rng(self.seed).permutation(len(y)):
            self._correct(X[row], y[row])

    def _predict(self, X):
        if not self.met:
            return np.full(len(X), -1)
        answers = [self.model.predict_one(_features(x)) for x in X]
        return self._ids(np.array([-1 if answer is None else answer for answer in answers], np.int64), len(X))

    def _given_probabilities(self, X):
        if not hasattr(self.model, "predict_proba_one"):
            return None
        found = np.zeros((len(X), self.n_classes))
        for row, x in zip(found, X):
            for label, share in self.model.predict_proba_one(_features(x)).items():
                row[label] = share
        return found

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
