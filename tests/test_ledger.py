"""The ledger: entries are only added, and ``verify`` names the first broken one, in memory and in a file."""

import hashlib
import os
import signal
import sqlite3
import struct
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from conftest import in_a_process, rows
from hypothesis import given, settings
from hypothesis import strategies as st

from ocrrlib.files import InputError
from ocrrlib.ledger import GENESIS, Fault, Ledger, entry_hash, read, write

D = 6
CLASSES = ("a", "b", "c", "d", "e")
places = st.integers(0, 10**6)


def written(n, appended=0, seed=0):
    """A ledger of ``n`` initial and some appended entries."""
    X, y = rows(n + appended, D, seed), np.random.default_rng(seed).integers(0, 5, n + appended)
    ledger = Ledger(X[:n], y[:n])
    for x, label in zip(X[n:], y[n:].tolist()):
        ledger.append(x, label)
    return ledger


def entries(ledger):
    """The ledger's entries as [embedding, label, id, previous, hash], to be rearranged."""
    return list(map(list, zip(ledger.X.copy(), ledger.y.tolist(), ledger.ids, ledger.previous, ledger.hashes)))


def holding(items):
    X, y, *chain = ([item[i] for item in items] for i in range(5))
    return Ledger.from_chain(np.array(X, np.float32).reshape(-1, D), y, *chain)


def forged(id, previous, seed=99):
    """A new entry with a correct hash of its own."""
    x, label = rows(1, D, seed)[0], 3
    return x, label, id, previous, entry_hash(id, label, x, previous)


def flipped(value, byte, bit):
    """An embedding, number or hash with one bit changed."""
    raw = bytearray(value if isinstance(value, bytes) else np.asarray(value).tobytes())
    raw[byte % len(raw)] ^= 1 << bit
    if isinstance(value, bytes):
        return bytes(raw)
    return np.frombuffer(raw, np.asarray(value).dtype).reshape(np.shape(value))[()]


def change(path, script):
    with closing(sqlite3.connect(path)) as base:
        base.executescript(script)


# --- the chain


@given(n=st.integers(0, 12), appended=st.integers(0, 100), later=st.integers(0, 100))
def test_intact_ledger_verifies_against_any_head_it_ever_had(n, appended, later):
    ledger = written(n, appended)
    head = ledger.head
    assert ledger.verify() is None and ledger.verify(head) is None and ledger.verify(head.hex()) is None
    for x in rows(later, D, 7):
        ledger.append(x, 1)
    assert ledger.verify(head) is None and ledger.verify(GENESIS) is None
    assert ledger.size == ledger.writes == n + appended + later
    assert ledger.nbytes == ledger.size * (4 * D + 8 + 8 + 8 + 32 + 32)


def test_encoding_is_canonical_whatever_the_memory_layout():
    ledger, before = written(4, 3), bytes(32)
    for place in range(ledger.size):
        x = ledger.X[place]
        encoded = b"OCRR1" + struct.pack("<qqI", place, ledger.y[place], D) + struct.pack(f"<{D}f", *x) + before
        assert ledger.previous[place] == before
        for variant in (np.repeat(x, 2)[::2], x.astype(">f4"), x.astype(np.float64)):
            assert entry_hash(place, ledger.y[place], variant, before) == ledger.hashes[place]
        before = hashlib.sha256(encoded).digest()
        assert ledger.hashes[place] == before
    assert ledger.head == before
    known = Ledger(np.eye(3, 4, dtype=np.float32), [0, 1, 2]).head.hex()
    assert known == "1f566cd887a2e2f2fbe1d6299616b1642c4fa0bcadd0ed4999dd2071641e6e92"


