"""What tests of the memory have in common: a small memory, its file read, acts, the command."""

import io
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout

import numpy as np
import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st

from corrigible.cli import main
from corrigible.proofs.rows import Row
from ocrrlib.embeddings import halve, widen
from ocrrlib.files import InputError
from trials import PATHS
from trials.auditor import ALL, sql


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

D = 8
X, _y = clusters(6, 10, D, seed=0)
LABELS = [f"class {y}" for y in _y]
MEMORY = X, LABELS  # what the fixture ``memory`` learns


def corrigible(*arguments, encoding="utf-8"):
    """Exit status, stdout and stderr of a command."""
    out = io.TextIOWrapper(io.BytesIO(), encoding)
    with redirect_stdout(out), redirect_stderr(io.StringIO()) as err:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
    out.flush()
    return ended.value.code, out.buffer.getvalue().decode(), err.getvalue()


@contextmanager
def refused(what=""):
    """Expect a refusal in one line that says ``what``."""
    with pytest.raises(InputError) as caught:
        yield
    assert str(what) in str(caught.value) and len(str(caught.value).splitlines()) == 1


def legible(path, text):
    """Whether a text is in a file or in what SQLite keeps beside it."""
    files = path.parent.glob(f"{path.name}*")
    return any(text.encode() in file.read_bytes() for file in files)


@contextmanager
def being_read(path):
    """Let another connection read a file meanwhile."""
    with closing(sqlite3.connect(path, check_same_thread=False)) as other:
        other.execute("BEGIN").execute("SELECT * FROM entries").fetchone()
        yield other


def script(code, *arguments, **how):
    """Start another process that runs code."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": PATHS}
    return subprocess.Popen(command, env=environment, text=True, **how)


FEW = [HealthCheck.function_scoped_fixture]
# Histories: what is done, by numbers that choose among what is there
STEP = st.tuples(
    st.sampled_from(
        ["correct", "correct", "replace", "undo", "undo", "rename", "merge", "retire", "forget"]
    ),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
)
STEPS = st.lists(STEP, max_size=14)


def step(memory, what, a, b):
    """Do what can be done; what cannot is refused and writes nothing."""
    place = a % len(memory)
    labels = memory.labels
    label = labels[a % len(labels)] if labels else "none"
    other = f"label {b % 4}"
    try:
        if what == "correct":
            memory.correct(X[a % len(X)], other)
        elif what == "replace":
            memory.correct(X[b % len(X)], other, replaces=place)
        elif what == "undo":
            memory.undo(place)
        elif what == "rename":
            memory.rename(label, other)
        elif what == "merge":
            memory.merge([label], other)
        elif what == "retire":
            memory.retire(label)
        else:
            memory.forget(place)
    except ValueError as refusal:
        assert len(str(refusal).splitlines()) == 1


def counting_by_the_rule(path):
    """Labels by place of the entries that count: the rule, read off the page on memories."""
    rows = [Row(*values) for values in sql(path, [ALL])]
    acts = {}
    for row in rows:
        tells_of_erasure = row.x == b"" and row.text is not None
        acts[int(row.text) if tells_of_erasure else row.place] = json.loads(row.act or "{}")

    def stands(place):
        later = [other for other in acts if other > place and acts[other].get("undo") == place]
        return not any(stands(other) for other in later)

    standing = {place: acts[place] for place in sorted(acts) if stands(place)}
    replaced = {act.get("replaces") for act in standing.values()}
    retired = {act.get("retire") for act in standing.values()}
    namings = [(place, *act["merge"]) for place, act in standing.items() if "merge" in act]
    for place, act in standing.items():
        if "rename" in act:
            namings.append((place, act["rename"][:1], act["rename"][1]))
    labels = {}
    for row in rows:
        if row.x and row.place in standing and row.place not in replaced:
            label = row.label
            for place, olds, new in sorted(namings):
                if place > row.place and label in olds:
                    label = new
            if label not in retired:
                labels[row.place] = label
    return labels
