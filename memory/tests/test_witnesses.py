"""Witnesses asked at once, killed or with a damaged state; texts that editors and mail changed."""

import fcntl
import os
import subprocess
import sys
import threading
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from entries import corrigible

from corrigible import CorrectionMemory, Head, Key, proven, request, verify, witness
from corrigible.proofs import witnesses
from ocrrlib.chain import Fault
from ocrrlib.files import InputError, write_text
from trials import PATHS, races
from trials.auditor import write as written

LOG = races.LOG
WITNESS = races.WITNESS


# Two forks of one head


@pytest.mark.parametrize("seen", [True, False], ids=["after a head", "at first"])
def test_of_two_forks_one_is_cosigned_and_one_reported_if_threads_ask_at_once(tmp_path, seen):
    for trial in range(20):
        first, requests = races.forked(trial)
        state = tmp_path / f"{trial}"
        link = tmp_path / f"{trial} link"
        if seen:
            write_text(state, str(first))
            link.symlink_to(state)
        start = threading.Barrier(2, timeout=100)

        def ask(text, state):
            start.wait()
            return witness(text, state, WITNESS, [LOG])

        with ThreadPoolExecutor(2) as threads:
            texts = [text for _, text in requests]
            found = list(threads.map(ask, texts, [state, link if seen else state]))
        assert {type(one) for one in found} == {Head, Fault}


@pytest.mark.slow
def test_of_two_forks_one_is_cosigned_and_one_reported_if_commands_ask_at_once(tmp_path):
    (tmp_path / "log.pub").write_text(LOG.public_text)
    env = os.environ | {"PYTHONPATH": PATHS}
    for trial in range(6):
        _, requests = races.forked(trial)
        commands = []
        for i, (_, text) in enumerate(requests):
            write_text(tmp_path / f"{i}", text)
            command = [sys.executable, "-m", "corrigible", "witness", f"{i}"]
            # Both make the key of the first trial.
            options = ["--state", f"state {trial}", "--key", "her.key", "--trust", "log.pub"]
            command = subprocess.Popen(
                [*command, *options], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True
            )
            commands.append(command)
        said = [command.communicate()[0] for command in commands]
        assert sorted(command.returncode for command in commands) == [0, 1]
        cosigned = max(said, key=len)
        Head.read(cosigned).check([LOG, Key.read((tmp_path / "her.key.pub").read_text())])
        assert min(said, key=len) == "entry 4: forked"


@pytest.mark.parametrize("what", ["flipped", "lost", "swapped", "one too many"])
def test_a_damaged_request_accuses_nobody_and_nothing_is_cosigned(tmp_path, what):
    state = tmp_path / "state"
    first = written(tmp_path / "log", "abc", LOG)
    written(tmp_path / "log", "abcd", LOG)
    with CorrectionMemory.open(tmp_path / "log") as memory:
        asked = memory.prove_extension(first, LOG)
    write_text(state, str(first))
    lines = asked.split("\n")
    assert lines.index("") > 3
    for place in range(1, lines.index("") - 1):
        damaged = list(lines)
        if what == "flipped":
            damaged[place] = damaged[place].swapcase()
        elif what == "lost":
            del damaged[place]
        elif what == "swapped":
            damaged[place : place + 2] = damaged[place + 1 : place - 1 : -1]
        else:
            damaged.insert(place, damaged[place])
        with pytest.raises(InputError, match="does not fit"):
            witness("\n".join(damaged), state, WITNESS, [LOG])
        assert state.read_text() == str(first)
    assert isinstance(witness(asked, state, WITNESS, [LOG]), Head)


@pytest.mark.parametrize("blanks", ["  ", "\t", "\u00a0"])
def test_a_cosignature_holds_for_the_clean_text_of_a_head_that_mail_changed(tmp_path, blanks):
    _, ((head, text), _) = races.forked(0)
    old, note = text.split("\n\n", 1)
    asked = f"{old}\n\n{blanks}{note}"
    cosigned = witness(asked, tmp_path / "state", WITNESS, [LOG])
    assert cosigned.body == head.body
    for shown in (str(cosigned), blanks + str(cosigned)):
        Head.read(shown).check([LOG, WITNESS])


