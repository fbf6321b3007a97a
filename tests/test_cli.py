"""The command line: each command once, errors with the exit status that stands for them."""

import io
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, redirect_stderr, redirect_stdout

import numpy as np
import pandas as pd
import pytest

import ocrrlib
from corrigible import CorrectionMemory
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


@pytest.fixture
def letters(monkeypatch):
    """New memories encode texts by their letters."""
    names = {}
    exec(MINE, names)
    monkeypatch.setattr("corrigible.ledger_encoder.load_encoder", lambda name: names["letters"])


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
    "systems, options, clue",
    [
        (("ncm", "slda"), ("--name", "mine"), "'mine' is for one system"),
        (("mine:Mine", "other:Mine"), ("--out", "rows"), "would have one name"),
        (("ncm", "ncm"), ("--out", "rows"), "would have one name"),
        (("ncm",), ("--name", "../mine", "--out", "rows"), "slashes"),
    ],
)
def test_results_whose_files_would_have_one_name_are_refused(systems, options, clue, vectors):
    shutil.copy("mine.py", "other.py")
    status, out, err = ocrr("run", *systems, "--data", vectors, *options)
    assert (status, out) == (2, "") and clue in err and err.count("\n") == 1
    assert not pathlib.Path("rows").exists() and not list(pathlib.Path("..").glob("mine.csv"))


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


def test_systems_and_datasets_are_listed():
    assert [line.split()[0] for line in ocrr("systems")[1].splitlines()] == list(SYSTEMS)
    assert [line.split()[0] for line in ocrr("datasets")[1].splitlines()] == list(DATASETS)


def test_help_imports_nothing_slow():
    code = "import sys; from ocrr.cli import main\n"
    code += "try: main(['--help'])\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "Usage" in done.stdout and not {"numpy", "pandas", "torch", "joblib", "rich"} & set(
        done.stdout.split()
    )


def test_the_version_is_told():
    assert ocrr("--version") == (0, f"ocrr {ocrrlib.__version__}\n", "")


