"""The command ``corrigible``: each command once, and what it refuses."""

import io
import json
import pathlib
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from entries import corrigible

from corrigible import CorrectionMemory, Head, __version__
from ocrrlib.encoders import load_encoder
from trials import PATHS


def letters(texts):
    return np.array([[text.count(letter) + 1 for letter in "abcdefghi"] for text in texts])


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder without cached vectors, where new memories encode texts by their letters."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OCRR_CACHE_DIR", "cache")
    monkeypatch.setattr("corrigible.ledger_encoder.load_encoder", lambda name: letters)


@pytest.fixture
def one():
    """A memory of one vector, by Zoë, in a.sqlite."""
    with CorrectionMemory.open("a.sqlite") as memory:
        memory.correct([1.0, 2.0], "a", by="Zoë")
        yield memory


def said(*arguments, status=0):
    """What a command prints, kept in a file of its name."""
    found, out, err = corrigible(*arguments)
    assert found == status, err
    pathlib.Path(arguments[0]).write_text(out)
    return out


@pytest.mark.parametrize("arguments", [[], ["add"]])
def test_help_imports_nothing_slow(arguments):
    code = "import sys; from corrigible.cli import main\n"
    code += f"try: main([*{arguments}, '--help'])\nfinally: print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={"PYTHONPATH": PATHS}, capture_output=True, text=True)
    slow = {"numpy", "pandas", "cryptography", "torch", "rich"}
    assert "Usage" in done.stdout and slow.isdisjoint(done.stdout.split())


def test_the_module_is_the_command_and_tells_its_version():
    command = [sys.executable, "-m", "corrigible", "--version"]
    done = subprocess.run(command, env={"PYTHONPATH": PATHS}, capture_output=True, text=True)
    assert done.stdout == f"corrigible {__version__}\n"


# Each command once


def test_a_memory_learns_answers_forgets_and_proves():
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
    proven = said("verify", "--proof", "prove", "--head", "head", "--key", "me.key.pub")
    assert json.loads(proven)["text"] == "def"
    said("forget", "a.sqlite", 1)
    said("export", "a.sqlite", "out.csv")
    assert pd.read_csv("out.csv")["text"].tolist() == ["abc", "ghi", "aa"]
    shutil.copy("head", "state")
    said("prove", "a.sqlite", "--head", "head", "--key", "me.key")
    keys = ["--key", "her.key", "--trust", "me.key.pub"]
    assert "— her " in said("witness", "prove", "--state", "state", *keys)
    verified = said("verify", "a.sqlite", "--head", "head", "--key", "me.key.pub")
    assert "as it was written; 4 entries" in verified
    said("copy", "a.sqlite", "b.sqlite")
    with closing(sqlite3.connect("a.sqlite")) as base, base:
        base.execute("UPDATE entries SET label = 'five' WHERE place = 2")
    assert said("verify", "a.sqlite", status=1) == "a.sqlite: entry 2: changed\n"
    assert "as it was written" in said("verify", "b.sqlite", "--head", "head")


def test_entries_are_replaced_undone_and_renamed():
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
    listed = [line.split(", ")[2] for line in said("entries", "a.sqlite").splitlines()]
    assert listed == ["zwei: dd", 'four: aa {"ticket": 7}']
    assert said("entries", "a.sqlite", "--by", "ana", "--like", "D").count("entry") == 1
    assert said("history", "a.sqlite", 0).splitlines()[-1] == "entry 0 does not count"


def test_texts_are_asked_a_line_of_standard_input_with_the_encoder_loaded_once(monkeypatch):
    said("new", "a.sqlite")
    for text, label in (("aa", "one"), ("dd", "two")):
        said("correct", "a.sqlite", text, label)
    loaded = []
    monkeypatch.setattr(
        "corrigible.ledger_encoder.load_encoder", lambda name: loaded.append(name) or letters
    )
    monkeypatch.setattr("sys.stdin", io.StringIO("aaa\n\nddd\n"))
    answers = [line for line in said("ask", "a.sqlite").splitlines() if line[0] != " "]
    assert [answer.split()[0] for answer in answers] == ["one", "two"] and len(loaded) == 1
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n"), "utf-8"))
    status, _, err = corrigible("ask", "a.sqlite")
    assert status == 2 and "no UTF-8" in err


