"""Erasure of many entries at once, and proofs of erasures."""

import json
import shutil
import subprocess
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from entries import (
    FEW,
    STEPS,
    D,
    X,
    being_read,
    counting_by_the_rule,
    legible,
    refused,
    rows,
    script,
    step,
)
from hypothesis import given, settings

from corrigible import COSIGNATURE, ML_DSA_44, CorrectionMemory, Key, proven
from trials.auditor import letters

KEY = Key.new("desk", seed=bytes(32))
KEYS = [KEY, Key.new("desk44", ML_DSA_44, bytes(32)), Key.new("her", COSIGNATURE, bytes(32))]
EVA = "eva quince"  # an author whose name is nowhere else


@pytest.fixture
def desk(place):
    """A memory of texts by ana, and of texts and acts by eva."""
    with CorrectionMemory.open(place, letters) as memory:
        memory.learn(["lost card", "no pin", "a crane"], ["lost", "pin", "other"], by="ana")
        memory.learn(["card gone", "pin gone"], ["lost", "pin"], by=EVA)
        wrong = memory.correct("an adder", "snake", by=EVA)
        memory.correct("an adder", "sums", by=EVA, replaces=wrong)
        memory.undo(memory.correct("trap", "trap", by=EVA), by="ana")
        memory.retire("sums", by="ana")
        memory.rename("lost", "card_lost", by=EVA)
        yield memory


def left(memory):
    """Places of entries that have content."""
    return [place for place in range(len(memory)) if "salt" in memory.entry(place)]


# What is erased


def test_all_that_an_author_wrote_is_erased_whether_it_counts_or_not(desk, place):
    found = desk.would_forget(author=EVA)
    assert [entry.place for entry in found] == [3, 4, 5, 6, 7, 10]
    assert (found[2].label, found[-1].text) == ("snake", '{"rename":["lost","card_lost"]}')
    assert desk.forget_all(author=EVA, erased_by="privacy officer") == [3, 4, 5, 6, 7, 10]
    for word in (EVA, "card gone", "adder", "snake", "trap"):
        assert not (isinstance(place, Path) and legible(place, word))
    assert desk.would_forget(author=EVA) == desk.forget_all(author=EVA) == []
    assert {desk.entry(place)["author"] for place in left(desk)[-6:]} == {"privacy officer"}
    assert desk.verify() is None


def test_acts_of_an_erased_author_keep_their_effect_and_can_be_undone(desk):
    before = desk.labels
    desk.forget_all(author=EVA)
    assert before == desk.labels == ["card_lost", "pin", "other"]
    (_, event) = desk.history(0).events
    assert (event.place, event.author, event.what) == (10, None, "label lost became card_lost")
    assert desk.history(10).events[0].what == "rename ['lost', 'card_lost']"
    desk.undo(10)
    assert desk.labels == ["lost", "pin", "other"]
    with refused("entry 10 was undone"):
        desk.undo(10)
    with CorrectionMemory.open(desk.path, letters) as other:
        assert other.labels == desk.labels


def test_what_an_erased_entry_replaced_stays_replaced(memory):
    first = memory.correct(-X[0], "first", by="ana")
    memory.correct(-X[0], "second", by=EVA, replaces=first)
    memory.forget_all(author=EVA)
    assert memory.history(first).label is None


@pytest.mark.parametrize(
    "like, found",
    [
        ("ADDER", [5, 6]),
        ("cRANE", [2]),
        ("strasse 12", [11]),
        ("ZOE\u0308", [11]),
        ("4711", [11, 12]),
        ('say "no"', [12]),
        ("strasse\u00a0 12", [11]),  # other blanks
        ("strasse", [11]),
        ("snake", []),  # a label
        ("rename", []),
    ],
)
def test_a_part_is_found_in_texts_and_notes_in_any_case(desk, like, found):
    desk.correct(
        "a rat", "x", about={"ticket": 4711, "who": [{"Zo\u00eb": "Stra\u00ad\u00dfe\n12"}]}
    )
    desk.correct("a ran 4711", "x", about={"said": 'I say "no"'})
    assert [entry.place for entry in desk.would_forget(like=like)] == found
    counting = {entry.place for entry in desk.entries()}
    assert [entry.place for entry in desk.entries(like=like)] == [*sorted(counting & {*found})]
    assert desk.forget_all(like=like) == found


def test_an_author_and_a_part_erase_only_what_has_both(desk):
    assert desk.forget_all(author=EVA, like="pin") == [4]
    assert desk.forget_all(author="ana", like="pin") == [1]


