"""The command line: what it prints, for people and for programs, and how it ends."""

import dataclasses
import inspect
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from conftest import clusters

from ocrrlib import __version__, cards, ledger_file, progress, stored_ledger
from ocrrlib.cards.cells import METRICS
from ocrrlib.cards.check import check
from ocrrlib.cli import commands, curves, failures, options
from ocrrlib.cli import ledger as ledger_commands
from ocrrlib.evaluation import evaluate as evaluating
from ocrrlib.evaluation import one_seed
from ocrrlib.evaluation.evaluate import evaluate
from ocrrlib.files import ROOT, sha256
from ocrrlib.ledger import GENESIS, Ledger
from ocrrlib.systems import SYSTEMS
from ocrrlib.systems.substrate import Substrate


@pytest.fixture
def vectors(tmp_path, banking):
    """A few classes of Banking77 as a file of vectors."""
    parts = {}
    for part in ("train", "test"):
        chosen = np.flatnonzero(getattr(banking, f"y_{part}") < 8)[:: 3 if part == "train" else 1]
        parts[f"X_{part}"], parts[f"y_{part}"] = (getattr(banking, f"{n}_{part}")[chosen] for n in "Xy")
    np.savez(tmp_path / "own.npz", **parts)
    return tmp_path / "own.npz"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """However slow the machine, nothing takes so long that a line says so."""
    monkeypatch.setattr(progress, "LINES", 10_000)


def run(capsys, *arguments):
    """Exit status and both outputs of a command."""
    with pytest.raises(SystemExit) as ended:
        commands.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return ended.value.code or 0, out, err


def test_a_run_prints_curves_and_intervals_of_each_system(capsys, vectors):
    status, out, _ = run(capsys, "run", "ncm", "static_knn", "--data", vectors, "--seeds", "0-2")
    assert status == 0
    for name in ("ncm", "static_knn"):
        assert f"{name} on own, oracle: 3 seeds" in out
    for metric in METRICS:
        assert out.count(f"\n  {metric} ") >= 2
    assert curves.BARS[0] in out and "(" in out


def test_programs_get_cards_and_nothing_else(capsys, vectors, tmp_path):
    arguments = ("run", "ncm", "--data", vectors, "--seeds", "0,2", "--every", 9, "--json", "--out", tmp_path / "out")
    status, out, err = run(capsys, *arguments)
    (card,) = json.loads(out)
    check(card)
    assert (status, err) == (0, "") and card["cells"][0]["seeds"] == [0, 2]
    assert cards.read_card(tmp_path / "out/ncm.own.npz.every_9.json") == card
    assert (tmp_path / "out/ncm.own.npz.every_9.csv").read_text().startswith("dataset,encoder,policy,seed,system,step,")


def test_off_a_terminal_lines_on_stderr_say_what_is_being_done(capsys, vectors, monkeypatch):
    says = progress.Progress.says
    monkeypatch.setattr(progress.Progress, "says", lambda self, what: [says(self, what), self.show()])  # no clock
    status, out, err = run(capsys, "run", "static_knn", "--data", vectors, "--seeds", "0-2", "--every", 9, "--json")
    assert status == 0 and json.loads(out)
    lines = err.splitlines()
    assert lines and all(line.startswith("... ") and line.endswith(" s") for line in lines)
    assert any(line.startswith("... static_knn: seed ") and "items streamed" in line for line in lines)
    assert any(line.startswith("... own.npz: ") for line in lines)


def test_differences_are_those_of_pairs(capsys, vectors):
    status, out, _ = run(capsys, "compare", "ncm", "static_knn", "--data", vectors, "--seeds", "0-3", "--json")
    found = json.loads(out)
    novel = found["differences"][0]
    gaps = np.subtract(*(found[side]["cells"][0]["finals"]["novel"] for side in ("first", "second")))
    assert status == 0 and novel["metric"] == "novel" and novel["n"] == 4
    assert novel["mean"] == pytest.approx(gaps.mean(), abs=1e-5) and novel["higher"] == (gaps > 0).sum() == 4
    _, out, _ = run(capsys, "compare", "ncm", "static_knn", "--data", vectors, "--seeds", "0-3")
    assert "ncm less static_knn, in pairs of one seed:" in out and "higher in 4, lower in 0 of 4" in out


def test_a_system_of_ones_own_comes_from_a_module_in_this_folder(capsys, vectors, tmp_path, monkeypatch):
    (tmp_path / "own_module.py").write_text("from sklearn.naive_bayes import GaussianNB\n\nmodel = GaussianNB()\n")
    monkeypatch.chdir(tmp_path)
    status, out, _ = run(capsys, "run", "own_module:model", "--data", vectors, "--seeds", "0")
    assert status == 0 and "GaussianNB on own, oracle: 1 seeds" in out
    status, _, err = run(capsys, "run", "own_module:other", "--data", vectors)
    assert status == commands.WRONG and err.startswith("error: cannot import own_module:other") and err.count("\n") == 1


