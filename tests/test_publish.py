"""A published result says what it came from, and nothing about when, where and by whom."""

import json
import os
import platform
import re
import sys

import pytest

from ocrrlib import publish, results
from ocrrlib.errors import InputError
from ocrrlib.experiments import grid
from ocrrlib.files import sha256


@pytest.fixture
def published(tmp_path, monkeypatch):
    """The smallest experiment, its quick version, in a folder of its own: ``published(seeds, ...)``."""
    monkeypatch.setattr(publish, "ROOT", tmp_path)  # notes on the run go there, too
    monkeypatch.setattr(publish, "LOCK", tmp_path / "requirements.lock")
    (tmp_path / "requirements.lock").write_text("numpy==2.4.6\n")

    def run(seeds="0", **settings):
        settings = dict(profile="quick", out=tmp_path, cache=tmp_path / "runs") | settings
        frame = publish.run_experiment("vote_ablation", seeds=seeds, **settings)
        return frame, tmp_path / "data" / "results" / "vote_ablation.parquet"

    return run


def test_the_result_file_holds_what_was_returned(published):
    frame, path = published()
    kept, _ = results.read(path)
    assert kept.equals(frame) and len(frame["system"].unique()) == 5


def test_provenance_holds_data_code_parameters_lock_and_seeds(published, banking):
    _, path = published(seeds="1,0")
    _, kept = results.read(path)
    assert kept.keys() == {"runs", "seeds", "parameters", "code", "libraries", "data", "lock"}
    assert (kept["runs"], kept["seeds"]) == (10, [0, 1])
    assert kept["data"] == {"banking77": banking.fingerprint}
    assert kept["lock"] == sha256(path.parents[2] / "requirements.lock")
    assert {"ocrrlib.stream", "ocrrlib.scenario", "ocrrlib.systems.substrate"} <= kept["code"].keys()
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in (kept["parameters"], *kept["code"].values()))
    assert list(kept["libraries"]) == ["numpy"]


def test_provenance_of_a_file_equals_that_of_its_grid_until_something_changes(published):
    _, path = published()
    _, kept = results.read(path)
    assert publish.about(grid("vote_ablation", seeds="0", profile="quick")) == kept
    other = publish.about(grid("vote_ablation", seeds="0", profile="paper"))
    assert {name for name in kept if kept[name] != other[name]} == {"parameters"}
    publish.LOCK.write_text("numpy==2.4.7\n")
    changed = publish.about(grid("vote_ablation", seeds="1", profile="quick"))
    assert {name for name in kept if kept[name] != changed[name]} == {"lock", "seeds", "parameters"}


def test_a_rerun_leaves_the_same_bytes_with_and_without_cache(published):
    _, path = published()
    first = path.read_bytes()
    published()
    assert path.read_bytes() == first
    published(cache=None)
    assert path.read_bytes() == first


def test_results_name_no_time_date_path_or_machine(published):
    frame, path = published()
    names = [*frame.columns, *results.read(path)[1]]
    assert not [name for name in names if re.search("time|date|second|host|machine|cpu|thread|path|user", name)]
    raw = path.read_bytes()
    told = json.dumps(results.read(path)[1]) + frame.to_csv()
    assert not re.search(r"\d\d:\d\d|\d{4}-\d\d-\d\d|[/\\]", told)
    for secret in (platform.node(), str(path.parent), os.getcwd(), os.path.expanduser("~"), sys.prefix):
        assert len(secret) < 4 or secret.encode() not in raw


def test_times_and_machine_go_to_a_note_outside_the_results(published):
    _, path = published()
    note = json.loads((path.parents[2] / "build" / "runs" / "vote_ablation.json").read_text())
    assert len(note["runs"]) == 5 and all(run["seconds"] >= 0 for run in note["runs"])
    assert note["python"] == platform.python_version()


@pytest.mark.parametrize("wrong", [dict(seeds="0,0"), dict(profile="quik"), dict(jobs=0), dict(encoder="none")])
def test_bad_input_leaves_no_result_behind(published, wrong, tmp_path, monkeypatch):
    monkeypatch.setenv("OCRR_DATA_DIR", str(tmp_path))  # no texts there: an unknown encoder cannot start
    with pytest.raises(InputError):
        published(**wrong)
    assert not (tmp_path / "data").exists()
