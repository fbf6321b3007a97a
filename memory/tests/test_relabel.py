"""Entries that a query finds get another label by one act, which one undo takes back."""

import numpy as np
import pytest
from entries import D, corrigible, in_a_file, refused, rows

from corrigible import CorrectionMemory

Q = rows(20, D, 3)
TEXTS = ["lost card", "card gone", "no pin", "my Card is late"]


@pytest.fixture
def desk(path):
    """A memory of four texts by two authors."""
    with CorrectionMemory.open(path) as memory:
        memory.learn(TEXTS[:3], ["lost", "arrival", "pin"], by="bo", vectors=np.eye(4)[:3])
        note = {"ticket": 7}
        memory.correct(TEXTS[3], "arrival", by="ana", vector=np.eye(4)[3], about=note)
        yield memory


@pytest.mark.parametrize(
    "which, texts",
    [
        (dict(like="CARD"), [0, 1, 3]),
        (dict(label="arrival"), [1, 3]),
        (dict(author="bo", like="card"), [0, 1]),
        (dict(since="2000-01-01"), [0, 1, 2, 3]),
        (dict(label="nobody's"), []),
    ],
)
def test_what_is_previewed_is_relabelled_all_at_once(desk, which, texts):
    shown = desk.would_relabel("card", **which)
    assert [entry.text for entry in shown] == [TEXTS[place] for place in texts]
    assert len(desk) == 4
    places = desk.relabel("card", **which, by="eva")
    assert places == [4 + rank for rank in range(len(texts))]
    found = desk.entries("card")
    assert [entry.text for entry in found] == [entry.text for entry in shown]
    assert [entry.about for entry in found] == [entry.about for entry in shown]
    assert {entry.author for entry in found} <= {"eva"}
    assert desk.would_relabel("card", **which) == desk.relabel("card", **which) == []
    assert desk.verify() is None


def test_one_undo_takes_it_back_bit_for_bit_and_one_more_does_it_again(memory):
    before = memory.labels, memory.predict(Q), memory.entries()
    places = memory.relabel("class 9", label="class 1", by="eva")
    after = memory.labels, memory.predict(Q), memory.entries()
    assert after != before and "class 1" not in after[0]
    undone = memory.undo(places, by="eva")
    assert (memory.labels, memory.predict(Q), memory.entries()) == before
    memory.undo(undone)
    assert (memory.labels, memory.predict(Q), memory.entries()) == after
    with refused(f"entry {undone[0]} was undone"):
        memory.undo([places[0], undone[0]])  # all, or none
    assert (memory.labels, memory.predict(Q), memory.entries()) == after


@in_a_file
def test_what_relabels_all_or_to_a_retired_label_is_refused_and_writes_nothing(memory):
    memory.retire("class 2")
    size = len(memory)
    for which, why in [
        ({}, "nothing says what"),
        (dict(like=" "), "like is empty"),
        (dict(author=""), "author is empty"),
        (dict(since="soon"), "no time"),
        (dict(label=["class 1"]), "label"),
    ]:
        with refused(why):
            memory.relabel("card", **which)
    with refused("retired"):
        memory.relabel("class 2", label="class 1")
    assert len(memory) == size


def test_a_new_label_that_looks_like_another_is_named(desk):
    with pytest.warns(UserWarning, match="'pin' .1. and 'pins' .2. look alike"):
        desk.relabel("pins", label="arrival")


def test_the_command_previews_relabels_and_takes_back(desk, path):
    asked = ("relabel", path, "--to", "card", "--like", "card")
    listed = corrigible(*asked, "--dry-run")[1].splitlines()
    assert len(listed) == 4 and listed[-1] == "would be relabelled: 3"
    assert "undo 4-6 if not" in corrigible(*asked, "--by", "eva")[1]
    assert len(desk.entries("card")) == 3
    status, _, err = corrigible("undo", path, "4-7")
    assert status == 2 and "there is no entry 7" in err
    status, out, _ = corrigible("undo", path, "4-6", 4)
    assert status == 0 and out.count("is undone") == 3 and desk.entries("card") == []
    assert corrigible("undo", path, "6-4")[0] == 2
    status, _, err = corrigible("relabel", path, "--to", "card", "--like", "quince")
    assert status == 0 and "nothing was relabelled" in err
