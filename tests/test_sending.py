"""What goes to other processes takes modules of one's own along, and leaves nothing behind here."""

import pickle
import subprocess
import sys

import cloudpickle
import pytest

from ocrrlib.evaluation.sending import Packed, packed
from ocrrlib.files import ROOT

UNPACK = "import pickle, sys; print(pickle.load(sys.stdin.buffer).unpacked()())"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module that no other process finds."""
    (tmp_path / "seen_here_only.py").write_text("NUMBER = 7\n\n\ndef told():\n    return NUMBER\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("seen_here_only")
    del sys.modules["seen_here_only"]


def unpacked(sent, before=""):
    """What the function that was sent says in a process of its own, where this code was run before."""
    code = [sys.executable, "-c", before + UNPACK]
    return subprocess.run(code, input=pickle.dumps(sent), capture_output=True, cwd=ROOT)


def test_a_function_of_a_module_of_ones_own_runs_where_that_is_not_found(own):
    sent = packed(own.told)
    assert unpacked(sent).stdout.strip() == b"7" and not sent.folders
    assert b"No module named 'seen_here_only'" in unpacked(Packed(cloudpickle.dumps(own.told))).stderr


def test_a_module_that_was_edited_runs_as_it_is_now_where_its_older_form_is_still_at_hand(own):
    older = "import sys; sys.modules['seen_here_only'] = old = type(sys)('seen_here_only'); old.told = lambda: 6; "
    assert unpacked(Packed(cloudpickle.dumps(own.told)), older).stdout.strip() == b"6"
    assert unpacked(packed(own.told), older).stdout.strip() == b"7"


def test_afterwards_modules_are_pickled_as_before(own):
    before = cloudpickle.dumps(own.told)
    cloudpickle.register_pickle_by_value(own)
    packed(own.told)
    assert "seen_here_only" in cloudpickle.list_registry_pickle_by_value()
    cloudpickle.unregister_pickle_by_value(own)
    packed(own.told)
    assert cloudpickle.dumps(own.told) == before and not cloudpickle.list_registry_pickle_by_value()


def test_what_cannot_go_by_value_is_imported_from_its_folder(own, tmp_path):
    own.NUMBER = (line for line in ())  # a generator cannot be pickled
    sent = packed(own.told)
    assert sent.content == cloudpickle.dumps(own.told) and str(tmp_path) in sent.folders
    assert unpacked(sent).stdout.strip() == b"7"


def test_libraries_and_ocrrlib_go_by_their_names():
    from ocrrlib.systems.ncm import NCM

    assert len(packed(NCM).content) < 200
