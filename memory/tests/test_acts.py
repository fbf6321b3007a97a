"""Entries that change what others mean: undo, replace, rename, merge, retire; and the past."""

import json
import sqlite3
from contextlib import closing

import pytest
from entries import FEW, LABELS, STEPS, D, X, counting_by_the_rule, in_a_file, refused, rows, step
from hypothesis import given, settings
from hypothesis import strategies as st

from corrigible import CorrectionMemory, proven, verify
from trials.auditor import letters, sql

Q = rows(9, D, 3)
FAR = -X[0]  # nearest to what is written of it


def test_a_correction_replaces_the_entry_that_was_wrong(memory):
    wrong = memory.correct(FAR, "wrong", by="bo")
    assert memory.predict(FAR).label == "wrong"
    right = memory.correct(FAR, "right", replaces=wrong)
    assert memory.predict(FAR).label == "right" and "wrong" not in memory.labels
    assert memory.history(wrong).label is None
    with refused(f"entry {wrong} was replaced by entry {right}"):
        memory.correct(FAR, "again", replaces=wrong)
    memory.undo(right)
    assert memory.predict(FAR).label == "wrong"


def test_what_was_replaced_does_not_come_back_when_the_replacement_is_replaced_or_erased(memory):
    first = memory.correct(FAR, "first")
    second = memory.correct(FAR, "second", replaces=first)
    memory.correct(FAR, "third", replaces=second)
    memory.forget(second)
    assert memory.predict(FAR).label == "third" and "first" not in memory.labels
    told = [event.place for event in memory.history(first).events]
    assert told == [first, len(memory) - 1]  # the replacement's own words are erased
    assert memory.verify() is None


def test_entries_and_histories_are_those_under_a_head(memory):
    place = memory.correct(FAR, "early")
    head = memory.head()
    then = memory.entries(), memory.history(place)
    memory.rename("early", "late")
    memory.correct(FAR, "afterwards")
    past = memory.at(head)
    assert (past.entries(), past.history(place)) == then
    assert (memory.entries(), memory.history(place)) != then
    assert [entry.place for entry in past.entries("early")] == [place]
    with refused("take a later head"):
        past.history(len(memory) - 1)


def test_an_old_head_knows_what_acts_said_that_were_erased_since(memory):
    first = memory.correct(FAR, "early", by="ana")
    second = memory.correct(FAR, "second")
    memory.rename("early", "late", by="ana")
    memory.correct(FAR, "third", by="ana", replaces=second)
    head = memory.head()
    memory.forget_all(author="ana", erased_by="office")
    past = memory.at(head)
    assert {entry.label for entry in past.entries()} <= {*past.labels}
    assert second not in [entry.place for entry in past.entries()]
    assert past.history(second).label is None
    assert first not in [entry.place for entry in past.entries()]  # erased since


def test_an_undo_can_be_undone_and_an_erasure_cannot(memory):
    place = memory.correct(FAR, "new")
    undo = memory.undo(place)
    assert "new" not in memory.labels
    with refused(f"entry {place} was undone by entry {undo}"):
        memory.undo(place)
    memory.undo(undo)
    assert memory.predict(FAR).label == "new"
    memory.forget(place)
    with refused("was erased, for good"):
        memory.undo(place)
    with refused("which is for good"):
        memory.undo(len(memory) - 1)


def test_labels_are_renamed_merged_and_retired_for_all_entries_so_far(memory):
    memory.rename("class 0", "zero")
    assert "class 0" not in memory.labels
    memory.correct(X[1], "class 0")  # a new label of that name
    assert {"zero", "class 0"} <= {*memory.labels}
    memory.merge(["class 1", "class 2"], "one or two")
    assert not {"class 1", "class 2"} & {*memory.labels}
    retired = memory.retire("zero")
    assert "zero" not in {answer.label for answer in memory.predict(X)}
    with refused(f"label 'zero' was retired by entry {retired}"):
        memory.correct(X[0], "zero")
    memory.undo(retired)
    assert "zero" in memory.labels


