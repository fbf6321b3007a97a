"""Texts that are stored already: the newest label decides, and nothing is stored twice."""

import warnings

import numpy as np
import pandas as pd
import pytest
from entries import corrigible, rows

from corrigible import CorrectionMemory
from corrigible.ledger.vectors import Keys
from corrigible.proofs.rows import Content

READERS = ["substrate", "ledger_lda"]
D = 8
OTHERS = rows(30, D, seed=3)
X = rows(1, D, seed=4)[0]
OTHER_LABELS = [f"class {i % 5}" for i in range(len(OTHERS))]


def letters(texts):
    """Vectors that do not tell upper from lower case."""
    return np.array([[text.lower().count(c) + 1 for c in "abcdefghiklmnoprst"] for text in texts])


@pytest.fixture(params=READERS)
def memory(request, place):
    with CorrectionMemory.open(place, reader=request.param) as memory:
        memory.learn(OTHERS, OTHER_LABELS)
        yield memory


# The newest label decides


@pytest.mark.parametrize("n_wrong", range(1, 7))
def test_a_stored_text_has_the_label_it_was_given_last(memory, n_wrong):
    wrong = memory.learn([X] * n_wrong, ["shipping"] * n_wrong, again=True)
    head = memory.head()
    right = memory.correct(X, "cancellation")
    answer = memory.predict(X)
    assert answer.label == "cancellation"
    assert f"entry {right}, the newest with an equal vector, overrules" in answer.reason
    assert f"{wrong[-1]} (shipping)" in answer.reason
    assert [entry.place for entry in memory.overruled(right)] == wrong
    assert memory.at(head).predict(X).label == "shipping"
    memory.undo(right)
    assert memory.predict(X).label == "shipping"


def test_a_text_that_is_corrected_to_and_fro_has_its_last_label(memory):
    for label in ["a", "b", "a", "b", "b", "a"]:
        memory.correct(X, label)
        assert memory.predict(X).label == label


def test_of_a_text_without_other_entries_the_reason_names_the_one(memory):
    place = memory.correct(X, "cancellation")
    assert memory.predict(X).reason == f"entry {place} has an equal vector"
    assert memory.predict(rows(1, D, seed=5)[0]).reason is None


@pytest.mark.parametrize("reader", READERS)
def test_a_text_in_another_case_decides_where_its_vector_is_equal(path, reader):
    with CorrectionMemory.open(path, letters, reader) as memory:
        memory.learn(["cancel my order", "lost parcel"], ["cancellation", "shipping"])
        memory.correct("CANCEL my order", "shipping")
        assert memory.predict("cancel my order").label == "shipping"
        memory.correct("cancel my order", "cancellation")
        assert memory.predict("CANCEL my order").label == "cancellation"


def test_a_preview_shows_that_a_correction_of_a_stored_text_holds(memory):
    memory.learn([X] * 4, ["shipping"] * 4, again=True)
    shown = memory.preview(X, "cancellation", [X])
    assert [(one.before, one.after) for one in shown.queries] == [("shipping", "cancellation")]


def test_the_entries_that_a_correction_overrules_are_suspects_and_it_is_none(memory):
    memory.learn(X + 0.1 * rows(5, D, seed=6), ["class 1"] * 5)
    wrong = memory.learn([X] * 4, ["shipping"] * 4, again=True)
    right = memory.correct(X, "class 1")
    found = {one.place: one.instead for one in memory.suspects(100)}
    assert {place: found[place] for place in wrong} == dict.fromkeys(wrong, "class 1")
    assert right not in found


# Nothing is stored twice


def test_what_is_stored_under_the_same_label_is_not_stored_again(memory):
    place = memory.correct(X, "a")
    size = len(memory)
    assert [memory.correct(X, "a") for _ in range(3)] == [place] * 3
    assert memory.learn(OTHERS, OTHER_LABELS) == list(range(len(OTHERS)))
    assert len(memory) == size
    assert memory.correct(X, "a", again=True) == size
    assert memory.correct(X, "b") == size + 1


def test_of_equal_rows_that_come_together_one_is_stored(memory):
    size = len(memory)
    rows_of_one_file = [X, OTHERS[0], X, X, X], ["a", "new", "a", "b", "a"]
    places = memory.learn(*rows_of_one_file)
    assert places == [size, size + 1, size, size + 2, size]
    answer = memory.predict(X, at_least=0.5)
    assert answer.label is None and "written together under several labels" in answer.reason
    assert memory.predict(X).confidence <= 0.5


def test_a_file_that_is_read_again_brings_nothing_back(memory):
    memory.learn([X, OTHERS[0], -X], ["wrong", "new", "gone"])
    size = len(memory)
    right = memory.correct(X, "right")
    memory.undo(size - 2)
    memory.merge(["class 1"], "class 2")
    memory.retire("gone")
    end = len(memory)
    memory.learn([X, OTHERS[0], -X], ["wrong", "new", "gone"])
    memory.learn(OTHERS, OTHER_LABELS)
    assert len(memory) == end and memory.predict(X).label == "right"
    assert memory.correct(X, "wrong") == end > right
    assert memory.predict(X).label == "wrong"