@pytest.mark.parametrize("field", range(5))
@given(n=st.integers(1, 12), changes=st.lists(st.tuples(places, places, st.integers(0, 7)), min_size=1, max_size=3))
def test_the_first_changed_entry_is_named(field, n, changes):
    items, changes = entries(written(n // 2, n - n // 2)), {change[0] % n: change[1:] for change in changes}
    for place, change in changes.items():
        items[place][field] = flipped(items[place][field], *change)
    assert holding(items).verify() == Fault(min(changes), "changed")


@given(n=st.integers(2, 12), place=places, count=st.integers(1, 12))
def test_removed_entries_are_named(n, place, count):
    ledger, place = written(n), place % (n - 1)
    items = entries(ledger)
    del items[place : min(place + count, n - 1)]  # all but the tail
    assert holding(items).verify() == Fault(place, "removed")
    items = entries(ledger)
    items[place] = forged(place, items[place][3])  # the entry that the next one follows is gone
    assert holding(items).verify() == Fault(place + 1, "removed")


@given(n=st.integers(1, 12), count=st.integers(1, 12))
def test_a_cut_tail_or_rewritten_chain_shows_against_a_head_kept_elsewhere(n, count):
    ledger, count = written(n), min(n, count)
    cut, other = holding(entries(ledger)[: n - count]), written(n, seed=1)
    assert cut.verify() is other.verify() is None  # the chain alone cannot tell
    assert cut.verify(ledger.head) == Fault(n - count, "truncated")
    assert other.verify(ledger.head) == Fault(n, "truncated")


@given(n=st.integers(2, 12), place=places, link=places, previous=st.binary(min_size=32, max_size=32))
def test_inserted_entries_are_named_whatever_they_are_linked_to(n, place, link, previous):
    items = entries(written(n))
    place = 1 + place % (n - 1)
    for before in (previous, items[link % place][3], items[place][3]):
        assert holding(items[:place] + [forged(place, before)] + items[place:]).verify() == Fault(place, "inserted")
    copied = items[:place] + [items[link % n]] + items[place:]  # of two equal neighbours the second is the copy
    assert holding(copied).verify() == Fault(place + (place == link % n), "inserted")
    fork = items + [forged(link % n, items[link % n][3])]
    assert holding(fork).verify() == Fault(link % n, "inserted")  # all between the fork and its rival
    if previous != GENESIS:
        assert holding(items + [forged(n, previous)]).verify() == Fault(n, "removed")


@given(n=st.integers(0, 12), order=st.randoms(use_true_random=False))
def test_the_first_entry_out_of_order_is_named(n, order):
    items, permutation = entries(written(n)), list(range(n))
    order.shuffle(permutation)
    first = next((i for i in range(n) if permutation[i] != i), None)
    expected = None if first is None else Fault(first, "reordered")
    assert holding([items[i] for i in permutation]).verify() == expected


def test_a_ledger_owns_its_entries_and_overwrites_none():
    X, y = rows(4, D, 0), np.arange(4)
    ledger = Ledger(X, y)
    X[:], y[:] = 0, 0
    assert ledger.verify() is None and not hasattr(ledger, "overwrite")


NO_ROW = [np.ones(D - 1), np.ones((1, D)), 1.0, np.full(D, np.nan), np.full(D, 1e300), ["a"] * D]
NO_LABEL = [1.0, "a", None, [0, 1], -1, 2**63]


@pytest.mark.parametrize("x, y", [*((x, 0) for x in NO_ROW), *((np.ones(D), y) for y in NO_LABEL)])
def test_a_refused_entry_leaves_the_ledger_as_it_was(x, y):
    ledger = written(3, 2)
    head = ledger.head
    with pytest.raises(InputError, match="embedding of length 5|holds rows"):
        ledger.append(x, y)
    assert ledger.size == ledger.writes == 5 and ledger.head == head and ledger.verify(head) is None
    if np.shape(x) != (D - 1,):
        with pytest.raises(InputError, match="holds rows"):
            Ledger([x], [y])


@pytest.mark.parametrize("head", ["", "0" * 63, "g" * 64, bytes(31), bytearray(32), 7])
def test_what_is_no_head_is_refused(head):
    with pytest.raises(InputError, match="64 hexadecimal digits"):
        written(2).verify(head)


# --- the file


@settings(max_examples=25)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(0, 3))
def test_what_is_written_in_any_number_of_steps_is_read_back_and_goes_on(tmp_path_factory, steps, start):
    path, ledger = tmp_path_factory.mktemp("ledger") / "l.sqlite", written(start)
    for step, more in enumerate(steps):
        for x in rows(more, D, step + 9):
            ledger.append(x, step % 3)
        assert write(ledger, path, CLASSES) == more + (0 if step else start)
    found = read(path)
    np.testing.assert_array_equal(found.X, ledger.X)
    np.testing.assert_array_equal(found.y, ledger.y)
    assert (found.ids, found.previous, found.hashes) == (ledger.ids, ledger.previous, ledger.hashes)
    assert found.classes == CLASSES and found.verify() is found.verify(ledger.head) is found.verify(found.head) is None
    head = found.head
    found.append(rows(1, D, 7)[0], 1)
    assert write(found, path, CLASSES) == 1 and read(path).verify(head) is None


def test_the_head_of_a_file_covers_the_class_names(tmp_path):
    for name, classes in (("a", CLASSES), ("b", ("a", "bc", "", "d", "e"))):
        write(Ledger(np.eye(3, 4, dtype=np.float32), [0, 1, 2]), tmp_path / name, classes)
    one, other = read(tmp_path / "a"), read(tmp_path / "b")
    assert one.head.hex() == "451775ca3587596a4ff007dcba27193185a9326a88ea273882e985c82b41a5ef"
    assert other.verify() is None and other.verify(one.head) == Fault(3, "truncated")


COLUMNS = {"id": "9", "label": "4", "x": "zeroblob(24)", "previous": "zeroblob(32)", "hash": "zeroblob(32)"}
FAULTS = {
    **{f"UPDATE entries SET {name} = {value} WHERE place = 3": "entry 3: changed" for name, value in COLUMNS.items()},
    "DELETE FROM entries WHERE place = 3": "entry 3: removed",
    "DELETE FROM entries WHERE place >= 4": "entry 4: truncated",
    "UPDATE entries SET place = 99 WHERE place = 2; UPDATE entries SET place = 2 WHERE place = 3;"
    "UPDATE entries SET place = 3 WHERE place = 99": "entry 2: reordered",
    "INSERT INTO entries SELECT 9, id, label, x, previous, hash FROM entries WHERE place = 2": "entry 6: inserted",
    "UPDATE classes SET name = 'zz' WHERE label = 0": "names of the classes: changed",
    "INSERT INTO classes VALUES (5, 'f')": "names of the classes: changed",
    "UPDATE about SET names = zeroblob(32)": "names of the classes: changed",
}
# Beyond reading: an error with the file's name.
FAULTS |= {
    "UPDATE entries SET x = 5 WHERE place = 3": "entry 3 changed",
    "UPDATE entries SET x = x'00' WHERE place = 3": "entry 3 changed",
    "UPDATE entries SET label = 1.5 WHERE place = 3": "entry 3 changed",
    "UPDATE entries SET place = place + 9 WHERE place > 2": "places of entries changed",
    "UPDATE classes SET label = 7 WHERE label = 1": "names of the classes changed",
    "UPDATE classes SET name = x'00' WHERE label = 1": "names of the classes changed",
    "UPDATE classes SET name = CAST(x'ff' AS TEXT) WHERE label = 1": "UTF-8",
    "UPDATE about SET dim = 'x'": "table about changed",
    "UPDATE about SET dim = 999999999999": "table about changed",
    "UPDATE about SET format = 3": "table about changed",
    "DELETE FROM about": "table about changed",
    "DROP TABLE entries": "tables were changed",
    "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE place = NEW.place; END": "tables were",
}


@pytest.mark.parametrize("statement, said", FAULTS.items())
def test_a_change_in_the_file_is_named_in_one_line(tmp_path, statement, said):
    path, ledger = tmp_path / "l.sqlite", written(6)
    write(ledger, path, CLASSES)
    change(path, statement)
    try:
        found = str(read(path).verify(ledger.head))
    except InputError as error:
        found = str(error)
        assert str(path) in found and "\n" not in found
    assert said in found


@given(st.lists(st.tuples(places, st.integers(1, 255)), min_size=1, max_size=4), st.booleans())
def test_no_changed_bytes_of_a_file_go_unnoticed(tmp_path_factory, changes, cut):
    path, ledger = tmp_path_factory.mktemp("ledger") / "l.sqlite", written(6)
    write(ledger, path, CLASSES)
    raw = bytearray(path.read_bytes())
    for place, mask in changes:
        raw[place % len(raw)] ^= mask
    path.write_bytes(raw[: changes[0][0] % len(raw)] if cut else raw)
    try:
        found = read(path)
    except InputError as error:
        assert str(path) in str(error) and "\n" not in str(error)
    else:
        if found.verify(ledger.head) is None:  # bytes that hold nothing
            assert (found.hashes, found.classes) == (ledger.hashes, CLASSES)
            np.testing.assert_array_equal(found.X, ledger.X)


OTHERS = [(written(6, seed=1), CLASSES), (written(3), CLASSES), (written(8), "vwxyz"), (written(8), CLASSES[:2])]


@pytest.mark.parametrize("other, classes", OTHERS)
def test_one_ledger_never_overwrites_another(tmp_path, other, classes):
    path = tmp_path / "l.sqlite"
    write(written(6), path, CLASSES)
    before = path.read_bytes()
    with pytest.raises(InputError, match="l.sqlite (holds another ledger|is not written: label 4)"):
        write(other, path, classes)
    assert path.read_bytes() == before


USES = {"read": read, "write": lambda path: write(written(8), path, CLASSES)}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name, clue", {"junk": "not a database", "other": "no ledger", "no folder/l": "open"}.items())
def test_what_is_no_ledger_is_named_in_one_line(tmp_path, use, name, clue):
    (tmp_path / "junk").write_bytes(b"text,label\n" * 500)
    change(tmp_path / "other", "CREATE TABLE notes (text TEXT)")
    with pytest.raises(InputError, match=f"{tmp_path / name} .*{clue}") as caught:
        USES[use](tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("use", USES)
def test_a_file_that_another_program_holds_is_named_and_later_used(tmp_path, monkeypatch, use):
    path = tmp_path / "l.sqlite"
    write(written(6), path, CLASSES)
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, timeout=0))
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputError, match="l.sqlite .*locked"):
            USES[use](path)
    assert write(written(8), path, CLASSES) == 2