OWN = """
import own_parts
from own_parts import normed

class Means:
    def fit(self, X, y, classes):
        self.sums = own_parts.np.eye(len(classes))[y].T @ X

    def predict(self, X):
        return (X @ normed(self.sums).T).argmax(axis=1)

    def correct(self, x, y):
        self.sums[y] += x

def means(seed):
    return Means()
"""
PARTS = """
import threading

import numpy as np

LOCK = threading.Lock()  # cannot be sent

def normed(sums):
    return sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
"""


def test_a_module_in_this_folder_and_what_it_imports_go_to_other_processes(capsys, vectors, tmp_path, monkeypatch):
    (tmp_path / "own_means.py").write_text(OWN)
    (tmp_path / "own_parts.py").write_text(PARTS)
    monkeypatch.chdir(tmp_path)
    printed = []
    for jobs in (1, 2):
        status, out, err = run(
            capsys, "run", "own_means:means", "--data", vectors, "--seeds", "0-1", "--jobs", jobs, "--json"
        )
        assert status == 0, err
        printed.append(out)
    assert printed[0] == printed[1]


def test_the_examples_of_the_help_work_with_an_object_a_class_and_a_function(capsys, vectors, tmp_path, monkeypatch):
    (tmp_path / "my_module.py").write_text(
        OWN.replace("class Means", "class MyClassifier").replace("Means", "MyClassifier")
    )
    (tmp_path / "own_parts.py").write_text(PARTS)
    with open(tmp_path / "my_module.py", "a") as file:
        file.write("\nmodel = MyClassifier()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_parts", raising=False)
    assert "my_module:MyClassifier" in run(capsys, "run", "--help")[1]
    for name in ("MyClassifier", "model", "means"):
        status, out, err = run(capsys, "run", f"my_module:{name}", "--data", vectors, "--seeds", "0")
        assert status == 0 and "on own, oracle: 1 seeds" in out, err


def test_a_card_is_written_beside_its_text_and_can_be_checked(capsys, vectors, tmp_path):
    path = tmp_path / "ncm.json"
    status, out, _ = run(capsys, "card", "ncm", "--out", path, "--data", vectors, "--seeds", "0-1", "--source", "us")
    assert status == 0 and str(path) in out
    assert cards.read_card(path)["source"] == "us" and path.with_suffix(".md").read_text().startswith("# ncm\n")
    assert run(capsys, "check", path)[:2] == (0, f"{path}: fine\n")
    (tmp_path / "broken.json").write_text("{}")
    status, out, err = run(capsys, "check", path, tmp_path / "broken.json")
    assert status == commands.BROKEN and "broken.json" in err and f"{path}: fine" in out