@pytest.mark.parametrize(
    "call, what",
    [
        (lambda memory: memory.forget_all(), "give author, like"),
        (lambda memory: memory.forget_all(erased_by="ana"), "give author, like"),
        (lambda memory: memory.forget_all(author=""), "author is empty"),
        (lambda memory: memory.forget_all(author="ana", like=" "), "like is empty"),
        (lambda memory: memory.would_forget(like=""), "like is empty"),
        (lambda memory: memory.forget_all(author="ana", erased_by="ana"), "name a role"),
        (lambda memory: memory.forget([]), "no places"),
        (lambda memory: memory.forget([0, 1, 99]), "no entry 99"),
        (lambda memory: memory.forget([0, 9]), "entry 9 is an act"),
        (lambda memory: memory.forget("12"), "no place"),
        (lambda memory: memory.forget(0, reason="why" * 2000), "the reason cannot be kept"),
        (lambda memory: memory.forget_all(like="card", reason="\ud800"), "the reason"),
    ],
)
def test_what_does_not_say_clearly_what_to_erase_is_refused_and_erases_nothing(desk, call, what):
    with refused(what):
        call(desk)
    assert len(left(desk)) == len(desk) == 11


def test_several_places_are_erased_at_once_and_what_was_erased_before_is_left(desk):
    desk.forget(0)
    assert desk.forget([0, 1, 1, 2], by="ana") == [1, 2]
    assert [place for place in range(11) if place not in left(desk)] == [0, 1, 2]
    assert len(desk) == 14
    with refused("all 3 entries were erased before"):
        desk.forget([0, 1, 2])


def test_old_heads_proofs_and_answers_of_the_past_hold_after_many_were_erased(desk):
    heads = [desk.head()]
    proofs = [desk.prove_entry(place) for place in (0, 3)]
    past = desk.at(heads[0])
    desk.forget_all(author=EVA)
    heads.append(desk.head())
    assert desk.verify(*heads) is None
    assert [proven(proof)[0]["label"] for proof in proofs] == ["lost", "lost"]
    assert proven(desk.prove_entry(0, head=heads[0]))[0]["label"] == "lost"
    near = {one.entry for one in past.predict("card gone").neighbours}
    assert near == {0, 1, 2} == {one.entry for one in desk.predict("card gone").neighbours}


class ByEva:
    """A memory whose acts are all written by eva."""

    def __init__(self, memory):
        self.memory = memory

    def __len__(self):
        return len(self.memory)

    def __getattr__(self, name):
        method = getattr(self.memory, name)
        return partial(method, by=EVA) if name in ("undo", "rename", "merge", "retire") else method


@settings(max_examples=40, deadline=None, suppress_health_check=FEW)
@given(STEPS)
def test_no_meaning_changes_now_or_then_when_the_author_of_all_acts_is_erased(tmp_path, steps):
    path = tmp_path / "m.sqlite"
    path.unlink(missing_ok=True)
    with CorrectionMemory.open(path) as memory:
        memory.learn(X[:20], [f"label {i % 4}" for i in range(20)], by="ana")
        heads = []
        for what, a, b in steps:
            step(ByEva(memory), what, a, b)
            heads.append(memory.head())
        before = memory.entries()
        labels = [memory.at(head).labels for head in heads]
        erased = memory.forget_all(author=EVA)
        assert not legible(path, EVA)
        assert memory.entries() == before
        assert {one.place: one.label for one in before} == counting_by_the_rule(path)
        assert [memory.at(head).labels for head in heads] == labels
        assert memory.verify(*heads) is None
        for place in erased:
            assert memory.history(place).events[-1].author == ""


# Interrupted

KILLED = """import os, signal, sys
import corrigible.stores.sqlite
from corrigible import CorrectionMemory

memory = CorrectionMemory.open(sys.argv[1])
corrigible.stores.sqlite.SQLiteStore.NAME = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
memory.forget_all(like="secret")
"""


@pytest.fixture
def many(tmp_path):
    """A file of 1,000 entries with a secret, among as many without."""
    path = tmp_path / "folder" / "m.sqlite"
    path.parent.mkdir()
    with CorrectionMemory.open(path, letters) as memory:
        memory.learn(
            [f"{'a secret' if i % 2 else 'a card'} {i}" for i in range(2000)], ["a"] * 2000
        )
    return path