class Full(sqlite3.Connection):
    def __init__(self, *args, **how):
        super().__init__(*args, **how)
        self.execute("PRAGMA max_page_count = 1")  # SQLite raises it to what there is, and then reports a full disk


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    write(written(6), tmp_path / "l.sqlite", CLASSES)
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Full))
    with pytest.raises(InputError, match="l.sqlite.*full"):
        write(written(6, 400), tmp_path / "l.sqlite", CLASSES)
    assert read(tmp_path / "l.sqlite").verify(written(6).head) is None


def test_writes_reach_the_disk_before_they_are_acknowledged(tmp_path, monkeypatch):
    levels = []

    class Noting(sqlite3.Connection):
        def close(self):
            levels.extend(self.execute("PRAGMA synchronous").fetchone())
            super().close()

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Noting))
    write(written(3), tmp_path / "l.sqlite", CLASSES)
    assert levels == [3]  # EXTRA: the file and its folder


class Killing(list):
    def __getitem__(self, place):
        if place == 3900:  # more than SQLite's cache holds: part of it is in the file
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(place)


def write_until_killed(path, acknowledged):
    ledger = Ledger(np.ones((acknowledged, 256)), np.zeros(acknowledged, int))
    if acknowledged:
        assert write(ledger, path, ["a"]) == acknowledged
    for _ in range(4000):
        ledger.append(np.ones(256), 0)
    ledger.ids = Killing(ledger.ids)
    write(ledger, path, ["a"])


@pytest.mark.parametrize("acknowledged", [0, 500])
def test_a_killed_write_loses_nothing_that_was_acknowledged(tmp_path, acknowledged):
    path = tmp_path / "l.sqlite"
    assert in_a_process(write_until_killed, path, acknowledged) == -signal.SIGKILL
    assert path.with_name("l.sqlite-journal").exists()
    if acknowledged:
        found = read(path)
        assert found.size == acknowledged and found.verify() is None
    ledger = Ledger(np.ones((600, 256)), np.zeros(600, int))
    assert write(ledger, path, ["a"]) == 600 - acknowledged and read(path).verify(ledger.head) is None