def test_a_process_that_was_forked_meanwhile_keeps_nobody_waiting(tmp_path, monkeypatch):
    _, ((head, text), _) = races.forked(0)
    monkeypatch.setattr(witnesses, "LOCK_TIMEOUT", 1)
    reading, writing = os.pipe()
    children = []

    def forking(*arguments):
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)  # until the end of the test
            os._exit(0)
        children.append(child)
        write_text(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(witnesses, "write_text", forking)
        witness(text, tmp_path / "state", WITNESS)
    try:
        assert isinstance(witness(request(4, [], head), tmp_path / "state", WITNESS), Head)
    finally:
        os.close(writing)
        os.close(reading)
        os.waitpid(children[0], 0)


def test_a_witness_whose_state_stays_locked_gives_up_and_says_so(tmp_path, monkeypatch):
    _, ((_, text), _) = races.forked(0)
    monkeypatch.setattr(witnesses, "LOCK_TIMEOUT", 0.05)
    with open(tmp_path / "state.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="state.lock"):
            witness(text, tmp_path / "state", WITNESS)
    assert not (tmp_path / "state").exists()


def test_a_state_with_two_names_is_refused(tmp_path):
    first, requests = races.forked(0)
    write_text(tmp_path / "state", str(first))
    (tmp_path / "other").hardlink_to(tmp_path / "state")
    for name, (_, text) in zip(["state", "other"], requests):
        with pytest.raises(InputError, match="hard link"):
            witness(text, tmp_path / name, WITNESS)


def test_a_witness_that_was_cut_off_before_its_answer_gives_it_when_asked_from_that_head_on(
    tmp_path,
):
    first, ((head, text), (other, fork)) = races.forked(0)
    state = tmp_path / "state"
    witness(text, state, WITNESS)
    with pytest.raises(InputError, match="prove from that one on"):
        witness(text, state, WITNESS)
    assert witness(request(4, [], head), state, WITNESS).body == head.body
    assert witness(request(4, [], other), state, WITNESS) == Fault(4, "forked")


DAMAGES = {
    "empty": lambda raw: b"",
    "blank": lambda raw: b"\n\n",
    "half": lambda raw: raw[: len(raw) // 2],
    "without its end": lambda raw: raw[:-1],
    "zeros": lambda raw: bytes(len(raw)),
    "another root": lambda raw: raw.replace(raw[9:12], b"AAA", 1),
    "another size": lambda raw: raw.replace(b"\n4\n", b"\n3\n", 1),
    "another encoding": lambda raw: raw.decode().encode("utf-16"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_state_is_refused_and_stays(tmp_path, damage):
    _, ((head, text), (_, fork)) = races.forked(0)
    state = tmp_path / "state"
    witness(text, state, WITNESS)
    damaged = damage(state.read_bytes())
    state.write_bytes(damaged)
    for asked in (fork, request(4, [], head)):
        with pytest.raises(InputError, match=str(state)):
            witness(asked, state, WITNESS)
    assert state.read_bytes() == damaged


def test_a_state_that_cannot_be_read_is_not_taken_for_a_first_head(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    _, ((_, text), _) = races.forked(0)
    for name in ("folder", "nowhere", "loop"):
        with pytest.raises(InputError, match=name):
            witness(text, tmp_path / name, WITNESS)
    assert not (tmp_path / "gone").exists()


def test_a_verifiers_key_cosigns_nothing_and_the_state_stays(tmp_path):
    _, ((_, text), _) = races.forked(0)
    with pytest.raises(InputError, match="verifier"):
        witness(text, tmp_path / "state", WITNESS._replace(private=b""))
    assert not (tmp_path / "state").exists()


# Texts that editors and mail programs changed

EDITS = {
    "byte-order mark": lambda text: "\ufeff" + text,
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "both": lambda text: "\ufeff" + text.replace("\n", "\r\n"),
    "empty lines around": lambda text: "\n \n" + text + "\n\n",
    "blanks before": lambda text: "  " + text,
    "blanks after": lambda text: text + "  \t",
    "blanks at the ends of lines": lambda text: text.replace("\n", " \u00a0\n"),
    "indented": lambda text: "".join(f"    {line}" for line in text.splitlines(keepends=True)),
    "no end": lambda text: text.rstrip("\n"),
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Head, proof and request of a memory, and its path."""
    path = tmp_path_factory.mktemp("m") / "log.sqlite"
    head = str(written(path, ["abc", "bcd", "add"], LOG))
    with CorrectionMemory.open(path) as memory:
        proof = memory.prove_entry(1, head=head)
        memory.forget(0)
        return path, head, proof, memory.prove_extension(head, LOG)


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_texts_that_an_editor_changed_are_read_as_the_clean_ones(texts, tmp_path, edit):
    path, head, proof, asked = texts
    for name, text in (("head", head), ("proof", proof), ("asked", asked)):
        (tmp_path / name).write_bytes(edit(text).encode())
    for name, key in (("log.pub", LOG.public_text), ("her.key", WITNESS.private_text)):
        (tmp_path / name).write_bytes(edit(key + "\n").encode())
    state = tmp_path / "state"
    state.write_text(head)
    key = ["--key", tmp_path / "log.pub"]
    trust = ["--trust", tmp_path / "log.pub", "--key", tmp_path / "her.key"]
    assert Head.read(edit(head)).origin == Head.read(head).origin
    assert proven(edit(proof), [LOG])[0] == proven(proof, [LOG])[0]
    head_and_key = ["--head", tmp_path / "head", *key]
    assert corrigible("verify", path, *head_and_key)[0] == 0
    assert corrigible("verify", "--proof", tmp_path / "proof", *head_and_key)[0] == 0
    assert corrigible("prove", path, "--head", tmp_path / "head")[0] == 0
    assert corrigible("witness", tmp_path / "asked", "--state", state, *trust)[0] == 0
    state.write_bytes(edit(head).encode())
    try:
        assert isinstance(witness(asked, state, WITNESS), Head)
    except InputError as error:
        assert "damaged" in str(error)


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252"])
def test_a_head_in_another_encoding_is_refused_and_accuses_nobody(tmp_path, encoding):
    path = tmp_path / "größe.sqlite"
    head = str(written(path, ["abc"], None))
    (tmp_path / "head").write_bytes(head.encode(encoding))
    status, _, err = corrigible("verify", path, "--head", tmp_path / "head")
    assert status == 2 and "UTF-8" in err


# Names of files

NAMES = {
    "blank before": " m",
    "blank after": "m ",
    "blanks within": "a  b",
    "newline": "a\n\nb",
    "carriage return": "a\rb",
    "tab": "\tm",
    "escape": "\x1b[31mm",
    "byte-order mark": "\ufeffm",
    "no-break space": "\u00a0m\u2028",
    "invisible": "\u200bm\u202e",
    "decomposed": unicodedata.normalize("NFD", "größe"),
    "no Unicode": "m\udcff",
    "as a signature": "— a b",
    "plus": "a+b",
    "nothing else": " ",
}


def test_heads_of_a_memory_survive_whatever_its_file_name(tmp_path):
    for place, stem in enumerate(NAMES.values()):
        folder = tmp_path / str(place)
        folder.mkdir()
        path = folder / f"{stem}.sqlite"
        with CorrectionMemory.open(path) as memory:
            memory.correct(np.ones(3), "a")
            head = memory.head(LOG)
            assert Head.read(str(head)) == head
            for edit in EDITS.values():
                assert memory.verify(edit(str(head)), keys=[LOG]) is None
            assert proven(memory.prove_entry(0, head=str(head)), [LOG])[1] == head
            asked = memory.prove_extension(str(head), LOG)
        cosigned = witness(asked, folder / "state", WITNESS, [LOG])
        assert verify(path, str(cosigned), keys=[LOG, WITNESS]) is None


def test_a_key_with_a_name_that_would_not_survive_is_refused():
    for name in ("a b", "a+b", "a\u200b", "\ufeffa", "a\udcff", ""):
        with pytest.raises(InputError, match="no name of a key"):
            Key.new(name)


# Kills, in processes


@pytest.mark.slow
@pytest.mark.parametrize("kill", [False, True], ids=["undisturbed", "killed"])
def test_of_two_forks_one_is_cosigned_and_one_reported_if_processes_ask_at_once(kill):
    trials, right = races.forks(20, kill)
    assert right == trials == 20


@pytest.mark.slow
@pytest.mark.parametrize("ordeal", [races.erasures, races.exports, races.encoders])
def test_processes_that_meet_or_are_killed_leave_what_was_promised(ordeal):
    trials, right = ordeal(12)
    assert right == trials >= 12
