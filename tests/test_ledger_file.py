"""A ledger's file: what is written is read back, grows only, and shows what was done to it."""

import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest
from conftest import rows
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib import ledger_file, stored_ledger
from ocrrlib.errors import InputError
from ocrrlib.files import ROOT
from ocrrlib.ledger import GENESIS, Fault, Ledger

CLASSES = ("a", "b", "c")


def ledger(n=6, seed=0):
    return Ledger(rows(n, 4, seed), np.arange(n) % len(CLASSES))


def change(path, *statements):
    with closing(sqlite3.connect(path)) as base, base:
        for statement in statements:
            base.execute(statement)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5))
def test_what_is_written_in_any_number_of_steps_is_read_back(tmp_path_factory, steps):
    path, written = tmp_path_factory.mktemp("ledger") / "ledger.sqlite", ledger(2)
    X = rows(40, 4, 9)
    for step, more in enumerate(steps):
        for number in range(more):
            written.append(X[5 * step + number], number % 3)
        assert ledger_file.write(written, path, CLASSES) == more + (2 if step == 0 else 0)
    found = ledger_file.read(path)
    np.testing.assert_array_equal(found.X, written.X)
    np.testing.assert_array_equal(found.y, written.y)
    assert (found.ids, found.previous, found.hashes) == (written.ids, written.previous, written.hashes)
    assert found.classes == CLASSES and found.verify(head=written.head) is None
    assert found.verify(head=stored_ledger.from_hex(stored_ledger.head(found))) is None


FAULTS = {
    "changed": (["UPDATE entries SET label = 2 WHERE place = 3"], "entry 3: changed"),
    "removed": (["DELETE FROM entries WHERE place = 3"], "entry 3: removed"),
    "truncated": (["DELETE FROM entries WHERE place >= 4"], "entry 4: truncated"),
    "reordered": (
        [
            "UPDATE entries SET place = 99 WHERE place = 2",
            "UPDATE entries SET place = 2 WHERE place = 3",
            "UPDATE entries SET place = 3 WHERE place = 99",
        ],
        "entry 2: reordered",
    ),
}


@pytest.mark.parametrize("statements, said", FAULTS.values(), ids=FAULTS)
def test_what_was_done_to_the_file_is_named(tmp_path, statements, said):
    path, written = tmp_path / "ledger.sqlite", ledger()
    ledger_file.write(written, path, CLASSES)
    change(path, *statements)
    assert str(ledger_file.read(path).verify(head=written.head)) == said


def test_a_cut_tail_shows_only_against_a_head_noted_elsewhere(tmp_path):
    path, written = tmp_path / "ledger.sqlite", ledger()
    ledger_file.write(written, path, CLASSES)
    change(path, FAULTS["truncated"][0][0])
    assert ledger_file.read(path).verify() is None


def test_a_stored_ledger_goes_on(tmp_path):
    path, written = tmp_path / "ledger.sqlite", ledger()
    ledger_file.write(written, path, CLASSES)
    again = ledger_file.read(path)
    for one in (again, written):
        one.append(rows(1, 4, 7)[0], 1)
    assert again.hashes == written.hashes and ledger_file.write(again, path, CLASSES) == 1
    assert ledger_file.read(path).verify(head=written.head) is None


def test_a_stop_while_writing_leaves_what_was_there(tmp_path, monkeypatch):
    path, written = tmp_path / "ledger.sqlite", ledger()
    ledger_file.write(written, path, CLASSES)
    for x in rows(3, 4, 8):
        written.append(x, 0)
    row = ledger_file._row
    monkeypatch.setattr(ledger_file, "_row", lambda ledger, place: row(ledger, place) if place < 8 else [object()] * 6)
    with pytest.raises(InputError, match="ledger.sqlite"):
        ledger_file.write(written, path, CLASSES)
    assert ledger_file.read(path).size == 6


KILLED = """
import os, signal, sys
import numpy as np
from ocrrlib import ledger_file
from ocrrlib.ledger import Ledger

X, y, row = np.ones((4000, 256), np.float32), np.zeros(4000, int), ledger_file._row

def killed(ledger, place):
    if place == 3900:  # more than SQLite's cache holds: part of it is in the file
        os.kill(os.getpid(), signal.SIGKILL)
    return row(ledger, place)

if sys.argv[2] != "0":
    ledger_file.write(Ledger(X[: int(sys.argv[2])], y[: int(sys.argv[2])]), sys.argv[1], ["a"])
ledger_file._row = killed
ledger_file.write(Ledger(X, y), sys.argv[1], ["a"])
"""


