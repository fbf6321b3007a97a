"""What tests share: the committed Banking77 embeddings, a tiny dataset that can be learnt, exact unit rows."""

import gc
import os
import socket

# Before NumPy is there: on a machine with other work, waiting BLAS threads make small products ten times slower.
for library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from ocrrlib.datasets import Texts
from ocrrlib.embeddings import Embedded, halve, path_of, read, widen
from ocrrlib.encoders import DEFAULT_ENCODER
from ocrrlib.systems import SYSTEMS
from ocrrlib.tasks import CACHE  # noqa: F401  found once, here: it must not be that of one test
from tests.browser import browser, find

EMBEDDED = [name for name, entry in SYSTEMS.items() if entry.reads == "embeddings"]
TEXTS = Texts(
    train=["lost card", "no pin", "card gone", "where is my card"],
    train_labels=["lost", "pin", "lost", "arrival"],
    test=["new pin", "card is late"],
    test_labels=["pin", "arrival"],
)

settings.register_profile("repeatable", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")


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


@pytest.fixture(scope="session")
def banking():
    """Banking77 by the default encoder, from the committed file; never encoded anew."""
    return read(path_of("banking77", DEFAULT_ENCODER))


@pytest.fixture(scope="session")
def tiny():
    """12 classes in 16 dimensions, 20 training and 6 test rows of each."""
    n_classes, d = 12, 16
    X_train, y_train = clusters(n_classes, 20, d, seed=0)
    X_test, y_test = clusters(n_classes, 6, d, seed=1)
    names = tuple(f"class {id:02d}" for id in range(n_classes))
    return Embedded("tiny", "drawn at random", names, X_train, y_train, X_test, y_test)


def assert_watched_equals_predicted(system, s, pairs, halfway):
    """Whatever rows are asked for, in any order, some twice, before and after each of these corrections."""
    rng, everything = np.random.default_rng(1), np.arange(len(s.queries))
    early, late = system.watch(s.queries).answers, None
    for i, pair in enumerate(pairs):
        for _ in range(rng.integers(0, 3)):
            rows = rng.integers(0, len(everything), rng.integers(1, 12))
            np.testing.assert_array_equal(early(rows), system.predict(s.queries[rows]))
        if i == halfway:
            late = system.watch(s.queries).answers
        system.correct(*pair)
    for answers in (early, late):
        np.testing.assert_array_equal(answers(everything), system.predict(s.queries))
        assert answers(everything[:0]).shape == (0,)


@pytest.fixture
def no_network(monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")

    def unreachable(*args, **kwargs):
        raise socket.gaierror("no network")

    monkeypatch.setattr(socket, "getaddrinfo", unreachable)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # it reads the variable once, on import


def pytest_collection_finish():
    """What was imported stays: collections of garbage, which some libraries ask for, need not look at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def vectors(tmp_path_factory):
    """A file of six classes of vectors that can be learnt."""
    X, y = clusters(6, 30, 8, seed=3)
    path = tmp_path_factory.mktemp("data") / "vectors.npz"
    np.savez(path, X=X, y=y)
    return path


@pytest.fixture(scope="module")
def tab():
    """A tab of a headless browser."""
    if not find():
        pytest.skip("no Chromium is installed")
    with browser() as tab:
        yield tab