@pytest.mark.parametrize(
    "arguments, clue",
    [
        (("run", "ncm", "--data", "none.csv"), "none.csv"),
        (("run", "mine:model"), "mine:model"),
        (("memory", "ask", "none.sqlite", "text"), "none.sqlite"),
        (("memory", "witness", "mine.py", "--state", "s", "--key", "mine.py"), "Ed25519 key"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_status_2(arguments, clue):
    status, out, err = ocrr(*arguments)
    assert (status, out) == (2, "") and err.startswith("error: ") and err.count("\n") == 1
    assert pd.Series([err]).str.contains(clue).all()


def said(*arguments, status=0):
    """What a command of ``corrigible`` prints, kept in a file of its name."""
    found, out, err = ocrr("memory", *arguments)
    assert found == status, err
    pathlib.Path(arguments[0]).write_text(out)
    return out


def test_a_memory_learns_answers_forgets_and_proves_in_the_shell(letters):
    pd.DataFrame({"text": ["abc", "def", "ghi"], "label": ["one", "two", "three"]}).to_csv(
        "rows.csv", index=False
    )
    said("new", "a.sqlite")
    assert "3 entries added" in said("add", "a.sqlite", "rows.csv", "--by", "ana")
    assert "entry 3" in said("correct", "a.sqlite", "aa", "four")
    answers = said("ask", "a.sqlite", "aaa", "fed").splitlines()
    assert [answer.split()[0] for answer in answers if answer[0] != " "] == ["four", "two"]
    said("head", "a.sqlite", "--key", "me.key")
    said("prove", "a.sqlite", "--entry", 1, "--head", "head")
    assert (
        json.loads(said("verify", "--proof", "prove", "--head", "head", "--key", "me.key.pub"))[
            "text"
        ]
        == "def"
    )
    said("forget", "a.sqlite", 1)
    said("export", "a.sqlite", "out.csv")
    assert pd.read_csv("out.csv")["text"].tolist() == ["abc", "ghi", "aa"]
    shutil.copy("head", "state")
    said("prove", "a.sqlite", "--head", "head", "--key", "me.key")
    assert "— her " in said(
        "witness", "prove", "--state", "state", "--key", "her.key", "--trust", "me.key.pub"
    )
    assert "as it was written; 4 entries" in said(
        "verify", "a.sqlite", "--head", "head", "--key", "me.key.pub"
    )
    with closing(sqlite3.connect("a.sqlite")) as base, base:
        base.execute("UPDATE entries SET label = 'five' WHERE place = 2")
    assert said("verify", "a.sqlite", status=1) == "a.sqlite: entry 2: changed\n"


def test_a_memory_leaves_out_empty_rows_of_texts_or_vectors_if_told(letters):
    texts = ["abc", " ", "def", "ghi"]
    labels = ["one", "two", "", "three"]
    pd.DataFrame({"text": texts, "label": labels}).to_csv("rows.csv", index=False)
    np.savez("rows.npz", X=np.eye(4), y=labels)
    CorrectionMemory.open("vectors.sqlite").close()
    said("new", "texts.sqlite")
    for memory, data, n in (("texts.sqlite", "rows.csv", 2), ("vectors.sqlite", "rows.npz", 3)):
        status, out, err = ocrr("memory", "add", memory, data)
        assert (status, out) == (2, "") and "in row 2: fill it in, or --drop-empty" in err
        assert f"{n} entries added" in said("add", memory, data, "--drop-empty")


def test_entries_are_replaced_undone_and_renamed_in_the_shell(letters):
    said("new", "a.sqlite")
    for text, label in (("aa", "one"), ("dd", "two"), ("gg", "three")):
        said("correct", "a.sqlite", text, label, "--by", "ana")
    said("head", "a.sqlite")
    said("correct", "a.sqlite", "aa", "four", "--replaces", 0, "--about", '{"ticket": 7}')
    said("rename", "a.sqlite", "two", "zwei")
    said("merge", "a.sqlite", "zwei", "four", "--into", "all")
    assert said("ask", "a.sqlite", "aa").startswith("all ")
    assert said("ask", "a.sqlite", "aa", "--at", "head").startswith("one ")
    said("undo", "a.sqlite", 5)
    said("retire", "a.sqlite", "three")
    listed = said("entries", "a.sqlite")
    assert [line.split(", ")[2] for line in listed.splitlines()] == [
        "zwei: dd",
        'four: aa {"ticket": 7}',
    ]
    assert said("entries", "a.sqlite", "--by", "ana", "--like", "D").count("entry") == 1
    assert said("history", "a.sqlite", 0).splitlines()[-1] == "entry 0 does not count"
    for arguments in (
        ["retire", "a.sqlite", "three"],
        ["correct", "a.sqlite", "a", "b", "--about", "{"],
    ):
        status, out, err = ocrr("memory", *arguments)
        assert (status, out) == (2, "") and err.count("\n") == 1


def test_answers_are_kept_back_reviewed_and_previewed_in_the_shell(letters):
    said("new", "a.sqlite")
    for text, label in (("aa", "one"), ("dd", "two"), ("aa", "three")):
        said("correct", "a.sqlite", text, label)
    assert "sure enough that 0.9" in said("ask", "a.sqlite", "aa", "--at-least", "0.9")
    pathlib.Path("queue").write_text("aa\n\ndd\naa\n")
    assert sorted(line[-2:] for line in said("review", "a.sqlite", "queue").splitlines()) == [
        "aa",
        "dd",
    ]
    assert "entry 0, one: aa" in said("suspects", "a.sqlite")
    shown = said("preview", "a.sqlite", "dd", "one", "--queries", "queue")
    assert "line 1, two becomes one: dd" in shown and "1 texts change" in shown
    assert said("ask", "a.sqlite", "dd").startswith("two ")
    pathlib.Path("empty").write_text("\n")
    status, _, err = ocrr("memory", "review", "a.sqlite", "empty")
    assert status == 2 and "empty has no text" in err


def test_a_proof_in_the_place_of_a_memory_is_refused():
    with CorrectionMemory.open("a.sqlite") as memory:
        memory.correct([1.0, 2.0], "a")
        said("head", "a.sqlite", "--key", "me.key")
        proof = memory.prove_entry(0, head=pathlib.Path("head").read_text())
    assert "as it was written" in said("verify", "a.sqlite", "--head", "head")
    for start in ("", "\ufeff", "\n  "):
        pathlib.Path("a.sqlite").write_text(start + proof)
        said("verify", "--proof", "a.sqlite", "--head", "head", "--key", "me.key.pub")
        for arguments in (["--head", "head", "--key", "me.key.pub"], []):
            status, out, err = ocrr("memory", "verify", "a.sqlite", *arguments)
            assert (status, out) == (2, "")
            assert "--proof" in err and err.count("\n") == 1
    for arguments in ([], ["a.sqlite", "--proof", "a.sqlite"]):
        status, out, err = ocrr("memory", "verify", *arguments)
        assert (status, out) == (2, "")
        assert "--proof" in err and err.count("\n") == 1


def test_a_memory_in_the_place_of_a_proof_is_refused():
    with CorrectionMemory.open("a.sqlite") as memory:
        memory.correct([1.0, 2.0], "a")
    status, out, err = ocrr("memory", "verify", "--proof", "a.sqlite")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1


def test_a_public_key_is_never_overwritten_and_made_again_if_it_is_missing():
    with CorrectionMemory.open("a.sqlite") as memory:
        memory.correct([1.0, 2.0], "a")
    public = pathlib.Path("desk.pub")
    public.write_text("the only one\n")
    status, out, err = ocrr("memory", "head", "a.sqlite", "--key", "desk")
    assert (status, out) == (2, "")
    assert "desk.pub" in err and public.read_text() == "the only one\n"
    assert not pathlib.Path("desk").exists()
    public.unlink()
    said("head", "a.sqlite", "--key", "desk")
    made = public.read_text()
    public.unlink()  # as if the command had been killed before it was made
    said("head", "a.sqlite", "--key", "desk")
    assert public.read_text() == made


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp437"])
def test_heads_and_proofs_are_in_utf_8_whatever_the_terminal(encoding):
    with CorrectionMemory.open("größe.sqlite") as memory:
        memory.correct([1.0, 2.0], "a")
    for arguments in (["head"], ["prove", "--entry", 0]):
        status, out, err = ocrr(
            "memory", *arguments, "größe.sqlite", "--key", "desk", encoding=encoding
        )
        assert status == 0, err
        assert "größe" in out and "\n— desk " in out


@pytest.mark.parametrize("option", ["--head", "--key", "--proof"])
def test_a_file_too_large_for_a_head_is_refused(option):
    with CorrectionMemory.open("a.sqlite") as memory:
        memory.correct([1.0, 2.0], "a")
    with open("large", "wb") as file:
        file.truncate(2**40)
    memory = [] if option == "--proof" else ["a.sqlite"]
    status, out, err = ocrr("memory", "verify", *memory, option, "large")
    assert (status, out) == (2, "")
    assert "large" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, clue",
    [
        (("verify", "a.sqlite", "--head", "head", "--head", "junk"), "no head"),
        (("verify", "a.sqlite", "--key", "me.pub", "--key", "junk"), "no Ed25519 key"),
        (("verify", "--proof", "junk"), "the proof shows nothing, it is not a proof"),
        (("head", "a.sqlite", "--key", "junk"), "no Ed25519 key"),
        (("prove", "a.sqlite", "--head", "junk"), "no head"),
        (("witness", "junk", "--state", "state", "--key", "her"), "no request"),
    ],
)
def test_a_file_that_is_none_of_what_it_is_given_for_is_named(arguments, clue):
    with CorrectionMemory.open("a.sqlite") as memory:
        memory.correct([1.0, 2.0], "a")
    said("head", "a.sqlite", "--key", "me")
    pathlib.Path("junk").write_text("text,label\na,b\n")
    status, out, err = ocrr("memory", *arguments)
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].startswith(f"error: junk: {clue}")


def test_the_head_that_a_key_did_not_sign_and_a_key_that_cannot_sign_are_named():
    with CorrectionMemory.open("a.sqlite") as memory:
        memory.correct([1.0, 2.0], "a")
        pathlib.Path("unsigned").write_text(str(memory.head()))
    said("head", "a.sqlite", "--key", "me")
    heads = ("--head", "head", "--head", "unsigned")
    _, _, err = ocrr("memory", "verify", "a.sqlite", *heads, "--key", "me.pub")
    assert err.startswith("error: unsigned: ") and "not signed by me" in err
    _, _, err = ocrr("memory", "head", "a.sqlite", "--key", "me.pub")
    assert err.startswith("error: me.pub: ")


@pytest.mark.parametrize("option", ["--label", "--by", "--like"])
def test_entries_that_nobody_finds_are_told_on_stderr(option):
    with CorrectionMemory.open("a.sqlite") as memory:
        memory.correct([1.0, 2.0], "a", by="Zoë")
    status, out, err = ocrr("memory", "entries", "a.sqlite", option, "zoë")
    assert (status, out) == (0, "") and "no such entry" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "sought, clue",
    [
        (("--author", "zoë"), "no entry by 'zoë' (names are compared as written)"),
        (("--like", "quince"), "no entry with 'quince'"),
    ],
)
def test_an_erasure_of_nothing_says_what_it_looked_for(sought, clue):
    with CorrectionMemory.open("a.sqlite") as memory:
        memory.correct([1.0, 2.0], "a", by="Zoë")
    status, out, err = ocrr("memory", "forget", "a.sqlite", *sought)
    assert (status, out) == (0, "") and clue in err and err.count("\n") == 1