def test_columns_of_a_file_are_kept_with_its_entries():
    rows = "text,label,ticket,channel\naa,one,0471,mail\ndd,two,,mail\n"
    pathlib.Path("rows.csv").write_text(rows)
    said("new", "a.sqlite")
    said("add", "a.sqlite", "rows.csv", "--about", "ticket", "--about", "channel")
    with CorrectionMemory.open("a.sqlite") as memory:
        notes = [entry.about for entry in memory.entries()]
    assert notes == [{"ticket": "0471", "channel": "mail"}, {"channel": "mail"}]
    assert '{"channel": "mail", "ticket": "0471"}' in said("ask", "a.sqlite", "aa")
    status, _, err = corrigible("add", "a.sqlite", "rows.csv", "--about", "tikcet")
    assert status == 2 and "did you mean 'ticket'" in err
    np.savez("rows.npz", X=np.eye(9), y=np.arange(9))
    status, _, err = corrigible("add", "a.sqlite", "rows.npz", "--about", "ticket")
    assert status == 2 and "vectors have no column 'ticket'" in err


def test_answers_are_kept_back_reviewed_and_previewed():
    said("new", "a.sqlite")
    for text, label in (("aa", "one"), ("dd", "two"), ("aa", "three")):
        said("correct", "a.sqlite", text, label)
    assert "0.9 cannot be promised" in said("ask", "a.sqlite", "aa", "--at-least", "0.9")
    pathlib.Path("queue").write_text("aa\n\ndd\naa\n")
    reviewed = said("review", "a.sqlite", "queue").splitlines()
    assert sorted(line[-2:] for line in reviewed) == ["aa", "dd"]
    assert "entry 0, one: aa" in said("suspects", "a.sqlite")
    shown = said("preview", "a.sqlite", "dd", "one", "--queries", "queue")
    assert "line 1, two becomes one: dd" in shown and "1 texts change" in shown
    assert said("ask", "a.sqlite", "dd").startswith("two ")


def test_entries_of_an_author_are_listed_and_erased_with_a_reason():
    said("new", "a.sqlite")
    for text, author in (("aa", "ana"), ("dd", "eva"), ("adder", "eva")):
        said("correct", "a.sqlite", text, "label", "--by", author)
    eva = ("--author", "eva")
    dry = said("forget", "a.sqlite", *eva, "--like", "ADDER", "--dry-run").splitlines()
    assert dry[0].startswith("entry 2, ") and dry[1:] == ["would be erased: 1"]
    erased = said("forget", "a.sqlite", *eva, "--erased-by", "po", "--reason", "so")
    assert erased.splitlines() == [
        "entry 1 erased: entry 3 tells so",
        "entry 2 erased: entry 4 tells so",
    ]
    with CorrectionMemory.open("a.sqlite") as memory:
        assert memory.entry(3)["author"] == "po" and "so" in memory.entry(3)["act"]
    assert "prove entry 3" in corrigible("prove", "a.sqlite", "--entry", 1)[2]
    assert said("forget", "a.sqlite", 0, "--by", "po") == "entry 0 erased: entry 5 tells so\n"


def test_keys_of_both_kinds_sign_and_cosign(one):
    said("key", "desk44", "--of", "a.sqlite")
    said("key", "desk", "--of", "a.sqlite", "--kind", "ed25519")
    said("key", "her44", "--name", "witness.example")
    both = ["--key", "desk", "--key", "desk44"]
    said("head", "a.sqlite", *both)
    said("prove", "a.sqlite", "--head", "head", *both)
    keys = ["--key", "her44", "--key", "her"]
    trust = ["--trust", "desk.pub", "--trust", "desk44.pub"]
    cosigned = said("witness", "prove", "--state", "state", *keys, *trust)
    assert len(Head.read(cosigned).signatures) == 4
    checked = [f"--key={name}.pub" for name in ("desk", "desk44", "her", "her44")]
    assert "1 entries are covered" in said("verify", "a.sqlite", "--head", "witness", *checked)
    said("prove", "a.sqlite", "--entry", 0, "--head", "witness")
    assert '"label": "a"' in said("verify", "--proof", "prove", *checked)
    status, _, err = corrigible("verify", "a.sqlite", "--head", "head", *checked)
    assert status == 2 and err.startswith("error: head: ") and "not signed by her" in err