def kill_while_writing(path, size):
    done = subprocess.run([sys.executable, "-c", KILLED, path, str(size)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode < 0 and path.with_name(path.name + "-journal").exists(), done.stderr


def test_what_a_killed_writer_left_is_undone_by_whoever_reads_next(tmp_path, monkeypatch):
    path = tmp_path / "ledger.sqlite"
    kill_while_writing(path, 1000)
    connect = sqlite3.connect
    with monkeypatch.context() as patch:  # as where nothing can be written
        patch.setattr(sqlite3, "connect", lambda name, **how: connect(name.replace("mode=rw", "mode=ro"), **how))
        with pytest.raises(InputError, match="write was interrupted.*`ocrr ledger write` again or make the folder"):
            ledger_file.read(path)
    found = ledger_file.read(path)
    assert found.size == 1000 and found.verify() is None and [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_first_write_that_was_killed_leaves_a_file_that_can_be_written(tmp_path):
    path = tmp_path / "ledger.sqlite"
    kill_while_writing(path, 0)
    with pytest.raises(InputError, match="empty.*`ocrr ledger write`"):
        ledger_file.read(path)
    ledger_file.check_target(path, CLASSES)
    assert ledger_file.write(ledger(), path, CLASSES) == 6


def test_a_file_is_read_while_another_process_writes_and_named_where_it_cannot(tmp_path, monkeypatch):
    path = tmp_path / "ledger.sqlite"
    ledger_file.write(ledger(), path, CLASSES)
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **how: connect(*args, **how | {"timeout": 0}))
    with closing(connect(path, isolation_level=None)) as base:
        base.execute("BEGIN IMMEDIATE")
        base.execute("DELETE FROM entries WHERE place = 5")
        assert path.with_name("ledger.sqlite-journal").exists() and ledger_file.read(path).size == 6
        base.execute("ROLLBACK")
        base.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputError, match="ledger.sqlite is being written by somebody else"):
            ledger_file.read(path)


def damaged(path):
    path.write_bytes(b"SQLite format 3\0" + bytes(200))
    return path


def other(path):
    change(path, "CREATE TABLE notes (text TEXT)")
    return path


def of_format(path):
    ledger_file.write(ledger(), path, CLASSES)
    change(path, "UPDATE about SET format = 3")
    return path


def of_old_format(path):
    change(path, "CREATE TABLE about (format, dim)", "CREATE TABLE classes (label)", "CREATE TABLE entries (place)")
    change(path, "INSERT INTO about VALUES (1, 4)")
    return path


def short(path):
    ledger_file.write(ledger(), path, CLASSES)
    change(path, "UPDATE entries SET x = x'00' WHERE place = 1")
    return path


@pytest.mark.parametrize(
    "make, clue",
    [
        (lambda path: path, "is missing"),
        (damaged, "damaged"),
        (other, "no ledger"),
        (of_format, "format 3.*newer"),
        (of_old_format, "format 1.*anew"),
        (short, "entry 1: changed .its embedding does not have 4 numbers"),
    ],
    ids=["missing", "damaged", "another database", "newer", "older", "short"],
)
def test_what_is_no_ledger_is_refused_by_name(tmp_path, make, clue):
    path = make(tmp_path / "ledger.sqlite")
    with pytest.raises(InputError, match=clue) as caught:
        ledger_file.read(path)
    assert "ledger.sqlite" in str(caught.value)


@pytest.mark.parametrize(
    "labels, rows, classes, clue",
    [
        ([0, 3], [[1, 0], [0, 1]], ["a", "b", "c"], "entry 1 of the ledger has a label without a name, of 3"),
        ([-1, 0], [[1, 0], [0, 1]], ["a", "b", "c"], "entry 0 of the ledger has a label without a name"),
        ([0, 1], [[1, 0], [np.nan, 1]], ["a", "b"], "entry 1 of the ledger is not finite"),
        ([0, 1], [[1, 0], [0, 1]], "ab", "one text: give a sequence of names"),
    ],
)
def test_what_can_never_be_right_is_not_written(tmp_path, labels, rows, classes, clue):
    forced = Ledger(np.zeros((2, 2), np.float32), np.zeros(2, np.int64))
    forced.X[:], forced.y[:], forced.previous, forced.hashes = rows, labels, [], []
    for id, (x, label) in enumerate(zip(forced.X, forced.y.tolist())):
        forced._link(id, label, x)  # what `Ledger` itself refuses, linked all the same
    with pytest.raises(InputError, match=clue):
        ledger_file.write(forced, tmp_path / "l.sqlite", classes)
    assert not list(tmp_path.iterdir())


def test_one_ledger_never_overwrites_another(tmp_path):
    path = tmp_path / "ledger.sqlite"
    ledger_file.write(ledger(), path, CLASSES)
    before = path.read_bytes()
    for another in (ledger(seed=1), ledger(3), ledger(8, seed=1)):
        with pytest.raises(InputError, match="another ledger"):
            ledger_file.write(another, path, CLASSES)
    narrower = Ledger(np.eye(3, dtype=np.float32), np.arange(3))
    with pytest.raises(InputError, match=f"another ledger than the one given, of {ledger().X.shape[1]} numbers a row"):
        ledger_file.write(narrower, path, CLASSES)
    assert path.read_bytes() == before
    with pytest.raises(InputError, match="no folder"):
        ledger_file.write(ledger(), tmp_path / "none/ledger.sqlite", CLASSES)


@pytest.mark.parametrize(
    "statement, clue",
    [
        ("UPDATE entries SET x = 5 WHERE place = 3", "entry 3: changed .its x is not of type"),
        ("UPDATE entries SET label = 'two' WHERE place = 3", "entry 3: changed .its label is not of type"),
        ("UPDATE entries SET label = 1.5 WHERE place = 3", "entry 3: changed .its label is not of type"),
        ("UPDATE entries SET id = 'x' WHERE place = 3", "entry 3: changed .its id is not of type"),
        ("UPDATE entries SET previous = 'x' WHERE place = 3", "entry 3: changed .its previous is not of type"),
        ("UPDATE entries SET hash = 'x' WHERE place = 3", "entry 3: changed .its hash is not of type"),
        ("UPDATE classes SET name = x'00' WHERE label = 1", "name of class 1 is not of type"),
        ("UPDATE classes SET label = 7 WHERE label = 1", "not numbered"),
        ("UPDATE about SET names = 'x'", "no digest"),
        ("UPDATE about SET dim = 'x'", "how long a row is"),
        ("UPDATE classes SET name = CAST(x'ff' AS TEXT) WHERE label = 1", "name of class 1 is not of type"),
        ("UPDATE about SET format = 'x'", "table about: changed .*format"),
        ("ALTER TABLE about DROP COLUMN names", "tables: changed .*names"),
        ("DELETE FROM about", "table about: changed .*format"),
        ("UPDATE entries SET place = place + 9 WHERE place > 2", "entry 3: changed .its place is 12"),
    ],
)
def test_what_is_not_as_it_is_written_is_refused_by_name(tmp_path, statement, clue):
    path = tmp_path / "ledger.sqlite"
    ledger_file.write(ledger(), path, CLASSES)
    change(path, statement)
    for refused in (
        ledger_file.read,
        ledger_file.check_target,
        lambda path: ledger_file.write(ledger(8), path, CLASSES),
    ):
        with pytest.raises(stored_ledger.Broken, match=f"ledger.sqlite: .*{clue}"):
            refused(path)


def test_of_an_entry_of_another_type_and_an_earlier_fault_the_earlier_is_named(tmp_path):
    path = tmp_path / "ledger.sqlite"
    ledger_file.write(ledger(), path, CLASSES)
    change(path, "UPDATE entries SET label = 'x' WHERE place = 4", "UPDATE entries SET label = 2 WHERE place = 1")
    with pytest.raises(stored_ledger.Broken) as caught:
        ledger_file.read(path)
    assert caught.value.fault == Fault(1, "changed")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE classes SET name = 'zz' WHERE label = 0",
        "UPDATE classes SET name = 'bc' WHERE label = 1",
        "INSERT INTO classes VALUES (3, 'd')",
        "DELETE FROM classes",
    ],
)
def test_changed_names_of_classes_are_found(tmp_path, statement):
    path = tmp_path / "ledger.sqlite"
    ledger_file.write(ledger(), path, CLASSES)
    change(path, statement)
    found = ledger_file.read(path)
    assert found.verify() == Fault(0, "renamed") and str(found.verify()) == "names of the classes: changed"
    with pytest.raises(stored_ledger.Broken, match="ledger.sqlite: names of the classes: changed"):
        ledger_file.write(ledger(8), path, CLASSES)