STRANGE = ["=1+1", "'=1", " @a", "-1", "a\x1b[2Jb", r"\x1b", '\'tis, "so"', "two\r\nlines", "c\rd"]


@pytest.mark.parametrize("ending", [".csv", ".JSONL", ".parquet"])
def test_an_export_can_be_added_to_another_memory_after_an_entry_was_forgotten(ending, letters):
    with CorrectionMemory.open("a.sqlite", "all-MiniLM-L6-v2") as memory:
        memory.learn(["a secret", *STRANGE], ["mine", *STRANGE])
        memory.forget(0)
        kept = memory.table()[["label", "text"]][1:-1]
    said("export", "a.sqlite", f"out{ending}")
    said("new", "b.sqlite")
    said("add", "b.sqlite", f"out{ending}")
    with CorrectionMemory.open("b.sqlite") as memory:
        added = memory.table()[["label", "text"]]
    assert added.to_numpy().tolist() == kept.to_numpy().tolist()


def test_texts_of_strangers_do_not_control_the_terminal(letters):
    said("new", "a.sqlite")
    said("correct", "a.sqlite", "a\x1b[2J\nb\u202e", "c\x07\x9bd")
    out = said("ask", "a.sqlite", "a")
    assert out.splitlines()[0].startswith(r"c\x07\x9bd")
    assert out.splitlines()[1].endswith(r"c\x07\x9bd: a\x1b[2J\x0ab\u202e")
    assert out.count("\n") == 2
    status, _, err = ocrr("memory", "ask", "no\x1b[2J.sqlite", "a")
    assert status == 2
    assert "\x1b" not in err