def test_a_replacement_keeps_what_was_noted_unless_another_note_is_given(memory):
    first = memory.correct(X, "a", about={"ticket": 7})
    second = memory.correct(X, "b", replaces=first)
    third = memory.correct(X, "c", replaces=second, about={"ticket": 8})
    assert [entry.about for entry in memory.entries("c")] == [{"ticket": 8}]
    memory.undo(third)
    assert [entry.about for entry in memory.entries("b")] == [{"ticket": 7}]


def test_a_replacement_is_written_whatever_is_stored(memory):
    first = memory.correct(X, "a")
    second = memory.correct(X, "a", replaces=first)
    assert second == first + 1 and [one.place for one in memory.entries("a")] == [second]


def test_what_does_not_count_any_more_is_stored_again(memory):
    undone = memory.correct(X, "a")
    memory.undo(undone)
    erased = memory.correct(X, "a")
    memory.forget(erased)
    size = len(memory)
    assert undone < erased < memory.correct(X, "a") == size


def test_a_label_that_was_renamed_is_the_same_label(memory):
    place = memory.correct(X, "a")
    memory.rename("a", "b")
    assert memory.correct(X, "b") == place
    assert memory.learn([X, X], ["a", "b"]) == [place, place]  # its file, and its export


def test_equal_texts_with_other_vectors_are_other_entries(path):
    with CorrectionMemory.open(path) as memory:
        places = memory.learn(["photo"] * 3, ["cat"] * 3, vectors=np.eye(3))
        assert places == [0, 1, 2]


def test_an_import_twice_is_noticed_and_said(path, tmp_path, monkeypatch):
    monkeypatch.setattr("corrigible.ledger_encoder.load_encoder", lambda name: letters)
    monkeypatch.setenv("OCRR_CACHE_DIR", str(tmp_path / "cache"))
    data = tmp_path / "rows.csv"
    pd.DataFrame({"text": ["cab", "fed", "fed "], "label": ["x", "y", "y"]}).to_csv(data)
    corrigible("new", path)
    assert "2 entries added, 2 in" in corrigible("add", path, data)[1]
    assert (
        "stored already, and left out: 3 (--again adds them, too)"
        in corrigible("add", path, data)[1]
    )
    assert "3 entries added, 5 in" in corrigible("add", path, data, "--again")[1]
    assert "stored as entry" in corrigible("correct", path, "fed", "y")[1]
    said = corrigible("correct", path, "fed", "x")[1]
    assert "older entries with an equal vector say y: undo the wrong ones (1 3 4)" in said
    assert corrigible("undo", path, 1, 3, 4)[1].count("is undone") == 3


# Labels that look alike


@pytest.mark.parametrize("label", ["Damaged  item", "Damaged\xa0item", "Dama\u200bged item"])
def test_blanks_and_invisible_characters_do_not_part_labels(path, label):
    with CorrectionMemory.open(path) as memory:
        memory.learn(np.eye(2), ["Damaged item", label])
        assert memory.labels == ["Damaged item"]


@pytest.mark.parametrize("label", ["delivery", "Delivry", "DELIVERY ", "Deliveries"])
def test_a_new_label_that_looks_like_another_is_named_with_the_way_to_merge_them(path, label):
    with CorrectionMemory.open(path) as memory:
        memory.learn(np.eye(3), ["Delivery"] * 2 + ["lost"])
        if label == "Deliveries":
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                memory.correct(-np.eye(3)[0], label)
            return
        with pytest.warns(UserWarning, match=r"'Delivery' \(2\) and .* \(1\) look alike") as caught:
            memory.correct(-np.eye(3)[0], label)
        assert f"corrigible merge FILE {label.strip()} --into Delivery" in str(caught[0].message)
        memory.correct(-np.eye(3)[1], label)  # said once


def test_labels_with_two_blanks_of_older_files_can_be_merged(path):
    with CorrectionMemory.open(path) as memory:
        memory.learn(np.eye(2), ["Damaged item", "lost"])
        with memory._ledger.transaction():
            x = np.float32([0.6, 0.8]).tobytes()
            memory._ledger.append([Content("Damaged  item", "", None, x)])
        assert "Damaged  item" in memory.labels
        memory.merge(["Damaged  item"], "Damaged item")
        assert memory.labels == ["Damaged item", "lost"]


@pytest.mark.parametrize("blocks", [(3000,), (1, 7, 992, 2000), (2100, 900), (1,) * 300])
def test_keys_are_found_where_they_stand_and_most_others_rule_themselves_out(blocks):
    rng = np.random.default_rng(0)
    numbers = rng.integers(-(2**63), 2**63, sum(blocks), dtype=np.int64)
    numbers[-1] = numbers[5]
    keys = Keys()
    for block in np.split(numbers, np.cumsum(blocks)[:-1]):
        keys.extend(block)
    assert keys.slots_of(numbers[[5]]).tolist() == [5, len(numbers) - 1]
    others = rng.integers(-(2**63), 2**63, 2000, dtype=np.int64)
    assert keys.slots_of(others).size == 0
    assert keys._is_taken[keys._last_bits(others)].mean() < 0.15
