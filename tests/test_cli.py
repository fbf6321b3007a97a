"""The command line: each command once, errors with the exit status that stands for them."""

import io
import os
import pathlib
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import pandas as pd
import pytest

import ocrrlib
from ocrr.cli import main
from ocrr.evaluator import evaluate
from ocrrlib.datasets import DATASETS
from ocrrlib.files import ROOT
from ocrrlib.systems import SYSTEMS

MINE = """
import numpy as np
from sklearn.naive_bayes import BernoulliNB as Mine

def letters(texts):
    return np.array([[text.count(letter) + 1 for letter in "abcdefghi"] for text in texts])
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with a module, without cached seeds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OCRR_CACHE_DIR", "cache")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (tmp_path / "mine.py").write_text(MINE)


def ocrr(*arguments, encoding="utf-8"):
    """Exit status, stdout and stderr of a command."""
    out = io.TextIOWrapper(io.BytesIO(), encoding)
    with redirect_stdout(out), redirect_stderr(io.StringIO()) as err:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
    out.flush()
    return ended.value.code, out.buffer.getvalue().decode(), err.getvalue()


def test_run_prints_a_summary_of_each_system_and_writes_rows_of_the_leaderboard(vectors):
    options = "--seeds 0-1 -p random50 --held-out 2 --every 5 --out rows --source A".split()
    status, out, err = ocrr("run", "ncm", "mine:Mine", "--data", vectors, *options)
    assert (status, err) == (0, "") and "BernoulliNB on vectors" in out
    wanted = evaluate("ncm", vectors, "0-1", "random50", held_out=2, every=5, progress=False)
    assert (
        f"ncm on vectors, random50, 2 seeds\n{wanted.summary.round(3).to_string(index=False)}\n"
        in out
    )
    row = pd.read_csv("rows/BernoulliNB.csv").to_dict("records")[0]
    assert (row["system"], row["source"]) == ("BernoulliNB", "A")
    assert (row["held_out"], row["every"]) == (2, 5)


def test_run_tells_the_numbers_of_classes_and_test_rows(vectors):
    out = ocrr("run", "ncm", "--data", vectors, "--held-out", 2, "--seeds", "0-1")[1]
    assert "2 of 6 classes held out; test rows: 16 novel, 32 original" in out
    assert all(f" {metric} " in out for metric in ("hm", "starts at", "lost"))


def test_runs_of_your_own_system_are_kept_in_the_folder_of_rows_by_their_version(vectors):
    def run(*options):
        command = ("run", "mine:Mine", "--data", vectors, "--held-out", 2, "--out", "rows")
        status, out, err = ocrr(*command, *options)
        assert status == 0, err
        return out, err

    first, said = run("--seeds", "0-1")
    assert said == ""
    again, said = run("--seeds", "0-1")
    assert again == first
    assert said.startswith("2 of 2 runs are taken from rows: ") and said.count("\n") == 1
    assert run("--seeds", "0-2")[1].startswith("2 of 3 runs ")
    assert run("--seeds", "0-1", "--system-version", "2")[1] == ""


@pytest.mark.parametrize(
    "text",
    ["raise ValueError", "import no_such_package", "import sys; sys.exit(0)", "open('/nowhere')"],
)
def test_an_error_while_your_module_is_imported_is_one_of_your_code(text):
    pathlib.Path("failing.py").write_text(text)
    status, _, err = ocrr("run", "failing:Mine")
    assert status == 3 and "Traceback" in err
    sys.modules.pop("failing", None)


def test_rows_of_other_runs_stay_in_the_file_of_a_system(vectors):
    def run(*options):
        command = ("run", "ncm", "--data", vectors, "--held-out", 2, "--out", "rows", *options)
        status, _, err = ocrr(*command)
        assert status == 0, err
        return pd.read_csv("rows/ncm.csv")

    first = run("--seeds", "0-1")
    both = run("--seeds", "0-1", "-p", "random50")
    assert both["policy"].tolist() == 2 * ["oracle"] + 2 * ["random50"]
    pd.testing.assert_frame_equal(both.head(2), first)
    assert len(run("--seeds", "1-2")) == 5
    assert not pathlib.Path("rows/runs").exists()  # names of the registry have a cache
    pathlib.Path("rows/ncm.csv").write_text("something else\n")
    status, _, err = ocrr("run", "ncm", "--data", vectors, "--seeds", "0", "--out", "rows")
    assert status == 2 and "rows/ncm.csv has no rows" in err


def test_your_texts_columns_and_encoder():
    table = pd.DataFrame(
        {"body": [f"{word} {n}" for word in ("abc", "def", "ghi") for n in range(8)]}
    )
    table.assign(queue=table["body"].str[:3], part=["train", "test"] * 12).to_csv(
        "tickets.csv", index=False
    )
    columns = ("--text", "body", "--label", "queue", "--split", "part", "--encoder", "mine:letters")
    status, out, _ = ocrr(
        "run", "ncm", "--data", "tickets.csv", *columns, "--seeds", "0", "--every", "2"
    )
    assert status == 0 and "ncm on tickets" in out


def test_rows_are_chosen_by_a_condition():
    rows = [
        f'{{"text": "{word} {n}", "label": "{word}", "answer": "{answer}"}}'
        for word in ("abc", "def", "ghi")
        for n in range(8)
        for answer in ("accept", "reject")
    ]
    pathlib.Path("a.jsonl").write_text("\n".join(rows))
    command = ("run", "ncm", "--data", "a.jsonl", "--encoder", "mine:letters", "--seeds", "0")
    status, _, err = ocrr(*command)
    assert status == 2 and "--where answer=accept" in err
    status, out, _ = ocrr(*command, "--where", "answer=accept")
    assert status == 0 and "ncm on a" in out


def test_systems_and_datasets_are_listed():
    assert [line.split()[0] for line in ocrr("systems")[1].splitlines()] == list(SYSTEMS)
    assert [line.split()[0] for line in ocrr("datasets")[1].splitlines()] == list(DATASETS)


@pytest.mark.parametrize("arguments", [[], ["run"]])
def test_help_imports_nothing_slow(arguments):
    code = "import sys; from ocrr.cli import main\n"
    code += f"try: main([*{arguments}, '--help'])\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "Usage" in done.stdout and not {"numpy", "pandas", "torch", "joblib", "rich"} & set(
        done.stdout.split()
    )


def test_the_version_is_told():
    assert ocrr("--version") == (0, f"ocrr {ocrrlib.__version__}\n", "")


RUN = ["run", "--data", "a.csv", "--encoder", "mine:letters"]
BAD = [
    (["run", "ncm", "--data", "none.csv"], "none.csv"),
    (["run", "mine:model"], "mine:model"),
    ([*RUN, "ncm", "--policy", "orcale"], "policy"),
    ([*RUN, "ncm", "--seeds", "x"], "seeds"),
    ([*RUN, "ncmm"], "system"),
    ([*RUN, "lora"], "sentences"),
    ([*RUN, "ncm", "--out", "a.csv"], "cannot write into a.csv"),
    ([*RUN, "ncm", "--out", "rows", "--source", "<b>"], "source"),
    ([*RUN, "ncm", "--dataset", "clinc150"], "two datasets"),
    ([*RUN, "ncm", "slda", "--name", "mine"], "'mine' is for one system"),
    ([*RUN, "mine:Mine", "other:Mine", "--out", "rows"], "would have one name"),
    ([*RUN, "ncm", "ncm", "--out", "rows"], "would have one name"),
    ([*RUN, "ncm", "--name", "../mine", "--out", "rows"], "slashes"),
    (["run", "ncm", "--text", "body"], "--text is about a file"),
    (["run", "ncm", "--label", "label"], "--label is about a file"),
    (["run", "ncm", "--where", "a=b"], "--where is about a file"),
    (["run", "ncm", "--min-rows", "2"], "--min-rows is about a file"),
    (["compare", "ncm", "slda", "--no-quotes"], "--no-quotes is about a file"),
]


@pytest.mark.parametrize("arguments, clue", BAD, ids=[" ".join(row[0]) for row in BAD])
def test_what_cannot_be_used_is_refused_in_one_line_before_texts_are_read(arguments, clue):
    shutil.copy("mine.py", "other.py")
    pathlib.Path("a.csv").write_text("not read")
    status, out, err = ocrr(*arguments)
    assert (status, out) == (2, "") and err.startswith("error: ")
    assert clue in err and err.count("\n") == 1
    assert not pathlib.Path("rows").exists()


def test_the_module_runs_as_a_command_in_several_processes(vectors):
    options = ["--data", str(vectors), "--seeds", "0-1", "-j", "2"]
    command = [sys.executable, "-m", "ocrr", "run", "mine:Mine", *options]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0 and "BernoulliNB on vectors" in done.stdout, done.stderr


def test_who_stops_a_run_is_told_that_it_can_go_on(monkeypatch, capsys):
    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("ocrr.evaluator.evaluate", stopped)
    with pytest.raises(SystemExit) as ended:
        main(["run", "ncm", "--seeds", "0"])
    assert ended.value.code == 130
    assert capsys.readouterr().err.splitlines() == [
        "stopped: finished runs are kept, of your own systems with --out; "
        "the same command goes on from there"
    ]