@pytest.mark.parametrize("name, erased", [("erase", 0), ("cleaned", 1000)])
def test_an_erasure_of_many_that_was_killed_is_done_or_undone_as_a_whole(many, name, erased):
    assert script(KILLED.replace("NAME", name), many).wait() < 0
    with CorrectionMemory.open(many) as memory:
        assert len(memory) == 2000 + erased
        assert legible(many, "a secret 999") == (not erased)
        assert len(left(memory)) == 2000
        assert memory.verify() is None


@pytest.mark.slow
def test_all_or_none_of_many_entries_are_erased_whenever_the_process_was_killed(many, tmp_path):
    code = """import sys
from corrigible import CorrectionMemory

memory = CorrectionMemory.open(sys.argv[1])
print(flush=True)
memory.forget_all(like="secret")
print(flush=True)
"""
    rng = np.random.default_rng(0)
    sizes = set()
    for trial in range(12):
        path = tmp_path / f"{trial}" / "m.sqlite"
        shutil.copytree(many.parent, path.parent)
        process = script(code, path, stdout=subprocess.PIPE)
        process.stdout.readline()
        if trial == 0:
            process.stdout.readline()  # at least one is killed afterwards
        else:
            time.sleep(rng.uniform(0, 0.15))
        process.kill()
        acknowledged = process.communicate()[0] != ""
        with CorrectionMemory.open(path) as memory:
            sizes.add(len(memory))
            assert len(memory) in (2000, 3000) and len(left(memory)) == 2000
            assert legible(path, "a secret") == (len(memory) == 2000)
            assert len(memory) == 3000 or not acknowledged
            assert memory.verify() is None
    assert 3000 in sizes


def test_an_erasure_of_many_that_a_reader_delayed_is_finished_when_it_is_asked_for_again(
    many, monkeypatch
):
    with CorrectionMemory.open(many) as memory:
        with monkeypatch.context() as patch, being_read(many):
            patch.setattr("corrigible.stores.waiting.LOCK_TIMEOUT", 0)
            with refused("others still read"):
                memory.forget_all(like="secret")
        assert legible(many, "a secret 999")
        assert memory.forget_all(like="secret") == []
        assert not legible(many, "a secret")
        assert [memory.told_by(place) for place in (1, 3)] == [2000, 2001]


# Shown to others


def test_a_proof_of_its_tombstone_shows_an_erasure_and_nothing_of_what_was_held(desk):
    before = desk.head(KEY)
    places = desk.forget_all(author=EVA, erased_by="privacy officer", reason="Art. 17, case 4711")
    assert [desk.told_by(place) for place in places] == [*range(11, 17)]
    assert desk.told_by(0) is None
    head = desk.head(KEY)
    for key in KEYS[1:]:
        head = head.signed(key)
    for place in places:
        proof = desk.prove_entry(desk.told_by(place), head=head)
        entry, shown = proven(proof, KEYS)
        told = entry["text"], entry["author"], entry["label"], entry["x"]
        assert told == (str(place), "privacy officer", "", "")
        assert json.loads(entry["act"])["about"] == {"reason": "Art. 17, case 4711"}
        assert desk.verify(before, shown, keys=[KEY]) is None
        for word in (EVA, "quince", "adder"):
            assert word not in proof and word not in json.dumps(entry)


def test_a_reason_stays_and_changes_no_meaning(desk):
    counting = desk.entries()
    histories = [desk.history(place).label for place in range(len(desk))]
    desk.forget_all(author=EVA, reason="on request")
    assert desk.entries() == [one for one in counting if one.author != EVA]
    assert [desk.history(place).label for place in (0, 1, 2, 8, 9, 10)] == [
        histories[place] for place in (0, 1, 2, 8, 9, 10)
    ]
    assert desk.history(10).events[0].what == "rename ['lost', 'card_lost']"
    desk.undo(10)
    assert "lost" in desk.labels
    with CorrectionMemory.open(desk.path, letters) as other:
        assert other.entries() == desk.entries()
        assert other.verify() is None


def test_an_erasure_without_a_reason_is_written_as_before(tmp_path):
    path = tmp_path / "m.sqlite"
    with CorrectionMemory.open(path) as memory:
        memory.learn(rows(2, D, 0), ["a", "b"])
        memory.forget(0, by="bo")
        assert "act" not in memory.entry(2)
        memory.forget(1, by="bo", reason="so")
        assert memory.entry(3)["act"] == '{"about":{"reason":"so"}}'
        assert memory.verify() is None