# Files that are read and written

STRANGE = ["=1+1", "'=1", " @a", "-1", "a\x1b[2Jb", r"\x1b", '\'tis, "so"', "two\r\nlines", "c\rd"]


@pytest.mark.parametrize("ending", [".csv", ".JSONL", ".parquet"])
def test_an_export_can_be_added_to_another_memory_after_an_entry_was_forgotten(ending):
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


def test_an_export_for_label_studio_is_added_to_another_memory_by_the_options_of_its_files():
    with CorrectionMemory.open("a.sqlite", "all-MiniLM-L6-v2") as memory:
        memory.learn(STRANGE, STRANGE, about=[{"ticket": 7}, *[None] * (len(STRANGE) - 1)])
        memory.rename(STRANGE[0], "renamed")
        memory.undo(1)
        counted = [(entry.label, entry.text) for entry in memory.entries()]
    said("export", "a.sqlite", "out.json", "--form", "label-studio")
    first = json.loads(pathlib.Path("out.json").read_text())[0]
    assert (first["data"]["place"], first["data"]["about"]) == (0, {"ticket": 7})
    said("new", "b.sqlite")
    columns = ["--text", "data.text", "--label", "annotations.result.value.choices"]
    said("add", "b.sqlite", "out.json", *columns)
    with CorrectionMemory.open("b.sqlite") as memory:
        assert [(entry.label, entry.text) for entry in memory.entries()] == counted


def test_an_export_for_spacy_has_one_label_of_all_in_each_line():
    with CorrectionMemory.open("a.sqlite", "all-MiniLM-L6-v2") as memory:
        memory.learn(["aa", "dd", "gg"], ["one", "two", "one"])
        memory.merge(["two"], "zwei")
    said("export", "a.sqlite", "out.jsonl", "--form", "spacy")
    lines = [json.loads(line) for line in pathlib.Path("out.jsonl").read_text().splitlines()]
    assert lines == [
        {"text": "aa", "cats": {"one": 1.0, "zwei": 0.0}},
        {"text": "dd", "cats": {"one": 0.0, "zwei": 1.0}},
        {"text": "gg", "cats": {"one": 1.0, "zwei": 0.0}},
    ]


@pytest.mark.parametrize(
    "content, clue",
    [
        (b'{"body": "aa", "label": 1}\n\n{"body": "dd", "label": "b"}', None),
        (b'{"text": "aa", "label": 1}', "'body'"),
        (b'{"body": "aa"}', "'label'"),
        (b'["body", "label"]', "indices"),
        (b'{"body": "aa"', "delimiter"),
        (b'{"body": "\xff", "label": "b"}', "0xff"),
        (b'{"body": " ", "label": "b"}', "row 0"),
        (b'{"body": "aa", "label": "b", "answer": "reject"}', "pip install 'corrigible[files]'"),
    ],
)
def test_json_lines_are_read_without_further_packages(content, clue, monkeypatch):
    said("new", "a.sqlite")
    monkeypatch.setitem(sys.modules, "ocrr.data.read", None)  # as if it could not be imported
    pathlib.Path("a.jsonl").write_bytes(content)
    status, out, err = corrigible("add", "a.sqlite", "a.jsonl", "--text", "body")
    if clue is None:
        assert (status, out) == (0, "2 entries added, 2 in a.sqlite\n")
    else:
        assert (status, out) == (2, "") and clue in err and err.count("\n") == 1


