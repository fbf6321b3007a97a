"""What tests share: the committed Banking77 embeddings, a tiny dataset that can be learnt, exact unit rows."""

import os

# Before NumPy is there: on a machine with other work, waiting BLAS threads make small products ten times slower.
for library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from ocrrlib.embeddings import Embedded, halve, path_of, read, widen
from ocrrlib.encoders import DEFAULT_ENCODER

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