def test_entries_are_listed_as_they_count_and_an_entry_has_a_history(place):
    with CorrectionMemory.open(place, letters) as memory:
        memory.learn(["lost card", "no pin"], ["lost", "pin"], by="ana")
        place = memory.correct("card gone", "pin", by="bo", about={"ticket": 12})
        began = memory.entries(by="bo")[0].when
        memory.rename("pin", "change pin", by="ana")
        assert [entry.place for entry in memory.entries(label="change pin")] == [1, place]
        assert [entry.place for entry in memory.entries(like="CARD")] == [0, place]
        assert [entry.place for entry in memory.entries(since=began)] == [place]
        (entry,) = memory.entries(by="bo")
        assert (entry.text, entry.about) == ("card gone", {"ticket": 12})
        undone = memory.undo(place, by="cy")
        found = memory.history(place)
        assert found.label is None
        assert [(event.place, event.author) for event in found.events] == [
            (place, "bo"),
            (place + 1, "ana"),
            (undone, "cy"),
        ]


@in_a_file
def test_a_note_is_proven_with_its_entry_and_erased_with_it(memory, path):
    place = memory.correct(X[0], "new", about={"ticket": 123456789})
    entry, _ = proven(memory.prove_entry(place))
    assert json.loads(entry["act"]) == {"about": {"ticket": 123456789}}
    memory.forget(place)
    assert "act" not in memory.entry(place)
    assert b"123456789" not in path.read_bytes()


def test_acts_are_proven_and_one_that_was_changed_is_found(memory, place):
    renamed = memory.rename("class 0", "zero")
    entry, _ = proven(memory.prove_entry(renamed))
    assert entry["act"] == '{"rename":["class 0","zero"]}'
    memory.close()
    for other in ('{"rename":["class 0","nought"]}', '{"rename": ["class 0","zero"]}', None):
        sql(place, ["UPDATE entries SET act = ? WHERE place = ?", [other, renamed]])
        with refused(f"entry {renamed}: changed"):
            CorrectionMemory.open(place)


@in_a_file
def test_a_file_without_a_column_for_acts_is_read_and_gets_it_when_it_is_opened_to_write(
    memory, path
):
    memory.correct(FAR, "new")
    before = memory.head()
    memory.close()
    with closing(sqlite3.connect(path)) as base:
        base.execute("ALTER TABLE entries DROP COLUMN act")
    raw = path.read_bytes()
    assert verify(path, before) is None
    assert path.read_bytes() == raw
    with CorrectionMemory.open(path) as first, CorrectionMemory.open(path) as second:
        first.rename("new", "newer")
        assert second.predict(FAR).label == "newer"
        assert second.verify(before) is None


def answered(memory):
    """Answers, or the refusal if nothing counts."""
    try:
        return memory.predict(Q)
    except ValueError:
        return None


def check_history(folder, steps, reader):
    """The rule tells what counts; each head's answers are those of then, to whoever asks."""
    path = folder / "m.sqlite"
    path.unlink(missing_ok=True)
    with CorrectionMemory.open(path, reader=reader) as memory:
        memory.learn(X[:20], LABELS[:20])
        given = []
        for what, a, b in steps:
            step(memory, what, a, b)
            counting = {entry.place: entry.label for entry in memory.entries()}
            assert counting == counting_by_the_rule(path)
            if what == "forget":  # what was erased is gone from the past, too
                erased = a % (len(memory) - 1)
                given = [(head, answers) for head, answers in given if head.size <= erased]
            given.append((memory.head(), answered(memory)))
        with CorrectionMemory.open(path, reader=reader) as other:
            assert answered(other) == answered(memory)
            for head, answers in given:
                assert answered(other.at(head)) == answers
                assert answered(memory.at(head)) == answers
            assert memory.verify(*(head for head, _ in given)) is None


@settings(max_examples=25, deadline=None, suppress_health_check=FEW)
@given(STEPS, st.sampled_from(["substrate", "ledger_lda"]))
def test_a_memory_answers_as_under_any_earlier_head(tmp_path, steps, reader):
    check_history(tmp_path, steps, reader)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=FEW)
@given(STEPS, st.sampled_from(["substrate", "ledger_lda"]))
def test_two_hundred_histories_answer_as_they_did(tmp_path, steps, reader):
    check_history(tmp_path, steps, reader)