def test_rejected_labels_are_not_added():
    said("new", "a.sqlite")
    rows = [
        f'{{"text": "{word}", "label": "b", "answer": "{answer}"}}'
        for word, answer in (("aa", "accept"), ("dd", "reject"), ("gg", "ignore"))
    ]
    pathlib.Path("a.jsonl").write_text("\n".join(rows))
    status, out, err = corrigible("add", "a.sqlite", "a.jsonl")
    assert (status, out) == (2, "") and "row 1, 2: leave these out by --where answer=accept" in err
    assert "1 entries added" in said("add", "a.sqlite", "a.jsonl", "--where", "answer=accept")


def test_empty_rows_of_texts_or_vectors_are_left_out_if_told():
    texts = ["abc", " ", "def", "ghi"]
    labels = ["one", "two", "", "three"]
    pd.DataFrame({"text": texts, "label": labels}).to_csv("rows.csv", index=False)
    np.savez("rows.npz", X=np.eye(4), y=labels)
    CorrectionMemory.open("vectors.sqlite").close()
    said("new", "texts.sqlite")
    for memory, data, n in (("texts.sqlite", "rows.csv", 2), ("vectors.sqlite", "rows.npz", 3)):
        status, out, err = corrigible("add", memory, data)
        assert (status, out) == (2, "") and "in row 2: fill it in, or --drop-empty" in err
        assert f"{n} entries added" in said("add", memory, data, "--drop-empty")


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
    status, out, err = corrigible("export", "a.csv", target)
    assert (status, out) == (2, "") and err.count("\n") == 1
    after = {path: path.read_bytes() for path in pathlib.Path().iterdir() if path.is_file()}
    assert after == before


def test_a_public_key_is_never_overwritten_and_made_again_if_it_is_missing(one):
    public = pathlib.Path("desk.pub")
    public.write_text("the only one\n")
    status, out, err = corrigible("head", "a.sqlite", "--key", "desk")
    assert (status, out) == (2, "") and "desk.pub" in err
    assert public.read_text() == "the only one\n" and not pathlib.Path("desk").exists()
    public.unlink()
    said("head", "a.sqlite", "--key", "desk")
    made = public.read_text()
    public.unlink()  # as if the command had been killed before it was made
    said("head", "a.sqlite", "--key", "desk")
    assert public.read_text() == made


# What is printed


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp437"])
def test_heads_and_proofs_are_in_utf_8_whatever_the_terminal(encoding):
    with CorrectionMemory.open("größe.sqlite") as memory:
        memory.correct([1.0, 2.0], "a")
    for arguments in (["head"], ["prove", "--entry", 0]):
        status, out, err = corrigible(
            *arguments, "größe.sqlite", "--key", "desk", encoding=encoding
        )
        assert status == 0, err
        assert "größe" in out and "\n— desk " in out


def test_texts_of_strangers_do_not_control_the_terminal():
    said("new", "a.sqlite")
    said("correct", "a.sqlite", "a\x1b[2J\nb\u202e", "c\x07\x9bd")
    out = said("ask", "a.sqlite", "a")
    assert out.splitlines()[0].startswith(r"c\x07\x9bd")
    assert out.splitlines()[1].endswith(r"c\x07\x9bd: a\x1b[2J\x0ab\u202e")
    assert out.count("\n") == 2
    status, _, err = corrigible("ask", "no\x1b[2J.sqlite", "a")
    assert status == 2 and "\x1b" not in err


@pytest.mark.parametrize(
    "arguments, clue",
    [
        (("entries", "--by", "zoë"), "no such entry"),
        (("forget", "--author", "zoë"), "no entry by 'zoë' (names are compared as written)"),
        (("forget", "--like", "quince"), "no entry with 'quince'"),
    ],
)
def test_entries_that_nobody_finds_are_told_on_stderr(arguments, clue, one):
    command, *sought = arguments
    status, out, err = corrigible(command, "a.sqlite", *sought)
    assert (status, out) == (0, "") and clue in err and err.count("\n") == 1


# What is refused

