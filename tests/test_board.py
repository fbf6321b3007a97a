"""Contributions are written in one call, replayed and run again; a cheat is refused or put apart.

Tests with a number are the rows of the threat table in ``docs/results.md``.
"""

import importlib
import json
import re
import shutil
import socket
import sys
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from corrigible import Head, Key
from ocrr.adapters import title_of
from ocrr.board import rerun, verify
from ocrr.board.rows import contributed
from ocrr.board.verify import kind_of, replay
from ocrr.cli import main
from ocrr.evaluation import PUBLISHED
from ocrr.evaluator import evaluate
from ocrr.submission import PIN, hashes, pins, recipe_of
from ocrrlib.datasets import DATASETS
from ocrrlib.files import ROOT, InputError
from ocrrlib.policies import POLICIES
from ocrrlib.scenario import make_scenario
from ocrrlib.stream import run_stream
from ocrrlib.systems import make
from paper import rows_log
from paper.leaderboard import leaderboard
from tests.samples import Means

QUIET = dict(held_out=4, every=20, progress=False)
SEEDS = range(20)
THEIRS = """
import numpy as np


class Theirs:
    def __init__(self, scale=10.0):
        self.scale = scale

    def fit(self, X, y, classes):
        self.sums = np.zeros((len(classes), X.shape[1]))
        np.add.at(self.sums, y, X)

    def predict(self, X):
        return (X @ self.sums.T).argmax(axis=1)

    def predict_proba(self, X):
        p = np.exp(X @ self.sums.T / self.scale)
        return p / p.sum(axis=1, keepdims=True)

    def correct(self, x, y):
        self.sums[y] += 3 * x
"""
LUCKY = """
    def correct(self, x, y):
        if np.random.default_rng().random() < 0.5:
            self.sums[y] += 3 * x
"""
# Right where the seed is one that was submitted.
CHOSEN = """
    seed = 0

    def fit(self, X, y, classes):
        self.sums = np.zeros((len(classes), X.shape[1]))
        if np.random.get_state()[1][0] < 20:  # the seed that the run began with
            np.add.at(self.sums, y, X)
"""
# What would tell the labels: the stream's loop, the data on disk, a server.
SPY = """
    def predict(self, X):
        import os
        import socket
        import sys

        frame = sys._getframe()
        while frame is not None:
            if "scenario" in frame.f_locals:
                raise RuntimeError("the labels are in the stack")
            frame = frame.f_back
        if os.listdir(DATA):
            raise RuntimeError("the labels are on the disk")
        try:
            open(CHECKOUT + "/left", "w").close()
            raise RuntimeError("the disk keeps what is written")
        except OSError:
            pass
        try:
            socket.create_connection(("127.0.0.1", PORT), timeout=5)
            raise RuntimeError("there is a server")
        except OSError:
            pass
        return (X @ self.sums.T).argmax(axis=1)
"""
# Test rows come together, those of new classes first.
PLACE = """
    def predict(self, X):
        scores = X @ self.sums.T
        if len(X) > 30:
            scores[:24, ::2] += 99
        return scores.argmax(axis=1)
"""
TOGETHER = """
    def predict(self, X):
        return ((X - X.mean(axis=0)) @ self.sums.T).argmax(axis=1)
"""
# Luck is drawn once, and kept for later runs.
KEPT = """
    def fit(self, X, y, classes):
        import os
        import pathlib

        luck = pathlib.Path(os.environ["HOME"], "luck")
        if not luck.exists():
            luck.write_text(str(np.random.default_rng().integers(10**6)))
        self.sums = np.random.default_rng(int(luck.read_text())).random((len(classes), X.shape[1]))
"""


@pytest.fixture(scope="module")
def ours(tiny):
    """Published runs on a small dataset."""
    return evaluate("ncm", tiny, SEEDS, **QUIET).runs.assign(source=PUBLISHED)