def test_a_card_of_ones_own_data_is_repeated_by_the_command_in_its_markdown(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OCRR_CACHE_DIR", str(tmp_path / "cache"))
    rows = "".join(
        f"{word} {(i + 2) ** 20} {(i + 3) ** 23},{word} queue\n"
        for word in ("card", "cash", "loan", "pin")
        for i in range(12)
    )
    Path("my tickets.csv").write_text("the body,queue\n" + rows)
    X, y = clusters(4, 20, 8, 0)
    np.savez("vectors.npz", X=X, y=y, part=np.arange(80) % 4 == 0)
    table = ["--data", "my tickets.csv", "--text", "the body", "--label", "queue", "--encoder", "tfidf-svd"]
    drawn, column = {"test_share": 0.4, "seed": 3}, {"column": "part"}
    for given, split, more in (
        (
            [*table, "--test-share", "0.4", "--split-seed", "3"],
            drawn,
            {"columns": {"text": "the body", "label": "queue"}},
        ),
        (["--data", "vectors.npz", "--split", "part", "--every", "7"], column, {}),
    ):
        status, _, err = run(capsys, "card", "ncm", *given, "--seeds", "0,2", "--out", "first.json")
        assert status == 0, err
        (command,) = re.findall(r"- Repeat: `ocrr (.*)`", Path("first.md").read_text())
        assert run(capsys, *shlex.split(command))[0] == 0
        assert Path("again.json").read_bytes() == Path("first.json").read_bytes()
        (cell,) = cards.read_card("first.json")["cells"]
        data = cell["dataset"]
        assert cell.get("every", 50) == (7 if "--every" in given else 50)
        assert data["split"] == split and data["sources"] == {given[1]: sha256(given[1])}
        assert {name: data[name] for name in more} == more


def test_all_systems_and_datasets_are_listed(capsys):
    for command, listed in {"systems": SYSTEMS, "datasets": ("banking77", "clinc150")}.items():
        _, out, _ = run(capsys, command)
        assert [line.split()[0] for line in out.splitlines()] == list(listed)
        _, out, _ = run(capsys, command, "--json")
        assert [row["name"] for row in json.loads(out)] == list(listed)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """A ledger's file and its head."""
    path = tmp_path_factory.mktemp("ledger") / "ledger.sqlite"
    done = subprocess.run(
        [sys.executable, "-m", "ocrrlib.cli.commands", "ledger", "write", path, "--policy", "random10"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return path, done.stdout.split("head ")[1].split(":")[0]


def test_a_ledger_is_verified_and_a_damaged_entry_named(capsys, ledger, tmp_path):
    path, head = ledger
    status, out, _ = run(capsys, "ledger", "verify", path, "--head", head)
    assert status == 0 and out.endswith("entries, unbroken\n")
    assert "no head was given" in run(capsys, "ledger", "verify", path)[1]
    _, out, _ = run(capsys, "ledger", "show", path, "--last", "2")
    assert len(out.splitlines()) == 3 and out.splitlines()[-1].endswith(f"head {head}")

    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(copy)) as base, base:
        base.execute("UPDATE entries SET label = label + 1 WHERE place = 7")
    assert run(capsys, "ledger", "verify", copy)[:2] == (commands.BROKEN, f"{copy}: entry 7: changed\n")
    status, out, _ = run(capsys, "ledger", "verify", copy, "--json")
    assert status == commands.BROKEN and json.loads(out)["fault"] == "entry 7: changed"
    with closing(sqlite3.connect(copy)) as base, base:
        base.execute("DELETE FROM entries WHERE place >= 7")
    assert run(capsys, "ledger", "verify", copy)[0] == 0
    assert run(capsys, "ledger", "verify", copy, "--head", head)[:2] == (
        commands.BROKEN,
        f"{copy}: entry 7: truncated\n",
    )


@pytest.fixture
def small(tmp_path):
    """The file of a ledger of ten entries."""
    path = tmp_path / "small.sqlite"
    ledger_file.write(Ledger(np.eye(10, dtype=np.float32), np.arange(10) % 3), path, list("abc"))
    return path


def edit(path, statement):
    with closing(sqlite3.connect(path)) as base, base:
        base.execute(statement)


@pytest.mark.parametrize(
    "statement, verdict",
    [
        ("UPDATE entries SET label = 'abc' WHERE place = 5", "entry 5: changed (its label is not of type int)"),
        ("UPDATE entries SET label = 1e23 WHERE place = 5", "entry 5: changed (its label is not of type int)"),
        ("UPDATE entries SET id = 'abc' WHERE place = 5", "entry 5: changed (its id is not of type int)"),
        ("UPDATE entries SET previous = 'abc' WHERE place = 5", "entry 5: changed (its previous is not of type bytes)"),
        ("UPDATE entries SET previous = x'00' WHERE place = 5", "entry 5: changed"),
        ("UPDATE entries SET id = -9223372036854775808 WHERE place = 5", "entry 5: changed"),
        ("UPDATE entries SET x = 'abc' WHERE place = 5", "entry 5: changed (its x is not of type bytes)"),
        ("DELETE FROM entries WHERE place = 5", "entry 5: removed"),
        ("DELETE FROM about", "table about: changed (it does not say once of what format the file is)"),
        ("ALTER TABLE entries DROP COLUMN label", "tables: changed (no such column: label)"),
        ("UPDATE classes SET name = 7.5 WHERE label = 1", "names of the classes: changed"),
        ("UPDATE classes SET name = x'ff' WHERE label = 1", "names of the classes: changed (the name of class 1 is"),
    ],
)
def test_whatever_is_done_to_a_ledger_is_a_verdict_that_names_file_and_entry(capsys, small, statement, verdict):
    edit(small, statement)
    status, out, err = run(capsys, "ledger", "verify", small)
    assert (status, err) == (commands.BROKEN, "") and out.startswith(f"{small}: {verdict}") and out.count("\n") == 1
    status, out, _ = run(capsys, "ledger", "verify", small, "--json")
    assert status == commands.BROKEN and json.loads(out)["fault"].startswith(verdict)
    if "(" in verdict:  # nothing can be shown of it
        status, out, err = run(capsys, "ledger", "show", small)
        assert (status, out) == (commands.BROKEN, "") and err.startswith(f"error: {small}: {verdict}")


def test_a_head_of_earlier_vouches_for_what_was_there_then(capsys, small):
    stored = ledger_file.read(small)

    def verified(head, *more):
        return run(capsys, "ledger", "verify", small, "--head", head, *more)

    earlier = Ledger(stored.X[:4], stored.y[:4])
    less = "the head given is that of entry 3: entries from 4 on are not vouched for"
    assert verified(stored_ledger.head(earlier, "abc"))[:2] == (0, f"{small}: 10 entries, unbroken ({less})\n")
    assert json.loads(verified(stored_ledger.head(earlier, "abc"), "--json")[1])["vouched"] == {
        "entries": 4,
        "names": True,
    }
    out = verified(stored.hashes[3].hex())[1]
    assert less in out and "names of classes are not vouched for" in out
    out = verified(stored.hashes[-1].hex())[1]
    assert "entries from" not in out and "names of classes are not vouched for" in out
    none = Ledger(stored.X[:0], stored.y[:0])
    assert "ledger without entries: entries from 0 on are not" in verified(stored_ledger.head(none, "abc"))[1]
    assert verified(stored_ledger.head(stored))[1] == f"{small}: 10 entries, unbroken\n"
    assert json.loads(run(capsys, "ledger", "verify", small, "--json")[1])["vouched"] is None
    status, out, err = verified(GENESIS.hex())
    assert (status, out) == (commands.WRONG, "") and "before the first entry of every ledger" in err


def test_nothing_is_added_to_a_ledger_that_was_changed(capsys, tmp_path, tiny, monkeypatch):
    monkeypatch.setattr(ledger_commands, "load", lambda *_: tiny)
    path = tmp_path / "ledger.sqlite"
    assert run(capsys, "ledger", "write", path)[0] == 0
    status, out, _ = run(capsys, "ledger", "write", path)
    assert status == 0 and out.startswith(f"{path}: 0 entries added")
    edit(path, "DELETE FROM entries WHERE place > 44")
    with monkeypatch.context() as patch:
        patch.setattr(ledger_commands, "run_stream", None)  # the stream need not be over
        for statement, verdict in {
            "UPDATE entries SET label = label + 1 WHERE place = 5": "entry 5: changed",
            "UPDATE classes SET name = 'mine' WHERE label = 1": "names of the classes: changed",
        }.items():
            copy = tmp_path / f"{len(verdict)}.sqlite"
            copy.write_bytes(path.read_bytes())
            edit(copy, statement)
            before = copy.read_bytes()
            status, out, err = run(capsys, "ledger", "write", copy)
            assert (status, out) == (commands.BROKEN, "") and err.startswith(f"error: {copy}: {verdict}")
            assert copy.read_bytes() == before
    assert run(capsys, "ledger", "write", path)[0] == 0 and run(capsys, "ledger", "verify", path)[0] == 0


def test_what_cannot_be_written_is_refused_before_the_stream(capsys, small, tmp_path, tiny, monkeypatch):
    monkeypatch.setattr(ledger_commands, "run_stream", None)
    monkeypatch.setattr(ledger_commands, "load", lambda *_: tiny)
    path, before = tmp_path / "new.sqlite", small.read_bytes()
    for arguments, clue in (
        ((tmp_path / "none/new.sqlite",), "there is no folder"),
        ((tmp_path,), "it is a folder"),
        ((small,), "other classes"),
        ((__file__,), "no ledger or damaged"),
        ((path, "ncm"), "ncm keeps no ledger: choose one of substrate, "),
        ((path, "lora"), "lora keeps no ledger"),
        ((path, "substrat"), "did you mean 'substrate'"),
        ((path, "mine:model"), "unknown system that keeps a ledger 'mine:model'"),
        ((path, "--policy", "half"), "unknown policy 'half'"),
        ((path, "--seed", "-1"), "seed -1"),
    ):
        status, out, err = run(capsys, "ledger", "write", *arguments)
        assert (status, out) == (commands.WRONG, "") and err.startswith("error: ") and clue in err
    assert not path.exists() and small.read_bytes() == before


def test_the_systems_that_keep_a_ledger_are_those_that_the_help_lists(capsys, tiny):
    said = run(capsys, "ledger", "write", "--help")[1]
    for name, entry in SYSTEMS.items():
        listed = re.search(rf"\b{name}[,.]", said) is not None
        assert listed == (name in ledger_commands.KEEPERS) and not (listed and entry.reads == "sentences")
        if entry.reads == "embeddings":
            assert issubclass(type(entry.make()), Substrate) == listed, name
    assert "module:name" not in said.partition("--encoder")[0]


def test_what_a_ledger_waits_for_is_said_on_stderr(capsys, tmp_path, tiny, monkeypatch):
    monkeypatch.setattr(ledger_commands, "load", lambda *_: tiny)
    says = progress.Progress.says
    monkeypatch.setattr(progress.Progress, "says", lambda self, what: [says(self, what), self.show()])  # no clock
    status, out, err = run(capsys, "ledger", "write", tmp_path / "ledger.sqlite")
    lines = err.splitlines()
    assert status == 0 and len(out.splitlines()) == 2
    assert lines[0].startswith("... substrate on banking77: learning 40 rows, ") and all(
        line.startswith("... substrate on banking77: ") for line in lines
    )
    assert "200 of 200 items streamed" in lines[-1]


@pytest.mark.parametrize(
    "arguments, clue",
    [
        (["run", "substrat"], "did you mean 'substrate'"),
        (["run", "--dataset", "banking"], "did you mean 'banking77'"),
        (["run", "--seeds", "a"], "give them as 0,1,2 or, lowest first, as 0-2"),
        (["run", "--seeds", "3-1"], "seeds '3-1' are not a list of integers"),
        (["run", "--policy", "half"], "unknown policy 'half'"),
        (["run", "--held-out", "77"], "cannot hold out 77 of 77"),
        (["run", "--every", "0"], "every 0 is out of range"),
        (["run", "--jobs", "0"], "0 jobs"),
        (["run", "--data", "none.csv"], "none.csv"),
        (["run", "nowhere:model"], "cannot import nowhere:model"),
        (["card", "ncm", "--out", "/dev/null/card.json", "--seeds", "0"], "card.json"),
        (["card", "ncm", "--out", "x.md"], "where the card's Markdown goes: give x.json"),
        (["card", "ncm", "--out", "."], "it is a folder"),
        (["run", "--out", __file__], "is no folder that can be written"),
        (["run", "ncm", "ncm"], "two systems are called 'ncm'"),
        (["run", "ncm", "pa", "--name", "x"], "--name 'x' is for one system, and there are 2"),
        (["run", "ncm", "lora", "--data", "none.csv"], "benchmark's own datasets only, not on 'none.csv'"),
        (["run", "--data", "x.csv", "--dataset", "banking77"], "--dataset says nothing beside --data"),
        (["run", "--data", "x.npz", "--encoder", "tfidf-svd"], "--encoder says nothing of x.npz, which has vectors"),
        (["run", "--data", "x.npz", "--text", "text"], "--text says nothing of x.npz"),
        (
            ["run", "--data", "x.csv", "--split", "part", "--test-share", "0.5"],
            "--test-share says nothing beside --split",
        ),
        (["run", "--label", "queue"], "--label says nothing without --data"),
        (["ledger", "verify", "none.sqlite"], "none.sqlite is missing"),
        (["ledger", "write", "x.sqlite", "ncm"], "ncm keeps no ledger"),
        (["ledger", "verify", __file__, "--head", "00"], "no ledger or damaged"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_status_2(capsys, arguments, clue, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *arguments)
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert status == commands.WRONG and len(lines) == 1 and clue in lines[0]


@pytest.mark.parametrize("command", ["run", "compare"])
def test_wrong_names_are_found_before_anything_is_run(capsys, command, monkeypatch):
    monkeypatch.setattr(options, "evaluate", None)
    status, out, err = run(capsys, command, "ncm", "slad")
    assert (status, out) == (commands.WRONG, "") and "did you mean 'slda'" in err


def test_two_settings_of_one_class_and_two_policies_have_files_of_their_own(capsys, vectors, tmp_path, monkeypatch):
    (tmp_path / "own_two.py").write_text(LOUD + "one, two = Loud(), Loud()\n")
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--policy", "random10", "--every", "30"]):
        given = ["own_two:one", "own_two:two", "--data", vectors, "--seeds", "0", "--out", "out", *more]
        status, _, err = run(capsys, "run", *given)
        assert status == 0, err
    stems = {f"{name}.own.npz{more}" for name in ("one", "two") for more in ("", ".random10.every_30")}
    assert {path.name for path in Path("out").iterdir()} == {
        f"{stem}.{end}" for stem in stems for end in ("csv", "json")
    }
    run(capsys, "run", "own_two:one", "--data", vectors, "--seeds", "0", "--out", "named", "--name", "my own")
    assert cards.read_card("named/my-own.own.npz.json")["system"]["name"] == "my own"


LOUD = """
import warnings

import numpy as np

class Loud:
    def fit(self, X, y, classes):
        print("printed")

    def predict(self, X):
        warnings.warn("always the same")
        return np.zeros(len(X), int)

    def correct(self, x, y):
        pass

class Failing(Loud):
    def correct(self, x, y):
        raise KeyError("theirs")

class Ending(Loud):
    def correct(self, x, y):
        raise SystemExit

class Interrupted(Loud):
    def __init__(self, seed):
        self.seed = seed

    def correct(self, x, y):
        if self.seed == 2:
            raise KeyboardInterrupt
"""


def test_a_run_that_is_stopped_prints_and_keeps_the_seeds_that_were_done(capsys, vectors, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_stopped.py").write_text(LOUD)
    given = ["own_stopped:Interrupted", "ncm", "--data", vectors, "--seeds", "0-3", "--json", "--out", "out"]
    status, out, err = run(capsys, "run", *given)
    (card,) = json.loads(out)  # the second system was not begun
    assert status == options.STOPPED and card["cells"][0]["seeds"] == [0, 1]
    assert "stopped when 2 of 4 seeds of Interrupted were done; left are seeds 2,3, and all of ncm" in err
    (kept,) = Path("out").glob("*.json")
    assert cards.read_card(kept)["cells"] == card["cells"]
    status, out, err = run(capsys, "run", given[0], "--data", vectors, "--seeds", "1-3", "--json", "--out", "out")
    assert (status, out) == (options.WRONG, "")
    assert f"{kept} has seeds 0, which would be lost: add them to --seeds, or choose another --out" in err
    assert cards.read_card(kept)["cells"] == card["cells"]


def test_a_run_that_is_stopped_in_a_second_system_prints_and_keeps_the_first(capsys, vectors, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_stopped_first.py").write_text(LOUD.replace("self.seed == 2", "True"))
    given = ["ncm", "own_stopped_first:Interrupted", "--data", vectors, "--seeds", "0-1", "--json", "--out", "out"]
    status, out, err = run(capsys, "run", *given)
    (card,) = json.loads(out)
    assert status == options.STOPPED and card["system"]["name"] == "ncm" and "left are Interrupted" in err
    assert len(list(Path("out").glob("*.json"))) == 1


@pytest.mark.parametrize("command", [["compare", "ncm"], ["card"]])
def test_other_commands_that_are_stopped_say_what_was_done(capsys, vectors, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_stopped_later.py").write_text(LOUD)
    where = ["--out", "card.json"] if command == ["card"] else []
    given = [*command, "own_stopped_later:Interrupted", "--data", vectors, "--seeds", "0-3", *where]
    status, out, err = run(capsys, *given)
    assert (status, out) == (options.STOPPED, "") and "left are seeds 2,3" in err
    assert not Path("card.json").exists()


def test_places_of_files_are_those_that_are_written(capsys, vectors, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stem = f"ncm.{Path(vectors).name}"
    given = ["ncm", "--data", vectors, "--seeds", "0", "--every", "500", "--out", "out"]
    Path("out", f"{stem}.every_500").mkdir(parents=True)
    assert run(capsys, "run", *given)[0] == 0
    Path("out", f"{stem}.every_500.csv").unlink()
    Path("out", f"{stem}.every_500.csv").mkdir()
    monkeypatch.setattr(options, "evaluate", None)
    status, _, err = run(capsys, "run", *given)
    assert status == options.WRONG and "every_500.csv: it is a folder" in err


def test_runs_on_other_columns_or_splits_have_files_of_their_own():
    usual = options.Options(data=Path("t.csv"))
    others = [dict(label="other"), dict(text="body"), dict(split="part"), dict(test_share=0.5), dict(split_seed=1)]
    stems = {dataclasses.replace(usual, **change).stem("ncm") for change in [{}, *others]}
    assert len(stems) == len(others) + 1 and "ncm.t.csv" in stems


def test_seeds_are_checked_before_anything_is_read(capsys):
    status, _, err = run(capsys, "run", "ncm", "--data", "no_such_file.csv", "--seeds", "0,0")
    assert status == options.WRONG and "seeds '0,0' are out of range" in err


def test_the_package_runs_as_the_command_line():
    told = subprocess.run([sys.executable, "-m", "ocrrlib", "--version"], capture_output=True, text=True, check=True)
    assert told.stdout.strip().endswith(__version__)


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_system_prints_and_warns_of_is_no_part_of_json(vectors, tmp_path, jobs):
    (tmp_path / "own_loud.py").write_text(LOUD)
    command = [
        sys.executable,
        "-c",
        "from ocrrlib.cli.commands import main; main()",
        "run",
        "--json",
        "--jobs",
        str(jobs),
    ]
    more = ["own_loud:Loud", "--data", vectors, "--seeds", "0-1"]
    path = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, *more], capture_output=True, text=True, cwd=tmp_path, env=os.environ | path)
    (card,) = json.loads(done.stdout)
    assert card["system"]["name"] == "Loud" and "printed" in done.stderr
    if jobs == 1:
        lines = [line for line in done.stderr.splitlines() if "always the same" in line]
        assert lines[0] == "warning: always the same" and len(lines) == 2
        assert re.fullmatch(r"warning: [\d,]+ times in all: always the same", lines[1])


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_place_of_an_error_is_named_and_the_end_of_the_program_is_one(capsys, vectors, tmp_path, monkeypatch, jobs):
    (tmp_path / "own_fails.py").write_text(LOUD.replace("warnings.warn", "str"))
    monkeypatch.chdir(tmp_path)
    more = ["--data", vectors, "--seeds", "0-1", "--jobs", jobs]
    for name, line, what in (
        ("Failing", 19, "KeyError: 'theirs'"),
        ("Ending", 23, "RuntimeError: it ends the program"),
    ):
        status, out, err = run(capsys, "run", f"own_fails:{name}", *more)
        (told,) = [line for line in err.splitlines() if line.startswith("error: ")]
        assert status == failures.FAILED and told.startswith(f"error: {what}") and out == ""
        assert told.count(f"own_fails.py, line {line}") == 1


FAILING = {
    "syntax": ("def model(:\n", "SyntaxError", "line 1", "while failing_syntax was imported"),
    "import": ("1 / 0\nmodel = 3\n", "ZeroDivisionError", "line 1", "while failing_import was imported"),
    "attribute": ("import math\nmodel = math.nothing\n", "AttributeError", "line 2", "was imported"),
    "exit": ("raise SystemExit(1)\n", "ends the program with status 1", "", "was imported"),
    "make": (
        "def model(seed):\n    raise KeyError('theirs')\n",
        "KeyError: 'theirs'",
        "line 2",
        "while model was called",
    ),
    "fit": (
        "class model:\n    def fit(self, X, y, classes):\n        raise OSError('a\\nb')\n"
        "    def predict(self, X): ...\n    def correct(self, x, y): ...\n",
        "OSError: a b",
        "line 3",
        "while model was evaluated on own, seed 4",
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_what_code_of_ones_own_raises_is_one_line_and_status_3(capsys, name, vectors, tmp_path, monkeypatch):
    code, *clues = FAILING[name]
    (tmp_path / f"failing_{name}.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    arguments = ["run", f"failing_{name}:model", "--data", vectors, "--seeds", "4", "--json"]
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (failures.FAILED, "") and err.startswith("error: ") and err.count("\n") == 1
    for clue in clues:
        assert clue in err
    status, _, err = run(capsys, *arguments, "--traceback")
    assert status == failures.FAILED and "Traceback" in err and err.splitlines()[-1].startswith("error: ")


def test_help_says_what_is_held_out_by_default(capsys):
    said = " ".join(run(capsys, "run", "--help")[1].replace("│", " ").split())
    assert "(default: 10, at most a quarter)" in said


COMMANDS = "run,compare,card,check,systems,datasets,ledger,ledger write,ledger verify,ledger show".split(",")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_the_help_of_every_command_has_an_example(capsys, command):
    said = run(capsys, *command.split(), "--help")[1]
    assert any(line.strip(" │").startswith(f"ocrr {command}".strip() + " ") for line in said.splitlines()) or (
        command in ("systems", "datasets") and f"ocrr {command} --json" in said
    )
    assert len(said.split("Usage:")[1]) > 100


def test_the_version_is_printed(capsys):
    assert run(capsys, "--version")[:2] == (0, f"{__version__}\n")


def test_a_negative_number_of_entries_is_refused(capsys, tmp_path):
    status, out, err = run(capsys, "ledger", "show", tmp_path / "none.sqlite", "--last", "-1")
    assert (status, out) == (commands.WRONG, "") and "--last" in err


def test_an_interval_that_leaves_what_a_share_can_be_is_explained(tiny):
    found = evaluate("static_knn", tiny, seeds=range(2), progress=False)
    curve = found.curve.assign(novel_acc=np.where(found.curve["seed"] == 0, 1.0, 0.9))
    lines = list(curves.text_lines(dataclasses.replace(found, curve=curve)))
    assert "0.950  (0.315 to 1.585)" in lines[3] and "95 % t interval" in lines[-1] and "0 or 1" in lines[-1]
    one = evaluate("static_knn", tiny, seeds=[0], progress=False)
    assert "t interval" not in "\n".join(curves.text_lines(one))


def test_commands_that_evaluate_take_the_same_options_and_differ_in_seeds_only():
    declared = {name: inspect.signature(getattr(commands, name)).parameters for name in ("run", "compare", "card")}
    for field in dataclasses.fields(options.Options):
        kinds = {(found[field.name].annotation, found[field.name].default) for found in declared.values()}
        assert len(kinds) == (3 if field.name == "seeds" else 1)


def test_a_run_goes_on_from_the_seeds_that_are_kept(capsys, vectors, tmp_path, monkeypatch):
    arguments = ["run", "ncm", "rls", "--data", vectors, "--every", 9]
    assert run(capsys, *arguments, "--seeds", "0-3", "--out", tmp_path / "whole")[0] == 0
    assert run(capsys, *arguments, "--seeds", "0,2", "--out", tmp_path / "parts")[0] == 0
    ran = []
    whole = one_seed.run_seed
    monkeypatch.setattr(evaluating, "run_seed", lambda *given: [ran.append(given[2]), whole(*given)][1])
    status, out, err = run(capsys, *arguments, "--seeds", "0-3", "--out", tmp_path / "parts", "--resume")
    assert (status, err) == (0, "") and "ncm on own, oracle: 4 seeds" in out and ran == [1, 3, 1, 3]
    files = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert len(files) == 4
    for name in files:
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    status, _, err = run(capsys, *arguments, "--resume")
    assert status == commands.WRONG and "--resume says nothing without --out" in err


def test_what_was_done_before_a_system_failed_is_kept_and_printed(capsys, vectors, tmp_path, monkeypatch):
    fails = OWN.replace("import own_parts\nfrom own_parts import normed", "import numpy as np").replace(
        "def means(seed):", "def means(seed):\n    1 / (2 - seed)"
    )
    fails = fails.replace("own_parts.np", "np").replace("normed(self.sums)", "self.sums")
    (tmp_path / "fails_late.py").write_text(fails)
    monkeypatch.chdir(tmp_path)
    arguments = ["run", "fails_late:means", "--data", vectors, "--seeds", "0-3", "--out", "out", "--json"]
    status, out, err = run(capsys, *arguments, "--every", 9)
    (card,) = json.loads(out)
    assert status == failures.FAILED and "ZeroDivisionError" in err and card["cells"][0]["seeds"] == [0, 1]
    assert cards.read_card("out/means.own.npz.every_9.json") == card
    assert card["system"]["given"] == "fails_late:means"


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "ncm", "--seeds", "0", "--seeds", "1"),
        ("run", "ncm", "--seeds", "0", "-s", "0"),
        ("card", "ncm", "--out", "a.json", "-o", "b.json"),
        ("ledger", "show", "ledger.sqlite", "--last", "1", "--last", "2"),
    ],
)
def test_an_option_that_is_given_twice_is_refused(capsys, arguments):
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (commands.WRONG, "") and "is given 2 times" in err


@pytest.mark.parametrize("name", ["./mine:model", "mine.py:model", "folder/mine:model", "folder\\mine:model"])
def test_a_path_is_no_name_of_a_module(capsys, name):
    status, _, err = run(capsys, "run", name)
    assert status == commands.WRONG and "is a path, and a module has a name" in err and err.count("\n") == 1


def test_a_card_of_an_object_and_of_another_name_is_repeated_by_its_command(capsys, vectors, tmp_path, monkeypatch):
    (tmp_path / "named_bayes.py").write_text("from sklearn.naive_bayes import GaussianNB\n\nmodel = GaussianNB()\n")
    monkeypatch.chdir(tmp_path)
    arguments = ["named_bayes:model", "--name", "bayes", "--data", vectors.name, "--seeds", "0", "--every", 9]
    assert run(capsys, "card", *arguments, "--out", "first.json")[0] == 0
    (command,) = re.findall(r"- Repeat: `ocrr (.*)`", Path("first.md").read_text())
    assert "card named_bayes:model " in command and "--name bayes" in command
    assert run(capsys, *shlex.split(command))[0] == 0
    assert Path("again.json").read_bytes() == Path("first.json").read_bytes()


def test_an_encoder_of_ones_own_comes_from_a_module_too(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OCRR_CACHE_DIR", str(tmp_path / "cache"))
    code = "def encode(texts):\n    return [[text.count(c) + 0.1 for c in 'abcdefgh'] for text in texts]\n"
    (tmp_path / "counting_letters.py").write_text("print('imported')\n" + code)
    rows = "".join(f"{c * n} {'h' * (n % 3)},{c}\n" for c in "abcd" for n in range(1, 25))
    Path("letters.csv").write_text("text,label\n" + rows)
    arguments = ["run", "ncm", "--data", "letters.csv", "--seeds", "0", "--every", 2, "--json"]
    status, out, err = run(capsys, *arguments, "--encoder", "counting_letters:encode")
    assert status == 0, err
    (card,) = json.loads(out)
    assert card["cells"][0]["encoder"]["name"].startswith("counting_letters.encode-")
    status, _, err = run(capsys, *arguments, "--encoder", "counting_letters:decode")
    assert status == commands.WRONG and "has no 'decode'" in err


def test_a_terminal_without_bars_or_other_letters_gets_plain_ones(vectors):
    arguments = ["ncm", "--data", vectors, "--seeds", "0", "--every", "9", "--name", "≠é"]
    command = [sys.executable, "-m", "ocrrlib.cli.commands", "run", *arguments]
    told = {"capture_output": True, "cwd": ROOT, "env": os.environ | {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "1"}}
    printed, as_json = (subprocess.run(command + more, **told) for more in ([], ["--json"]))
    assert printed.returncode == 0, printed.stderr
    assert b"\\u2260\xe9 on own" in printed.stdout and b"  novel     _" in printed.stdout
    assert json.loads(as_json.stdout)[0]["system"]["name"] == "≠é"
