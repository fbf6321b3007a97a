"""What tests of the benchmark have in common: data, the registry's systems, somebody's own."""

import subprocess
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ocrrlib.datasets import Texts
from ocrrlib.embeddings import halve, widen
from ocrrlib.files import InputError
from ocrrlib.systems import SYSTEMS

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


def git(folder, *words):
    """What git prints."""
    command = ["git", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


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


# Systems and variants whose rows have small settings.
TESTED = [name for name, row in SYSTEMS.items() if row.small is not None]
CONTRACT = [name for name in TESTED if SYSTEMS[name].reads == "embeddings"]
VOTING = {"static_knn", "substrate", "substrate_hnsw", "bounded_reservoir_100", "bounded_fifo_100"}
# Systems that read sentences, and backbones for them.
TEXT = {
    "lora": "bert",
    "lora_replay": "deberta",
}
BACKBONES: dict[str, dict] = {}  # of systems that read sentences, while they are tested


def corrections(s, n=90):
    """New rows and their classes, with some known ones in between."""
    both = [*zip(s.X_stream, s.y_stream.tolist()), *zip(s.X_initial, s.y_initial.tolist())]
    return [both[place] for place in np.random.default_rng(5).permutation(len(both))[:n]]


def new(name, seed=0):
    row = SYSTEMS[name]
    return replace(row, params=row.params | row.small | BACKBONES.get(name, {})).make(seed)


def fitted(name, s, seed=0):
    return new(name, seed).fit(s.X_initial, s.y_initial, s.classes)


def teach(system, pairs):
    for x, y in pairs:
        system.correct(x, y)
    return system


def assert_refused(clue, call, *args):
    with pytest.raises(InputError, match=clue) as caught:
        call(*args)
    assert "\n" not in str(caught.value) and 20 < len(str(caught.value)) < 200


def scatter(Z, y):
    """Of rows around the means of their classes."""
    centred = Z - pd.DataFrame(Z).groupby(y).transform("mean").to_numpy()
    return centred.T @ centred