BAD = [
    (["ask", "none.sqlite", "text"], "there is no memory in none.sqlite"),
    (["add", "a.sqlite", "none.csv"], "none.csv"),
    (["correct", "a.sqlite", "a", "b", "--about", "{"], "no JSON"),
    (["retire", "a.sqlite", "none"], "none"),
    (["export", "a.sqlite", "b.json"], "ending of an export"),
    (["export", "a.sqlite", "b.json", "--form", "excel"], "form of an export"),
    (["export", "a.sqlite", "b.csv", "--form", "spacy"], "does not end in .jsonl"),
    (["export", "a.sqlite", "b.jsonl", "--form", "spacy"], "entry 0 has no text"),
    (["review", "a.sqlite", "empty"], "empty has no text"),
    (["forget", "a.sqlite"], "not clear what to forget"),
    (["forget", "a.sqlite", 0, "--author", "Zoë"], "not clear what to forget"),
    (["forget", "a.sqlite", "--by", "Zoë"], "not clear what to forget"),
    (["forget", "a.sqlite", "--like", "card", "--by", "Zoë"], "--erased-by"),
    (["prove", "a.sqlite"], "nothing to prove"),
    (["verify"], "--proof"),
    (["verify", "a.sqlite", "--proof", "a.sqlite"], "--proof"),
    (["verify", "--proof", "a.sqlite"], "a.sqlite"),
    (["verify", "proof"], "proof is a proof, no memory: verify it by --proof"),
    (["verify", "a.sqlite", "--head", "head", "--head", "junk"], "error: junk: no head"),
    (["verify", "a.sqlite", "--head", "large"], "large"),
    (["verify", "a.sqlite", "--key", "large"], "large"),
    (["verify", "--proof", "large"], "large"),
    (["verify", "a.sqlite", "--key", "me.pub", "--key", "junk"], "error: junk: no Ed25519 key"),
    (["verify", "--proof", "junk"], "error: junk: the proof shows nothing, it is not a proof"),
    (["verify", "a.sqlite", "--head", "unsigned", "--key", "me.pub"], "unsigned: "),
    (["head", "a.sqlite", "--key", "junk"], "error: junk: no Ed25519 key"),
    (["head", "a.sqlite", "--key", "me.pub"], "error: me.pub: "),
    (["prove", "a.sqlite", "--head", "junk"], "error: junk: no head"),
    (["witness", "junk", "--state", "state", "--key", "me"], "error: junk: no request"),
    (["key", "me"], "me is there already"),
    (["key", "other", "--kind", "rsa"], "ml-dsa-44"),
]


@pytest.mark.parametrize("arguments, clue", BAD, ids=[" ".join(map(str, row[0])) for row in BAD])
def test_what_cannot_be_used_is_one_line_and_status_2(arguments, clue, one):
    pathlib.Path("unsigned").write_text(str(one.head()))
    said("head", "a.sqlite", "--key", "me")
    pathlib.Path("proof").write_text(one.prove_entry(0, head=pathlib.Path("head").read_text()))
    pathlib.Path("junk").write_text("text,label\na,b\n")
    pathlib.Path("empty").write_text("\n")
    with open("large", "wb") as file:
        file.truncate(2**40)
    status, out, err = corrigible(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("error: ") and clue in err and err.count("\n") == 1


@pytest.mark.parametrize("start", ["", "\ufeff", "\n  "])
def test_a_proof_that_took_the_place_of_a_memory_is_refused(one, start):
    said("head", "a.sqlite", "--key", "me")
    proof = one.prove_entry(0, head=pathlib.Path("head").read_text())
    pathlib.Path("b.sqlite").write_text(start + proof)
    said("verify", "--proof", "b.sqlite", "--head", "head", "--key", "me.pub")
    status, out, err = corrigible("verify", "b.sqlite", "--head", "head", "--key", "me.pub")
    assert (status, out) == (2, "") and "--proof" in err and err.count("\n") == 1


def test_an_encoder_is_loaded_without_a_word(monkeypatch):
    monkeypatch.setattr("corrigible.ledger_encoder.load_encoder", load_encoder)
    logging = pytest.importorskip("transformers").utils.logging
    pytest.importorskip("sentence_transformers")
    logging.enable_progress_bar()
    assert corrigible("new", "a.sqlite") == (0, "", "")