def test_names_rewritten_with_their_digest_show_against_a_head_noted_elsewhere(tmp_path):
    path, other = tmp_path / "ledger.sqlite", tmp_path / "other.sqlite"
    ledger_file.write(ledger(), path, CLASSES)
    ledger_file.write(ledger(), other, ("a", "b", "zz"))
    noted = stored_ledger.from_hex(stored_ledger.head(ledger_file.read(path)))
    assert ledger_file.read(other).verify() is None
    assert ledger_file.read(other).verify(head=noted) == Fault(6, "truncated")


names = st.lists(st.text(st.characters(codec="utf-8"), max_size=2), max_size=3)


@given(names, names)
def test_other_names_have_another_digest(first, second):
    assert (stored_ledger.names_hash(first) == stored_ledger.names_hash(second)) == (first == second)
    assert stored_ledger.names_hash(["ab", "c"]) != stored_ledger.names_hash(["a", "bc"])


@pytest.mark.parametrize("n", [0, 3])
def test_the_head_of_a_file_is_known_before_it_is_written_and_verifies_after_growth(tmp_path, n):
    path, written = tmp_path / "ledger.sqlite", ledger(n)
    ledger_file.write(written, path, CLASSES)
    noted = stored_ledger.head(written, CLASSES)
    assert stored_ledger.head(ledger_file.read(path)) == noted == stored_ledger.head(ledger_file.read(path), CLASSES)
    written.append(rows(1, 4, 7)[0], 1)
    ledger_file.write(written, path, CLASSES)
    assert ledger_file.read(path).verify(head=stored_ledger.from_hex(noted)) is None


