"""What a memory answers under an earlier head stays, whatever anybody appends."""

import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from entries import LABELS, STEP, D, X, refused, rows, step
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from corrigible import CorrectionMemory, verify
from corrigible.ledger.copies import copy
from corrigible.ledger.history import history
from corrigible.proofs.rows import LATEST, Content, act_text, new_rows
from ocrrlib.chain import Fault
from trials.auditor import ADD, sql

Q = rows(4, D, 3)
MERGE = act_text({"merge": [["approve", "deny"], "approve"]})


NEWEST = "SELECT place, hash FROM entries ORDER BY place DESC LIMIT 1"
ERASED = "SELECT place FROM entries WHERE salt IS NULL"


def append(path, *contents, when=None):
    """Append entries as anybody can who may insert rows; return the place of the first."""
    ((place, previous),) = sql(path, [NEWEST])
    new = new_rows(contents, place + 1, previous, when or time.time_ns() // 1000)
    sql(path, *([ADD, row] for row in new))
    return place + 1


def tombstone(place, act=None):
    return Content("", "privacy officer", str(place), b"", act)


@pytest.fixture
def memory(place):
    """A memory of four entries, of which the last was forgotten."""
    with CorrectionMemory.open(place) as memory:
        memory.learn(np.eye(3), ["approve", "deny", "approve"], by="ana")
        memory.correct(np.eye(3)[0], "x")
        memory.forget(3)
        yield memory


@contextmanager
def unchanged(memory):
    """Expect that a memory, and what it was under its newest head, stay as they are."""
    head = memory.head()

    def seen():
        with CorrectionMemory.open(memory.path) as other:
            return [
                (one.labels, one.entries(), one.predict(np.eye(3)), one.history(1).label)
                for one in (memory, memory.at(head), other, other.at(head))
            ]

    before = seen()
    yield head
    assert seen() == before


def test_a_second_tombstone_of_an_entry_counts_for_nothing(memory):
    with unchanged(memory) as head:
        forged = append(memory.path, tombstone(3, MERGE))
        assert memory.verify(head) == verify(memory.path, head) == Fault(forged, "void")
        told = memory.history(3).events[-1]
        assert (told.place, told.what) == (forged, "said to be erased, which counts for nothing")
        assert memory.history(forged).events[0].what == "written, and counts for nothing"
        assert memory.told_by(3) == 4
    assert memory.correct(np.eye(3)[1], "deny", again=True) == forged + 1


VOID = {
    "a tombstone of an entry that is there": tombstone(1, MERGE),
    "of an act": tombstone(5, MERGE),
    "of a tombstone": tombstone(4, MERGE),
    "of itself": tombstone(7, MERGE),
    "of one to come": tombstone(8, MERGE),
    "of none": tombstone(-1, MERGE),
    "of a huge place": tombstone(2**70, MERGE),
    "of another form": tombstone("03", MERGE),
    "of a word": tombstone("three", MERGE),
    "an undo of one to come": Content("", "", None, b"", act_text({"undo": 8})),
    "an undo of itself": Content("", "", None, b"", act_text({"undo": 7})),
    "an undo of a huge place": Content("", "", None, b"", act_text({"undo": 2**70})),
    "no act": Content("", "", None, b""),
    "an act of another form": Content("", "", None, b"", '{"retire": "deny"}'),
    "no JSON": Content("", "", None, b"", "{"),
    "two acts": Content("", "", None, b"", '{"retire":"deny","undo":1}'),
}


@pytest.mark.parametrize("content", VOID.values(), ids=VOID)
def test_what_means_nothing_counts_for_nothing_and_is_named(memory, content):
    memory.undo(memory.retire("approve"))
    with unchanged(memory) as head:
        forged = append(memory.path, content)
        assert forged == 7
        assert memory.verify(head) == Fault(forged, "void")
        assert "counts for nothing" in memory.history(forged).events[0].what
        with refused(f"entry {forged}"):
            memory.undo(forged)
    # What is written later under the place that it names counts as any other.
    place = memory.correct(-np.eye(3)[0], "new")
    assert place == 8 and memory.predict(-np.eye(3)[0]).label == "new"
    assert memory.forget(forged) == [forged]
    assert memory.verify(head, memory.head()) is None
    assert memory.forget(place) == [place] and memory.labels == ["approve", "deny"]


@pytest.mark.parametrize(
    "act", [{"replaces": 6}, {"replaces": 9}, {"undo": 1}, {"replaces": 2**70}, {"replaces": -1}]
)
def test_a_vector_counts_without_an_act_that_is_none(memory, act):
    x = np.float32([0, 0, -1]).tobytes()
    forged = append(memory.path, Content("y", "", None, x, act_text(act)))
    assert memory.verify() == Fault(forged, "void")
    assert memory.labels == ["approve", "deny", "y"]
    assert memory.history(forged).label == "y"
    assert memory.history(forged).events[0].what.endswith("an act that counts for nothing")
    memory.correct(np.eye(3)[1], "deny", again=True)
    memory.correct(np.eye(3)[1], "deny", replaces=forged)
    assert memory.labels == ["approve", "deny"]
    assert memory.forget(forged) == [forged] and memory.verify() is None


def test_an_entry_of_the_latest_time_stops_no_writer(memory):
    append(memory.path, tombstone(3), when=LATEST - 1)
    with unchanged(memory) as head:
        undone = memory.retire("deny")
        memory.undo(undone)
    assert memory.correct(np.eye(3)[1], "deny", again=True) == undone + 2
    assert memory.forget(0) == [0] and memory.verify(head).kind == "void"


def test_a_tombstone_that_was_written_before_its_entry_is_erased_goes_with_it(memory):
    """Else it would be the first one, and say what the entry did."""
    forged = append(memory.path, tombstone(1, MERGE))
    of_it = append(memory.path, tombstone(forged, MERGE))
    head = memory.head()
    then = memory.at(head).entries()
    assert memory.forget(1) == [1, forged, of_it]
    assert memory.told_by(1) > of_it
    left = [entry for entry in then if entry.place != 1]
    append(memory.path, tombstone(1, MERGE))
    with CorrectionMemory.open(memory.path) as other:
        assert memory.at(head).entries() == other.at(head).entries() == memory.entries() == left


def test_one_that_other_programs_know_is_found_to_be_erased_by_them(memory):
    with CorrectionMemory.open(memory.path) as other:
        append(memory.path, tombstone(1), tombstone(2), tombstone(3))
        assert other.labels == ["approve", "deny"]
        memory.forget(1)
        assert other.labels == ["approve"] == memory.labels
        assert "salt" not in other.entry(1) and other.told_by(2) is None


def test_what_is_void_is_copied_and_found_by_who_wrote_it(memory, tmp_path):
    forged = append(memory.path, tombstone(3, MERGE), Content("", "mallory", "no place", b""))
    head = copy(memory.path, tmp_path / "copy.sqlite")
    assert verify(tmp_path / "copy.sqlite", head) == Fault(forged, "void")
    (found,) = memory.would_forget(author="mallory")
    assert (found.place, found.label, found.text) == (forged + 1, "", "no place")
    assert memory.forget_all(author="mallory") == [forged + 1]
    assert memory.forget_all(author="privacy officer") == [forged]
    assert memory.verify(head) is None


def test_a_fault_of_another_kind_is_named_first(memory):
    append(memory.path, tombstone(3, MERGE))
    sql(memory.path, ["UPDATE entries SET label = 'deny' WHERE place = 2"])
    assert verify(memory.path) == Fault(2, "changed")


@pytest.mark.parametrize("content", VOID.values(), ids=VOID)
def test_a_void_entry_is_not_written(memory, content):
    memory.undo(memory.retire("approve"))
    ledger = memory._ledger
    with unchanged(memory):
        with refused("entry 7 would"), ledger.transaction():
            ledger.append([content])
        with refused("entry 7 would"):
            ledger.write(lambda: [content])
    assert len(memory) == 7 and memory.verify() is None


@pytest.mark.parametrize(
    "told",
    [
        [tombstone(3)],  # which was erased
        [tombstone(4)],  # a tombstone
        [tombstone(99)],
        [tombstone("1st")],
        [tombstone(0), tombstone(0)],
        [tombstone(1, MERGE)],
        [tombstone(0), tombstone(5)],  # without its act
        [tombstone(5, act_text({"retire": "approve"}))],
    ],
)
def test_a_tombstone_that_would_not_be_true_is_refused_and_nothing_erased(memory, told):
    memory.retire("deny")
    with unchanged(memory):
        with refused("entr"):
            memory._ledger.erase(lambda: told)
    assert len(memory) == 6 and memory.verify() is None
    assert memory.forget(1) == [1]


# Anybody appends anything

NUMBERS = st.integers(-1, 30) | st.sampled_from([2**31, 2**63, 2**70, -(2**70)])
WORDS = st.sampled_from([*dict.fromkeys(LABELS[:6]), "label 0", "label 1", "new", ""])
ACTS = st.fixed_dictionaries(
    {},
    optional={
        "undo": NUMBERS,
        "replaces": NUMBERS,
        "rename": st.lists(WORDS, min_size=1, max_size=3),
        "merge": st.tuples(st.lists(WORDS, max_size=3), WORDS).map(list),
        "retire": WORDS | NUMBERS,
        "about": st.just({"reason": "so"}),
        "more": st.none(),
    },
)
ONE_ACT = st.one_of(
    NUMBERS.map(lambda place: {"undo": place}),
    NUMBERS.map(lambda place: {"replaces": place}),
    st.tuples(WORDS, WORDS).map(lambda both: {"rename": list(both)}),
    st.tuples(st.lists(WORDS, min_size=1, max_size=3), WORDS).map(lambda m: {"merge": list(m)}),
    WORDS.map(lambda label: {"retire": label}),
)
ACT_TEXTS = (
    st.none()
    | st.sampled_from(["", "{", "{}", "null", "[1]", '{"undo": 1}', '{"undo":1.0}', "9" * 5000])
    | (ACTS | ONE_ACT).map(act_text)
)
TEXTS = st.none() | NUMBERS.map(str) | st.sampled_from(["", " 3", "03", "+3", "three", "3.0", "٣"])
VECTORS = st.just(b"") | st.sampled_from([x.astype("<f4").tobytes() for x in X[:9]])
AUTHORS = st.sampled_from(["", "eva"])
CONTENTS = st.one_of(
    st.builds(Content, WORDS, AUTHORS, TEXTS, VECTORS, ACT_TEXTS),
    ONE_ACT.map(lambda act: Content("", "eva", None, b"", act_text(act))),
)


class Seen:
    """A head, and what the memory answers under it."""

    def __init__(self, memory):
        self.head = memory.head()
        self.look(memory)

    def look(self, memory):
        past = memory.at(self.head)
        self.entries = past.entries()
        self.labels = past.labels
        self.answers = past.predict(Q) if self.entries else None
        stored = memory._ledger.rows()
        size = self.head.size
        self.histories = [history(stored, place, size) for place in range(size)]

    def check(self, memory):
        before = vars(self).copy()
        self.look(memory)
        assert vars(self) == before


class Appended(RuleBasedStateMachine):
    """A memory that is used, and to which anybody appends what the format allows."""

    @initialize()
    def opens(self):
        self.unhurried = pytest.MonkeyPatch()
        self.unhurried.setattr("corrigible.stores.sqlite.PRAGMAS", ["synchronous = OFF"])
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name, "m.sqlite")
        self.memory = CorrectionMemory.open(self.path)
        self.memory.learn(X[:6], LABELS[:6])
        self.seen = [Seen(self.memory)]

    @rule()
    def keeps_a_head(self):
        self.seen.append(Seen(self.memory))

    @rule(what=STEP)
    def uses(self, what):
        erased = {*sql(self.path, [ERASED])}
        step(self.memory, *what)
        self.check_but_for({place for (place,) in {*sql(self.path, [ERASED])} - erased})

    def check_but_for(self, gone):
        """Check that under each head, what was erased is missing, and no more."""
        for seen in self.seen:
            if any(place < seen.head.size for place in gone):
                left = [entry for entry in seen.entries if entry.place not in gone]
                seen.look(self.memory)
                assert seen.entries == left

    @rule(contents=st.lists(CONTENTS, min_size=1, max_size=3))
    def appends(self, contents):
        before = self.memory.entries(), self.memory.labels
        place = append(self.path, *contents)
        places = {*range(place, len(self.memory))}
        if places <= self.memory._ledger.void.keys() and not any(one.x for one in contents):
            assert (self.memory.entries(), self.memory.labels) == before

    @rule(number=st.integers(0, 99), act=ONE_ACT, again=st.booleans())
    def tells_falsely_of_an_erasure(self, number, act, again):
        erased = [place for (place,) in sql(self.path, [ERASED])]
        chosen = erased if again and erased else range(len(self.memory))
        self.appends([tombstone(chosen[number % len(chosen)], act_text(act))])

    @invariant()
    def answers_as_it_did(self):
        fault = self.memory.verify(*(seen.head for seen in self.seen))
        assert fault is None or fault.kind == "void"
        for seen in self.seen:
            seen.check(self.memory)

    @precondition(lambda self: self.memory._ledger.void)
    @rule()
    def erases_what_is_void(self):
        gone = self.memory.forget([*self.memory._ledger.void])
        assert self.memory.verify() is None
        self.check_but_for({*gone})

    def teardown(self):
        try:
            with self.memory, CorrectionMemory.open(self.path) as other:
                for seen in self.seen:
                    seen.check(other)
                other.learn(X[:1], ["at last"])
                assert "at last" in self.memory.labels
        finally:
            self.folder.cleanup()
            self.unhurried.undo()


class TestAppended(Appended.TestCase):
    settings = settings(max_examples=25, stateful_step_count=12, deadline=None)


@pytest.mark.slow
class TestAppendedForLonger(Appended.TestCase):
    settings = settings(max_examples=100, stateful_step_count=20, deadline=None)


@pytest.mark.parametrize("x", [[np.nan] * 3, [0, 0, 0], [1, 0], [1e30, 0, 0], [0.5, 0, 0]], ids=str)
def test_a_vector_that_is_none_counts_for_nothing(memory, x):
    with unchanged(memory) as head:
        forged = append(memory.path, Content("z", "", None, np.float32(x).tobytes()))
    assert memory.verify(head) == Fault(forged, "void")
    assert "z" not in memory.labels
    assert memory.history(forged).events[0].what == "written, and counts for nothing"
    memory.correct(-np.eye(3)[2], "afterwards")
    assert memory.predict(-np.eye(3)[2]).label == "afterwards"