@pytest.mark.parametrize("encoder", ["tfidf-svd", "all-MiniLM-L6-v3", "."])
def test_an_encoder_that_cannot_be_loaded_is_refused_before_a_memory_is_made(encoder, no_network):
    pytest.importorskip("sentence_transformers")
    status, _, err = ocrr("memory", "new", "a.sqlite", "--encoder", encoder)
    assert status == 2
    assert err.count("\n") == 1
    assert not list(pathlib.Path().glob("a.sqlite*"))


def test_an_encoder_is_loaded_without_a_word():
    logging = pytest.importorskip("transformers").utils.logging
    pytest.importorskip("sentence_transformers")
    logging.enable_progress_bar()
    assert ocrr("memory", "new", "a.sqlite") == (0, "", "")


@pytest.mark.parametrize("target", ["a.csv", "b.csv", "other.csv", "link.csv", "hard.csv", "a.txt"])
def test_no_export_overwrites_a_memory_or_another_database(target):
    for name in ("a.csv", "b.csv"):
        with CorrectionMemory.open(name) as memory:
            memory.correct([1.0, 2.0], "a")
    with closing(sqlite3.connect("other.csv")) as base, base:
        base.execute("CREATE TABLE notes (text TEXT)")
    pathlib.Path("link.csv").symlink_to("a.csv")
    pathlib.Path("hard.csv").hardlink_to("a.csv")
    before = {path: path.read_bytes() for path in pathlib.Path().iterdir() if path.is_file()}
    status, out, err = ocrr("memory", "export", "a.csv", target)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert {
        path: path.read_bytes() for path in pathlib.Path().iterdir() if path.is_file()
    } == before


@pytest.mark.parametrize("module", ["ocrrlib", "ocrr.cli"])
def test_the_module_runs_as_a_command_in_several_processes(module, vectors):
    options = ["--data", str(vectors), "--seeds", "0-1", "-j", "2"]
    command = [sys.executable, "-m", module, "run", "mine:Mine", *options]
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
