"""What tests of the memory have in common: rows, clusters, a small memory, the command."""

import io
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest

from corrigible.cli import main
from ocrrlib.embeddings import halve, widen


def rows(n, d, seed):
    """``n`` random unit rows of length ``d``."""
    return widen(halve(np.random.default_rng(seed).normal(size=(n, d))))


def clusters(n_classes, per_class, d, seed, spread=0.5):
    """Rows around one random centre per class, and their class ids, in random order."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(n_classes * d).normal(size=(n_classes, d))
    y = rng.permutation(np.repeat(np.arange(n_classes), per_class))
    return widen(halve(centres[y] + spread * rng.normal(size=(len(y), d)))), y


in_a_file = pytest.mark.parametrize("place", ["file"], indirect=True)

_X, _y = clusters(6, 10, 8, seed=0)
MEMORY = _X, [f"class {y}" for y in _y]  # vectors and labels of the fixture ``memory``


def corrigible(*arguments, encoding="utf-8"):
    """Exit status, stdout and stderr of a command."""
    out = io.TextIOWrapper(io.BytesIO(), encoding)
    with redirect_stdout(out), redirect_stderr(io.StringIO()) as err:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
    out.flush()
    return ended.value.code, out.buffer.getvalue().decode(), err.getvalue()
