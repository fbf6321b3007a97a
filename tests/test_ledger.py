"""The ledger: whatever is done to its past, ``verify`` names the first broken entry and what was done."""

import hashlib
import struct

import numpy as np
import pytest
from conftest import rows
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib.entries import is_fixed
from ocrrlib.errors import InputError
from ocrrlib.ledger import GENESIS, Fault, Ledger, entry_hash

D = 6
FIELDS = ("embedding", "label", "id", "previous", "hash")


def written(n, appended=0, seed=0):
    """A ledger of ``n`` initial and some appended entries."""
    X, y = rows(n + appended, D, seed), np.random.default_rng(seed).integers(0, 5, n + appended)
    ledger = Ledger(X[:n], y[:n])
    for x, label in zip(X[n:], y[n:].tolist()):
        ledger.append(x, label)
    return ledger


def entries(ledger):
    """The ledger's entries as (embedding, label, id, previous, hash), to be rearranged."""
    return list(zip(ledger.X.copy(), ledger.y.tolist(), ledger.ids, ledger.previous, ledger.hashes))


def holding(items):
    """A ledger that holds these entries as they are, as if its memory had been overwritten."""
    ledger = Ledger(np.empty((0, D), np.float32), np.empty(0, np.int64))
    ledger.size = ledger.writes = len(items)
    ledger._X = np.array([item[0] for item in items], np.float32).reshape(-1, D)
    ledger._y = np.array([item[1] for item in items], np.int64)
    ledger._born = np.arange(len(items))
    ledger.ids, ledger.previous, ledger.hashes = ([item[i] for item in items] for i in (2, 3, 4))
    return ledger


def forged(id, previous, seed=99):
    """A new entry whose own hash is right."""
    x, label = rows(1, D, seed)[0], 3
    return x, label, id, previous, entry_hash(id, label, x, previous)


def flip(raw, byte, bit):
    raw = bytearray(raw)
    raw[byte % len(raw)] ^= 1 << bit
    return bytes(raw)


places = st.integers(0, 10**6)


@given(n=st.integers(0, 12), appended=st.integers(0, 12), seed=st.integers(0, 99))
def test_intact_ledger_verifies(n, appended, seed):
    ledger = written(n, appended, seed)
    assert ledger.verify() is None
    assert ledger.verify(head=ledger.head) is None
    assert holding(entries(ledger)).verify(head=ledger.head) is None


def test_empty_ledger_verifies_from_the_first_head_on():
    ledger = written(0)
    assert ledger.head == GENESIS and ledger.verify() is None and ledger.verify(head=GENESIS) is None
    ledger.append(rows(1, D, 1)[0], 2)
    assert ledger.verify(head=GENESIS) is None


@given(appended=st.integers(0, 100), later=st.integers(0, 100))
def test_head_of_an_earlier_moment_verifies_after_growth(appended, later):
    ledger = written(3, appended)
    head = ledger.head
    for x in rows(later, D, 7):
        ledger.append(x, 1)
    assert ledger.verify(head=head) is None


def test_encoding_is_canonical():
    ledger, before = written(4, 3), bytes(32)
    assert ledger.size == 7
    for place in range(ledger.size):
        x = ledger.X[place].tolist()
        encoded = b"OCRR1" + struct.pack("<q", place) + struct.pack("<q", ledger.y[place]) + struct.pack("<I", D)
        encoded += struct.pack(f"<{D}f", *x) + before
        assert ledger.previous[place] == before
        before = hashlib.sha256(encoded).digest()
        assert ledger.hashes[place] == before
    assert ledger.head == before


def test_hash_is_the_same_whatever_the_memory_layout():
    x = rows(1, D, 0)[0]
    spread = np.repeat(x, 2)[::2]
    assert not spread.flags.c_contiguous
    variants = (spread, x.astype(">f4"), x.astype(np.float64))
    assert {entry_hash(1, 2, variant, GENESIS) for variant in variants} == {entry_hash(1, 2, x, GENESIS)}