def test_other_names_are_not_added_to(tmp_path):
    path, written = tmp_path / "ledger.sqlite", ledger()
    ledger_file.write(written, path, CLASSES)
    before = path.read_bytes()
    for classes in (("x", "y", "z"), CLASSES[:2], (*CLASSES, "d")):
        for refused in (
            lambda: ledger_file.write(written, path, classes),
            lambda: ledger_file.check_target(path, classes),
        ):
            with pytest.raises(InputError, match="other classes|a label without a name, of 2"):
                refused()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "column, value", [("label", "2"), ("id", "9"), ("x", "zeroblob(16)"), ("hash", "zeroblob(32)")]
)
def test_nothing_is_added_to_a_file_in_which_an_entry_was_changed(tmp_path, column, value):
    path, written = tmp_path / "ledger.sqlite", ledger()
    ledger_file.write(written, path, CLASSES)
    change(path, f"UPDATE entries SET {column} = {value} WHERE place = 1")
    written.append(rows(1, 4, 7)[0], 1)
    before = path.read_bytes()
    for one in (written, ledger()):  # with something to add, and without
        with pytest.raises(stored_ledger.Broken, match="ledger.sqlite: entry 1: changed"):
            ledger_file.write(one, path, CLASSES)
    assert path.read_bytes() == before


def test_a_ledger_that_was_changed_is_not_written(tmp_path):
    path, written = tmp_path / "ledger.sqlite", ledger()
    ledger_file.write(written, path, CLASSES)
    change(path, "UPDATE entries SET label = 2 WHERE place = 3")
    found = ledger_file.read(path)  # as it stands there, so that the file is its beginning
    found.append(rows(1, 4, 7)[0], 1)
    for target in (path, tmp_path / "other.sqlite"):
        with pytest.raises(InputError, match="entry 3: changed.*nothing is written"):
            ledger_file.write(found, target, CLASSES)
    assert ledger_file.read(path).size == 6 and not (tmp_path / "other.sqlite").exists()


def test_where_no_file_can_be_written_is_known_before(tmp_path, monkeypatch):
    path = tmp_path / "ledger.sqlite"
    for target, clue in {tmp_path: "is a folder", tmp_path / "none/ledger.sqlite": "no folder .*none; make"}.items():
        with pytest.raises(InputError, match=clue):
            ledger_file.check_target(target)
    ledger_file.check_target(path)
    assert not path.exists()
    ledger_file.write(ledger(), path, CLASSES)
    ledger_file.check_target(path, CLASSES)
    for closed in (path, tmp_path):
        monkeypatch.setattr("os.access", lambda asked, mode: asked != closed)
        with pytest.raises(InputError, match=f"{closed} is read-only"):
            ledger_file.check_target(path)


def test_how_far_a_head_vouches_is_known(tmp_path):
    path, written = tmp_path / "ledger.sqlite", ledger()
    ledger_file.write(written, path, CLASSES)
    found = ledger_file.read(path)
    for size in range(7):
        sealed = stored_ledger.from_hex(stored_ledger.head(ledger(size), CLASSES))
        assert found.vouched(sealed) == (size, True) and found.verify(head=sealed) is None
        if size:
            assert found.vouched(written.hashes[size - 1]) == (size, False)
    for unknown in (GENESIS, ledger(seed=1).head):
        assert found.vouched(unknown) is None


@pytest.mark.parametrize(
    "text, clue",
    [(text, "64 hexadecimal digits") for text in ("", "xyz", "00", "g" * 64)] + [("0" * 64, "before the first entry")],
)
def test_what_is_no_head_is_refused(text, clue):
    with pytest.raises(InputError, match=clue):
        stored_ledger.from_hex(text)
