"""A published result says what it came from, and nothing about when, where and by whom."""

import json
import os
import platform
import re
import sys

import pandas as pd
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


def test_what_is_shown_as_published_is_copied_byte_for_byte(published, tmp_path):
    frame, path = published()
    assert publish.published("vote_ablation", tmp_path).equals(frame)  # in its own place: nothing to copy
    again = tmp_path / "elsewhere"
    assert publish.published("vote_ablation", again).equals(frame)
    assert (again / "data/results/vote_ablation.parquet").read_bytes() == path.read_bytes()


def test_what_was_never_published_is_one_clear_error(published, tmp_path):
    with pytest.raises(InputError, match="lora.parquet is missing"):
        publish.published("lora", tmp_path)


def test_runs_of_systems_that_read_different_things_are_not_mixed(published):
    runs = [*grid("vote_ablation"), *grid("lora")]
    assert publish.reads(grid("lora")) == "sentences"
    with pytest.raises(ValueError):
        publish.reads(runs)


def test_provenance_of_runs_on_sentences_needs_no_sentences(published, monkeypatch, tmp_path):
    monkeypatch.setenv("OCRR_DATA_DIR", str(tmp_path / "nothing"))
    about = publish.about(grid("lora", seeds="0"))
    assert {"ocrrlib.systems.lora", "ocrrlib.backbones"} <= about["code"].keys()
    assert {"torch", "peft", "transformers"} <= about["libraries"].keys()


# --- studies: measurements that are not streams


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Publish rows of growing ledgers; ``keep`` joins them with those of the last time."""
    monkeypatch.setattr(publish, "ROOT", tmp_path)

    def write(rows, **keywords):
        frame = pd.DataFrame(rows, columns=["system", "entries", "predict_median"])
        return publish.publish_study("growth", frame, tmp_path, **keywords)

    return write


def test_fresh_rows_replace_those_published_and_the_others_stay(study):
    study([("substrate", 1000, 1.0), ("substrate", 100, 2.0)])
    joined = study([("substrate", 1000, 3.0), ("substrate_hnsw", 100, 4.0)])
    assert joined.iloc[:, :3].to_numpy().tolist() == [
        ["substrate", 100, 2.0],
        ["substrate", 1000, 3.0],
        ["substrate_hnsw", 100, 4.0],
    ]
    assert len(study([("substrate", 5, 1.0)], keep=False)) == 1


def test_the_same_rows_make_the_same_file_in_whatever_order_and_parts(study, tmp_path):
    rows = [("a", 1, 0.1), ("a", 2, 0.2), ("b", 1, 0.3)]
    study(rows)
    whole = (tmp_path / "data/results/growth.parquet").read_bytes()
    study(rows[2:], keep=False)
    study(rows[1::-1])
    assert (tmp_path / "data/results/growth.parquet").read_bytes() == whole


def test_nothing_fresh_leaves_what_is_published(study):
    first = study([("substrate", 1000, 1.0)])
    assert study([]).equals(first)


def test_a_row_says_by_which_code_it_was_made(study, monkeypatch):
    study([("substrate", 1000, 1.0)])
    monkeypatch.setattr(publish, "made_by", lambda name: {"code": {name: "changed"}})
    joined = study([("substrate", 100, 2.0)])
    assert joined["made_by"].nunique() == 2