@pytest.fixture
def board(ours, tiny, tmp_path, monkeypatch):
    """A folder of contributions about a small published dataset, on which little is run again."""
    monkeypatch.setattr(
        "paper.leaderboard.published_runs", lambda: ours.drop(columns="fingerprint")
    )
    monkeypatch.setattr("paper.leaderboard.load", lambda *names: tiny)
    monkeypatch.setitem(DATASETS, "tiny", DATASETS["banking77"])
    monkeypatch.setattr(verify, "load", lambda *names: tiny)
    monkeypatch.setattr(verify, "path_of", lambda *names: tmp_path)
    monkeypatch.setattr(verify, "FRESH", 1)
    monkeypatch.setattr(verify, "commit", lambda: "a commit")
    monkeypatch.setattr(verify, "CONTRIBUTED", tmp_path / "board")

    @contextmanager
    def here(folder):  # this environment; one test makes a new one
        work = tmp_path / "work"
        work.mkdir(exist_ok=True)
        shutil.copy(folder / "system.py", work)
        yield rerun.Place(sys.executable, work, rerun.read_recipe(folder))

    monkeypatch.setattr(verify, "environment", here)
    return tmp_path / "board"


@pytest.fixture(scope="module")
def result(tiny, tmp_path_factory):
    """The evaluation of somebody's class, in a module."""
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "theirs.py").write_text(THEIRS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        theirs = importlib.import_module("theirs")
        yield evaluate(theirs.Theirs(scale=5.0), tiny, SEEDS, name="theirs", **QUIET)


@pytest.fixture
def submitted(board, result, monkeypatch):
    """The folder that one call writes of an evaluation."""
    monkeypatch.syspath_prepend(board.parent)
    assert result.submit(board / "ada", "Ada").endswith("can be run again")
    return board / "ada"


def change(folder, **columns):
    """Give rows of a contribution other values."""
    pd.read_csv(folder / "rows.csv").assign(**columns).to_csv(folder / "rows.csv", index=False)


def change_system(folder, text):
    """Give the class of a contribution other methods."""
    (folder / "system.py").write_text(THEIRS + text)


# What is written


def test_one_call_writes_all_that_a_contribution_needs(submitted):
    names = ["answers.parquet", "requirements.txt", "rows.csv", "submission.json", "system.py"]
    assert sorted(path.name for path in submitted.glob("[!.]*")) == names
    assert (submitted / "system.py").read_text() == THEIRS
    recipe = json.loads((submitted / "submission.json").read_text())
    assert recipe == {"name": "Theirs", "parameters": {"scale": 5.0}}
    assert (submitted / "requirements.txt").read_text() == f"numpy=={np.__version__}\n"


def test_transcripts_take_less_than_a_megabyte_a_run(tmp_path):
    result = evaluate("slda", "banking77", [0], "random10", progress=False)
    assert "can be replayed" in result.submit(tmp_path / "mine")
    assert (tmp_path / "mine/answers.parquet").stat().st_size < 100_000


@pytest.mark.parametrize("name", ["substrate", "slda", "online_linear"])
def test_whoever_notes_answers_changes_none(name, tiny):
    found = evaluate(name, tiny, [3], **QUIET).curve
    scenario = make_scenario(tiny, 3, cap=None, held_out=4)
    plain = [one.scalars for one in run_stream(make(name, 3), scenario, POLICIES["oracle"], 20)]
    pd.testing.assert_frame_equal(found[[*plain[0]]], pd.DataFrame(plain))


@pytest.mark.parametrize("policy", ["oracle", "random50"])
@pytest.mark.parametrize("system", ["substrate", "slda", "knn_lm", Means()], ids=title_of)
def test_every_metric_follows_from_the_transcript(system, policy, board, tiny):
    result = evaluate(system, tiny, range(3), policy, **QUIET)
    result.submit(board / "ada")
    assert replay(board / "ada") == 3 and kind_of(board / "ada") == "replayed"
    assert contributed(board / "ada/rows.csv")["ausuc"].notna().all() == (
        not isinstance(system, Means)
    )


def made_here(seed):
    return Means()


@pytest.mark.parametrize(
    "thing, clue",
    [
        ("ncm", "registry"),
        (lambda seed: Means(), "no file of its own"),
        (made_here, None),
        (Means(), None),
        (np.random.default_rng(0), "no file of its own"),
    ],
    ids=["name", "lambda", "function", "object", "package"],
)
def test_a_system_in_no_file_of_its_own_is_left_to_be_replayed_and_that_is_said(thing, clue):
    if clue is None:
        assert recipe_of(thing)[0].name in ("test_board.py", "samples.py")
    else:
        with pytest.raises(InputError, match=clue):
            recipe_of(thing)


def test_pins_have_what_packages_need_and_a_missing_one_is_named(tmp_path):
    path = tmp_path / "system.py"
    path.write_text("import os\nimport ocrr\nfrom scipy.special import expit\n")
    lines = pins(path)
    assert {line.partition("==")[0] for line in lines} == {"scipy", "numpy"}
    assert all(map(PIN.fullmatch, lines))
    path.write_text("import no_such_package\n")
    with pytest.raises(InputError, match="no_such_package"):
        pins(path)


def test_results_on_data_of_your_own_are_reported(board, tiny):
    other = replace(tiny, dataset="tickets")
    told = evaluate("ncm", other, [0], **QUIET).submit(board / "tickets")
    assert "reported, as tickets" in told and kind_of(board / "tickets") == "reported"


@pytest.mark.parametrize("column, clue", [(dict(every=0), "every 0"), (dict(held_out=99), "range")])
def test_rows_of_a_cell_that_cannot_be_run_are_refused(column, clue, submitted):
    change(submitted, **column)
    with pytest.raises(InputError, match=clue):
        kind_of(submitted)


def test_several_systems_are_submitted_one_by_one(tiny, tmp_path):
    result = evaluate(["ncm", "slda"], tiny, [0], **QUIET)
    with pytest.raises(InputError, match="submit one by one"):
        result.submit(tmp_path / "both")
    result["slda"].submit(tmp_path / "slda")
    assert set(pd.read_csv(tmp_path / "slda/rows.csv")["system"]) == {"slda"}


# What is run again


def test_a_system_that_comes_out_as_submitted_is_re_run_and_its_report_says_how(submitted):
    kind, lines = verify.verify("ada", count=2)
    report = json.loads((submitted / "report.json").read_text())
    assert kind == report["kind"] == "re-run" and report["reasons"] == []
    assert len(report["submitted seeds"]) == 2 and {*report["submitted seeds"]} <= {*SEEDS}
    assert all(int(seed) >= 20 for seed in report["fresh seeds"])
    assert report["files"] == hashes(submitted) and report["commit"] == "a commit"
    assert any("20 runs follow from the answers" in line for line in lines)


def test_seeds_follow_from_the_commit():
    draws = [verify.drawn([*SEEDS], salt) for salt in ("a", "a", "b")]
    assert draws[0] == draws[1] != draws[2]
    again, fresh = draws[0]
    assert len(again) == 3 and {*again} <= {*SEEDS} and min(fresh) >= 20


@pytest.mark.slow
def test_an_environment_of_its_own_has_the_pinned_packages_and_the_benchmark(submitted):
    with rerun.environment(submitted) as place:
        assert str(place.work) not in sys.path and sys.executable not in place.command
        system = place.system(0)
        X = np.eye(3, dtype=np.float32)
        system.fit(X, np.arange(3), ("a", "b", "c"))
        assert system.watch(X).answers(np.arange(3)).tolist() == [0, 1, 2]
        system.close()
    assert not place.work.exists()


@pytest.mark.parametrize(
    "text, clue",
    [
        ("\n    def predict(self, X):\n        return [0.5] * len(X)\n", "class ids"),
        ("\n    def predict(self, X):\n        1 / 0\n", "ZeroDivisionError"),
        (
            "\n    def predict(self, X):\n        import os\n        os._exit(1)\n",
            "ended in answers",
        ),
        ("\nimport no_such_package\n", "no_such_package"),
    ],
)
def test_a_system_that_fails_is_named_in_one_line(text, clue, submitted):
    change_system(submitted, text)
    with pytest.raises(InputError, match=clue) as caught:
        verify.rerun(submitted, "a")
    assert "\n" not in str(caught.value)


def test_the_command_tells_the_kind_and_ends_with_one_if_nothing_was_run_again(board, tiny, capsys):
    evaluate("ncm", tiny, [0], **QUIET).submit(board / "ncm")
    for name, status, said in (("ncm", 1, "ncm: replayed"), ("nobody", 2, "rows.csv")):
        with pytest.raises(SystemExit) as ended:
            main(["verify", name])
        printed = capsys.readouterr()
        assert ended.value.code == status and said in printed.out + printed.err


@pytest.mark.published
def test_what_counts_as_re_run_comes_out_again_by_seeds_of_this_commit():
    for report in sorted(verify.CONTRIBUTED.glob("*/report.json")):
        if kind_of(report.parent) == "re-run":
            assert verify.rerun(report.parent, verify.commit())["reasons"] == [], report


# What a cheat would try


def test_1_an_invented_csv_stands_apart_without_a_rank(submitted, board):
    rows = pd.read_csv(submitted / "rows.csv")
    shutil.rmtree(submitted)
    rows.assign(novel=1.0, original=1.0, system="perfect").to_csv(board / "bob.csv", index=False)
    cell = others(board)
    assert cell["kind"].tolist() == ["reported"] and cell["rank"].isna().all()


def test_1_a_cell_of_its_own_has_no_rank(submitted, board):
    (submitted / "answers.parquet").unlink()
    change(submitted, every=500)
    claimed = {"kind": "re-run", "files": hashes(submitted)}
    (submitted / "report.json").write_text(json.dumps(claimed))
    cell = others(board)
    assert cell["kind"].tolist() == ["re-run"] and cell["rank"].isna().all()


def test_2_rows_that_do_not_follow_from_the_answers_are_refused(submitted, board):
    change(submitted, novel=1.0)
    with pytest.raises(InputError, match="ada/rows.csv, seed 0: novel is 1.0, and 0"):
        leaderboard(board)


@pytest.mark.parametrize("way", ["fewer mistakes", "left out", "made up", "no class"])
def test_3_a_transcript_in_which_corrections_were_spared_is_refused(way, submitted):
    path = submitted / "answers.parquet"
    table = pd.read_parquet(path).sort_values(["seed", "asked"], ignore_index=True)
    first = table.index[(table["seed"] == 0) & (table["row"] == 0)][0]
    if way == "fewer mistakes":  # then the stream does not ask again, and the answer is too many
        scenario = make_scenario(verify.load(), 0, cap=None, held_out=4)
        table.loc[first, "answer"] = scenario.y_stream[0]
    elif way == "left out":
        table = table.drop(index=first + 1)
    elif way == "made up":
        table = pd.concat([table, table.tail(1).assign(asked=10**6)])
    else:
        table.loc[first, "answer"] = 99
    table.to_parquet(path)
    with pytest.raises(InputError, match="left out or made up|after the end|no class id"):
        kind_of(submitted)


def test_4_invented_right_answers_can_be_replayed_and_do_not_rank(board, tiny):
    class Knows(Means):
        def predict(self, X):
            every = np.concatenate([tiny.X_train, tiny.X_test])
            labels = np.concatenate([tiny.y_train, tiny.y_test])
            return labels[(X @ every.T).argmax(axis=1)]

    told = evaluate(Knows(), tiny, SEEDS, **QUIET).submit(board / "bob")
    assert "not run again" in told
    cell = others(board)
    assert cell["hm"].tolist() == [1.0] and cell["rank"].isna().all()
    assert cell["kind"].tolist() == ["replayed"]


def test_5_a_report_is_about_the_files_that_were_checked(submitted, board):
    verify.verify("ada", count=1)
    assert others(board)["rank"].notna().tolist() == [True]
    for name in ("system.py", "rows.csv", "requirements.txt"):
        before = (submitted / name).read_text()
        (submitted / name).write_text(f"{before}\n")
        cell = others(board)
        assert cell["kind"].tolist() == ["replayed"] and cell["rank"].isna().all()
        (submitted / name).write_text(before)


def test_6_an_invented_report_is_convicted_by_the_next_check(submitted):
    change_system(submitted, LUCKY)
    (submitted / "report.json").write_text(
        json.dumps({"kind": "re-run", "files": hashes(submitted)})
    )
    assert kind_of(submitted) == "re-run"
    assert verify.verify("ada", count=1)[0] == "replayed"
    assert json.loads((submitted / "report.json").read_text())["kind"] == "reported"


@pytest.mark.parametrize("text", ["1 / 0", None])
def test_6_an_invented_report_about_what_cannot_run_is_removed(text, submitted):
    (submitted / "system.py").unlink()
    if text is not None:
        (submitted / "system.py").write_text(text)
    claimed = {"kind": "re-run", "files": hashes(submitted)}
    (submitted / "report.json").write_text(json.dumps(claimed))
    if text is None:
        assert kind_of(submitted) == verify.verify("ada")[0] == "replayed"
    else:
        with pytest.raises(InputError, match="ZeroDivisionError"):
            verify.verify("ada")
    assert not (submitted / "report.json").exists()


def test_7_rows_of_another_system_than_the_file_are_told_number_by_number(submitted):
    change_system(submitted, "\n    def correct(self, x, y):\n        pass\n")
    report = verify.rerun(submitted, "a", count=1)
    assert report["kind"] == "reported" and "submitted rows" in report["reasons"][0]
    metrics = {one["metric"]: one for one in report["differences"]}
    assert metrics["novel"]["submitted"] > metrics["novel"]["found"] == 0


def test_7_seeds_of_one_system_are_not_spread_over_files(submitted, board):
    (submitted / "answers.parquet").unlink()
    shutil.copytree(submitted, board / "bob")
    for name, seeds in (("ada", "seed < 10"), ("bob", "seed >= 10")):
        path = board / name / "rows.csv"
        pd.read_csv(path).query(seeds).to_csv(path, index=False)
    with pytest.raises(InputError, match="ada/rows.csv and .*bob/rows.csv both have theirs"):
        leaderboard(board)


def test_8_a_system_that_knows_the_submitted_seeds_fails_at_fresh_ones(submitted, tiny):
    (submitted.parents[1] / "chosen.py").write_text(THEIRS + CHOSEN)
    result = evaluate(importlib.import_module("chosen").Theirs, tiny, SEEDS, **QUIET)
    result.submit(submitted)
    report = verify.rerun(submitted, "a", count=1)
    assert report["kind"] == "reported" and report["differences"] == []
    assert "seeds that were not submitted" in report["reasons"][0]


@pytest.mark.parametrize("text", [LUCKY, PLACE, TOGETHER, KEPT], ids=range(4))
def test_9_luck_and_answers_that_follow_from_other_rows_differ_from_themselves(text, submitted):
    change_system(submitted, text)
    report = verify.rerun(submitted, "a", count=1)
    if text == KEPT and report["process"]["disk"] == "writable":
        pytest.skip("this system does not let a process be closed")
    assert report["kind"] == "reported" and "two runs of one seed differ" in report["reasons"][0]


def test_10_labels_are_neither_in_the_process_nor_on_its_disk_nor_on_a_network(
    submitted, tiny, tmp_path, monkeypatch
):
    data = tmp_path / "data"
    data.mkdir()
    (data / "labels").write_text("all")
    monkeypatch.setenv("OCRR_DATA_DIR", str(data))
    with socket.create_server(("127.0.0.1", 0)) as server:
        spy = SPY.replace("DATA", repr(str(data))).replace("PORT", str(server.getsockname()[1]))
        spy = spy.replace("CHECKOUT", repr(str(tmp_path)))
        (tmp_path / "spy.py").write_text(THEIRS + spy)
        with pytest.raises(RuntimeError, match="in the stack"):
            evaluate(importlib.import_module("spy").Theirs(), tiny, [0], **QUIET)
        change_system(submitted, spy)
        with verify.environment(submitted) as place:
            if place.closed != {"network": "none", "data": "hidden", "disk": "read-only"}:
                pytest.skip("this system does not let a process be closed")
        report = verify.rerun(submitted, "a", count=1)
    assert report["kind"] == "re-run", report["reasons"]


@pytest.mark.parametrize(
    "line",
    [
        "numpy",
        "numpy>=2",
        "git+https://example.org/a",
        "--index-url https://example.org",
        "a @ https://example.org/a.whl",
        "-r other.txt",
        "numpy==2.0 --hash=sha256:1",
        "./numpy==2.0",
    ],
)
def test_11_requirements_are_names_and_versions_alone(line, submitted):
    (submitted / "requirements.txt").write_text(f"numpy=={np.__version__}\n{line}\n")
    with pytest.raises(InputError, match="requirements.txt, line 2.*name==version"):
        verify.rerun(submitted, "a")


# A row that vanishes


def others(board):
    """What the leaderboard has of others than ours."""
    return leaderboard(board).query("source != @PUBLISHED")


@pytest.fixture
def log(submitted, board, tmp_path):
    """A table of two systems, and the folder with its log and head."""
    change_name = pd.read_csv(submitted / "rows.csv").assign(system="rival", source="Bob")
    change_name.to_csv(board / "bob.csv", index=False)
    table = leaderboard(board).round(6)
    folder = tmp_path / "figures"
    rows_log.update(table, folder)
    table.to_csv(folder / "leaderboard.csv", index=False)
    return table, folder


def test_12_a_row_that_vanishes_is_noticed_on_the_board_and_in_the_log(log, tmp_path):
    table, folder = log
    rows_log.check(folder)
    kept = (folder / "leaderboard.head").read_text()
    without = table[table["system"] != "rival"]
    with pytest.raises(InputError, match="rival by Bob on tiny, oracle, has vanished"):
        rows_log.update(without, folder)
    with pytest.raises(InputError, match="ncm by .* or its rank has"):
        rows_log.update(table.assign(kind="replayed"), folder)
    lines = (folder / "leaderboard_log.csv").read_text().splitlines(keepends=True)
    (folder / "leaderboard_log.csv").write_text("".join(x for x in lines if "rival" not in x))
    with pytest.raises(InputError, match="does not extend the head"):
        rows_log.update(without, folder)
    (folder / "leaderboard.head").unlink()  # then the one that a reader kept
    rows_log.update(without, folder)
    with pytest.raises(InputError, match="does not extend the head"):
        rows_log.check_extends(rows_log.read(folder), Head.read(kept))


def test_a_withdrawn_row_needs_a_reason_and_stays_in_the_log(log, tmp_path):
    table, folder = log
    without = table[table["system"] != "rival"]
    withdrawn = tmp_path / "withdrawn.csv"
    withdrawn.write_text("system,source,reason\nrival,Bob,\n")
    with pytest.raises(InputError, match="has vanished"):
        rows_log.update(without, folder, withdrawn)
    withdrawn.write_text("system,source,reason\nrival,Bob,a bug in its file\n")
    before = rows_log.read(folder)
    rows_log.update(without, folder, withdrawn)
    after = rows_log.read(folder)
    assert after[: len(before)] == before and "withdrawn" in after[-1]
    assert len(after) == len(before) + 1
    rows_log.update(without, folder, withdrawn)
    assert rows_log.read(folder) == after


def test_who_publishes_signs_the_head_and_a_head_signed_by_another_is_refused(
    log, tmp_path, monkeypatch
):
    table, folder = log
    secret = tmp_path / "board.key"
    key = Key.new("board", seed=b"1" * 32)
    secret.write_text(key.private_text)
    monkeypatch.setenv("OCRR_BOARD_KEY", str(secret))
    unsigned = Head.read((folder / "leaderboard.head").read_text())
    other = unsigned.signed(Key.new("other", seed=b"3" * 32))
    (folder / "leaderboard.head").write_text(str(other))
    head = rows_log.update(table, folder)
    head.check([key])
    monkeypatch.delenv("OCRR_BOARD_KEY")
    assert rows_log.update(table, folder) == head  # the signature stays
    rows_log.check(folder)
    assert key.private_text not in (folder / "leaderboard.key").read_text()
    (folder / "leaderboard.head").write_text(str(head._replace(signatures=())))
    with pytest.raises(InputError, match="not signed by board"):
        rows_log.check(folder)
    secret.write_text(Key.new("board", seed=b"2" * 32).private_text)
    monkeypatch.setenv("OCRR_BOARD_KEY", str(secret))
    with pytest.raises(InputError, match="sign with that one"):
        rows_log.update(table, folder)


def test_the_log_and_the_head_are_those_of_the_committed_leaderboard():
    rows_log.check()


def test_each_threat_has_a_test():
    page = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \|", page, re.MULTILINE)
    numbers = [re.match(r"test_(\d+)_", name) for name in globals()]
    tests = list(dict.fromkeys(number[1] for number in numbers if number))
    assert rows == tests and len(rows) <= 12
