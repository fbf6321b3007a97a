"""What tests of the benchmark have in common: texts, rows, clusters, somebody's classifier."""

import numpy as np

from ocrrlib.datasets import Texts
from ocrrlib.embeddings import halve, widen

TEXTS = Texts(
    train=["lost card", "no pin", "card gone", "where is my card"],
    train_labels=["lost", "pin", "lost", "arrival"],
    test=["new pin", "card is late"],
    test_labels=["pin", "arrival"],
)


def rows(n, d, seed):
    """``n`` random unit rows of length ``d``, as systems see them."""
    return widen(halve(np.random.default_rng(seed).normal(size=(n, d))))


def clusters(n_classes, per_class, d, seed, spread=0.5):
    """Rows around one random centre per class, and their class ids, in random order."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(n_classes * d).normal(size=(n_classes, d))
    y = rng.permutation(np.repeat(np.arange(n_classes), per_class))
    return widen(halve(centres[y] + spread * rng.normal(size=(len(y), d)))), y


class Means:
    """Somebody's nearest mean, who knows the three methods only."""

    def __init__(self):
        self.fits = 0

    def fit(self, X, y, classes):
        self.fits += 1
        self.sums = np.zeros((len(classes), X.shape[1]))
        np.add.at(self.sums, y, X)

    def predict(self, X):
        lengths = np.linalg.norm(self.sums, axis=1, keepdims=True)
        return (X @ (self.sums / np.maximum(lengths, 1e-12)).T).argmax(axis=1)

    def correct(self, x, y):
        self.sums[y] += x
