"""The examples in the docstrings of the six objects to start with print their outputs."""

import doctest
import sys

import pytest

from corrigible import CorrectionMemory
from ocrr.evaluator import evaluate
from ocrrlib.policies import Policy
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems.base import System

FIRST = (run_stream, make_scenario, Policy, System, evaluate, CorrectionMemory)


@pytest.mark.parametrize("thing", FIRST, ids=lambda thing: thing.__name__)
def test_an_example_runs_and_prints_what_it_says(thing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for the file of a memory
    names = vars(sys.modules[thing.__module__]).copy()
    (example,) = doctest.DocTestFinder(recurse=False).find(thing, thing.__name__, globs=names)
    found = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example)
    assert found.attempted
    assert not found.failed