@pytest.mark.parametrize("field", FIELDS)
@given(n=st.integers(1, 12), place=places, byte=places, bit=st.integers(0, 7))
def test_ledger_reports_the_first_changed_entry(field, n, place, byte, bit):
    ledger = written(n // 2, n - n // 2)
    place %= n
    if field == "embedding":
        ledger.X[place] = np.frombuffer(flip(ledger.X[place].tobytes(), byte, bit), np.float32)
    elif field == "label":
        ledger.y[place] = np.frombuffer(flip(ledger.y[place].tobytes(), byte, bit), np.int64)[0]
    elif field == "id":
        ledger.ids[place] = struct.unpack("<q", flip(struct.pack("<q", place), byte, bit))[0]
    elif field == "previous":
        ledger.previous[place] = flip(ledger.previous[place], byte, bit)
    else:
        ledger.hashes[place] = flip(ledger.hashes[place], byte, bit)
    assert ledger.verify() == Fault(place, "changed")


@given(n=st.integers(2, 12), changes=st.lists(places, min_size=2, max_size=5))
def test_ledger_reports_the_first_of_several_changes(n, changes):
    ledger = written(n)
    for place in changes:
        ledger.y[place % n] = 77
    assert ledger.verify() == Fault(min(place % n for place in changes), "changed")


@given(n=st.integers(2, 12), place=places)
def test_entry_rewritten_with_its_hash_breaks_the_link_after_it(n, place):
    ledger = written(n)
    items, place = entries(ledger), place % (n - 1)
    items[place] = forged(place, items[place][3])
    assert holding(items).verify() == Fault(place + 1, "removed")  # the one that the next entry follows is gone


@given(n=st.integers(2, 12), place=places, count=st.integers(1, 12))
def test_ledger_reports_where_entries_were_removed(n, place, count):
    ledger = written(n)
    place %= n - 1
    items = entries(ledger)
    del items[place : min(place + count, n - 1)]  # all but the tail
    assert holding(items).verify() == Fault(place, "removed")


@given(n=st.integers(1, 12), count=st.integers(1, 12))
def test_cut_tail_shows_against_a_head_noted_elsewhere(n, count):
    ledger, count = written(n), min(n, count)
    cut = holding(entries(ledger)[: n - count])
    assert cut.verify() is None  # the chain alone cannot tell
    assert cut.verify(head=ledger.head) == Fault(n - count, "truncated")
    assert cut.verify(head=ledger.hashes[-count - 1] if n > count else GENESIS) is None


def test_rewritten_chain_shows_against_a_head_noted_elsewhere():
    ledger, other = written(5, seed=0), written(5, seed=1)
    assert other.verify() is None
    assert other.verify(head=ledger.head) == Fault(5, "truncated")


@given(n=st.integers(1, 12), place=places, count=st.integers(1, 4))
def test_ledger_reports_inserted_entries_linked_to_their_predecessor(n, place, count):
    items = entries(written(n))
    place %= n  # before any entry, so also at the start
    before = items[place][3]
    for i in range(count):
        item = forged(place + i, before, seed=100 + i)
        items.insert(place + i, item)
        before = item[4]
    assert holding(items).verify() == Fault(place, "inserted")


def test_entry_linked_to_the_last_one_is_an_append():
    ledger = written(5)
    items = entries(ledger)
    items.append(forged(5, ledger.head))
    assert holding(items).verify(head=ledger.head) is None


@given(n=st.integers(1, 12), place=places, previous=st.binary(min_size=32, max_size=32))
def test_ledger_reports_an_inserted_entry_linked_to_nothing(n, place, previous):
    items = entries(written(n))
    place %= n
    items.insert(place, forged(place, previous))
    assert holding(items).verify() == Fault(place, "inserted")


@given(n=st.integers(2, 12), place=places, link=places)
def test_ledger_reports_an_inserted_entry_linked_to_an_earlier_one(n, place, link):
    items = entries(written(n))
    place = 1 + place % (n - 1)
    items.insert(place, forged(place, items[link % place][3]))
    assert holding(items).verify() == Fault(place, "inserted")


@given(n=st.integers(1, 12), previous=st.binary(min_size=32, max_size=32).filter(GENESIS.__ne__))
def test_forged_entry_at_the_end_linked_to_nothing_is_found(n, previous):
    items = entries(written(n))
    items.append(forged(n, previous))
    assert holding(items).verify() == Fault(n, "removed")  # what it claims to follow is not there


@given(n=st.integers(2, 12), link=places)
def test_fork_at_the_end_is_found_where_it_begins(n, link):
    items = entries(written(n))
    link %= n
    items.append(forged(link, items[link][3]))
    assert holding(items).verify() == Fault(link, "inserted")  # all that stands between the fork and its rival


@given(n=st.integers(1, 12), source=places, place=places)
def test_ledger_reports_a_copied_entry(n, source, place):
    items = entries(written(n))
    source, place = source % n, place % (n + 1)
    items.insert(place, items[source])
    # Of two equal neighbours the second is the one that does not follow.
    assert holding(items).verify() == Fault(source + 1 if place == source else place, "inserted")


@given(n=st.integers(2, 12), a=places, b=places)
def test_ledger_reports_swapped_entries(n, a, b):
    items = entries(written(n))
    a, b = a % n, b % n
    items[a], items[b] = items[b], items[a]
    assert holding(items).verify() == (None if a == b else Fault(min(a, b), "reordered"))


@given(n=st.integers(2, 12), source=places, target=places)
def test_ledger_reports_a_moved_entry(n, source, target):
    items = entries(written(n))
    source, target = source % n, target % n
    items.insert(target, items.pop(source))
    assert holding(items).verify() == (None if source == target else Fault(min(source, target), "reordered"))


@given(n=st.integers(0, 12), order=st.randoms(use_true_random=False))
def test_ledger_reports_the_first_entry_out_of_order(n, order):
    items = entries(written(n))
    permutation = list(range(n))
    order.shuffle(permutation)
    first = next((i for i in range(n) if permutation[i] != i), None)
    expected = None if first is None else Fault(first, "reordered")
    assert holding([items[i] for i in permutation]).verify() == expected


@pytest.mark.parametrize("slot", [0, 3, 4])
def test_overwriting_is_refused_and_changes_nothing(slot):
    ledger = written(3, 2)
    head, X, y = ledger.head, ledger.X.copy(), ledger.y.copy()
    with pytest.raises(TypeError, match="append-only"):
        ledger.overwrite(slot, rows(1, D, 5)[0], 1)
    assert ledger.head == head and ledger.verify() is None
    np.testing.assert_array_equal(ledger.X, X)
    np.testing.assert_array_equal(ledger.y, y)


def test_what_a_ledger_was_made_from_can_change_without_harm():
    X, y = rows(4, D, 0), np.arange(4)
    ledger = Ledger(X, y)
    X[:], y[:] = 0, 0
    assert ledger.verify() is None


def test_a_read_only_view_of_what_others_can_write_to_is_copied():
    X, y = rows(4, D, 0), np.arange(4)
    views = []
    for array in (X, y):
        views.append(array[:])
        views[-1].flags.writeable = False
    ledger = Ledger(*views)
    X[:], y[:] = 0, 0
    assert ledger.verify() is None and ledger.y.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("fixed", [0, 1])
def test_rows_or_labels_that_somebody_can_write_to_are_copied_though_the_others_are_fixed(fixed):
    X, y = rows(4, D, 0), np.arange(4)
    (X, y)[fixed].flags.writeable = False
    ledger = Ledger(X, y)
    (X, y)[1 - fixed][:] = 0
    assert ledger.verify() is None and ledger.y.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("make", [lambda array: array, lambda array: array[1:], lambda array: array[1:][:2]])
def test_what_nobody_can_write_to_is_kept_without_a_copy(make):
    X, y = rows(4, D, 0), np.arange(4)
    for array in (X, y):
        array.flags.writeable = False
    assert np.shares_memory(Ledger(make(X), make(y)).X, X)
    assert is_fixed(np.frombuffer(bytes(8))) and not is_fixed(np.frombuffer(bytearray(8)))


def test_storage_counts_hashes_and_ids():
    assert written(3, 2).nbytes == 5 * (4 * D + 8 + 8 + 8 + 32 + 32)


def test_fault_reads_as_place_and_deed():
    assert str(Fault(7, "removed")) == "entry 7: removed"


NOT_ENTRIES = {
    "short": (np.ones(D - 1), 0, "shape"),
    "a table": (np.ones((1, D)), 0, "shape"),
    "a number": (1.0, 0, "shape"),
    "NaN": (np.full(D, np.nan), 0, "NaN"),
    "infinite": (np.full(D, np.inf), 0, "infinite"),
    "too large for float32": (np.full(D, 1e300), 0, "infinite"),
    "NaN in float32": (np.full(D, np.nan, np.float32), 0, "NaN"),
    "infinite in float32": (np.full(D, -np.inf, np.float32), 0, "infinite"),
    "short in float32": (np.ones(D - 1, np.float32), 0, "shape"),
    "a fraction, in float32": (np.ones(D, np.float32), 0.5, "whole numbers"),
    "negative in float32": (np.ones(D, np.float32), -1, "from 0 up"),
    "words": (["a"] * D, 0, "embeddings"),
    "a fraction": (np.ones(D), 1.0, "whole numbers"),
    "a name": (np.ones(D), "a", "whole numbers"),
    "no label": (np.ones(D), None, "whole numbers"),
    "two labels": (np.ones(D), [0, 1], "shape"),
    "negative": (np.ones(D), -1, "from 0 up"),
    "too large for int64": (np.ones(D), 2**63, "from 0 up"),
}


@pytest.mark.parametrize("x, y, clue", NOT_ENTRIES.values(), ids=NOT_ENTRIES)
def test_a_refused_entry_leaves_the_ledger_as_it_was(x, y, clue):
    ledger = written(3, 64)  # with room for one more, and then without
    for _ in range(2):
        before, writes = entries(ledger), ledger.writes
        with pytest.raises(InputError, match=clue):
            ledger.append(x, y)
        assert ledger.size == ledger.writes == writes == len(entries(ledger)) == len(before)
        assert ledger.verify(head=before[-1][-1]) is None and ledger.head == before[-1][-1]
        while ledger.size < len(ledger._y):
            ledger.append(np.ones(D), 1)


@pytest.mark.parametrize(
    "X, y, clue",
    [
        (np.ones((2, D)), [0], "do not match"),
        (np.ones(D), [0], "do not match"),
        (np.full((1, D), np.nan), [0], "NaN"),
        (np.ones((1, D)), [-1], "from 0 up"),
        (np.ones((1, D)), [0.0], "whole numbers"),
    ],
)
def test_first_entries_are_checked_like_later_ones(X, y, clue):
    with pytest.raises(InputError, match=clue):
        Ledger(X, y)


@pytest.mark.parametrize("label", [1, np.int64(1), np.uint8(1), np.array(1)])
@pytest.mark.parametrize("kind", [list, np.float64, np.float32])
def test_equal_entries_have_equal_hashes_whatever_their_type(label, kind):
    one, other = written(2), written(2)
    x = np.linspace(0, 1, D, dtype=np.float32)
    one.append(x, 1)
    other.append(x.tolist() if kind is list else x.astype(kind), label)
    assert one.head == other.head


def test_heads_are_taken_as_bytes_or_as_digits():
    ledger = written(2, 2)
    noted = ledger.head.hex()
    assert ledger.verify(head=noted) is None and ledger.verify(head=noted.upper()) is None
    assert written(2).verify(head=noted) == Fault(2, "truncated")
    for bad in (noted[:-1], "", "g" * 64, ledger.head[:-1], bytearray(ledger.head), 7):
        with pytest.raises(InputError, match="64 hexadecimal digits"):
            ledger.verify(head=bad)


def test_large_but_finite_rows_are_entries():
    ledger, x = written(2), np.full(D, 3e38, np.float32)  # whose squares are not
    ledger.append(x, 1)
    np.testing.assert_array_equal(ledger.X[2], x)
    assert ledger.verify() is None
