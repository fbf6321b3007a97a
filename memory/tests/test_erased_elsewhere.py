"""What an open memory reads after an erasure: what changed, and it is as if it were opened anew."""

import pytest
from entries import FEW, MEMORY, STEPS, X, refused, rows, step
from hypothesis import given, settings

from corrigible import CorrectionMemory
from trials.auditor import sql

MANY = rows(1000, len(X[0]), seed=3)


def state(memory):
    """All that a memory shows of its entries by now."""
    vectors = memory._vectors  # what `counted` is made of, and the keys of equal texts
    answers = memory.predict(X) if memory.labels else []
    return (
        answers,
        memory.labels,
        memory.counted.X.tolist(),
        memory.counted.y.tolist(),
        memory.entries(),
        vectors.written.n_first,
        vectors._keys.values.tolist(),
        [memory.told_by(place) for place in range(len(memory))],
        [memory._ledger.done_by(place) for place in range(len(memory))],
        memory._ledger.void,
        memory.head().root,
    )


@pytest.mark.parametrize("batch", [1, 3])
@settings(max_examples=30, deadline=None, suppress_health_check=FEW)
@given(steps=STEPS)
def test_a_memory_is_as_if_opened_anew_whatever_another_one_erased(tmp_path_factory, batch, steps):
    path = tmp_path_factory.mktemp("erased") / "m.sqlite"
    with CorrectionMemory.open(path) as own, CorrectionMemory.open(path) as other:
        own.learn(*MEMORY)
        for n, (what, a, b) in enumerate([*steps, ("forget", 7, 0), ("correct", 3, 1)]):
            step(own, what, a, b)
            if n % batch:
                continue  # it reads several at once
            with CorrectionMemory.open(path) as new:
                assert state(other) == state(own) == state(new)


@pytest.fixture
def read(monkeypatch):
    """Count the rows that a memory's store reads, from now on: a function of the memory."""

    def counted(memory):
        store = memory._ledger.store
        numbers = []
        blocks = store.blocks
        row = store.row

        def read_blocks(first=None):
            for found in blocks(first):
                numbers.append(len(found))
                yield found

        def read_row(place):
            numbers.append(1)
            return row(place)

        monkeypatch.setattr(store, "blocks", read_blocks)
        monkeypatch.setattr(store, "row", read_row)
        return numbers

    return counted


def test_after_another_ones_erasure_a_memory_reads_what_changed(place, read):
    with CorrectionMemory.open(place) as own, CorrectionMemory.open(place) as other:
        own.learn(MANY, ["a", "b"] * 500)
        before = len(other.labels), len(other)
        numbers = read(other), read(own)
        own.forget([5, 17])
        assert (len(other.labels), len(other)) == (2, before[1] + 2)
        assert len(other.counted.y) == len(own.counted.y) == 998
        assert max(map(sum, numbers)) <= 10


def test_an_entry_that_was_changed_as_it_was_erased_is_a_fault(place):
    with CorrectionMemory.open(place) as own, CorrectionMemory.open(place) as other:
        own.learn(MANY, ["a", "b"] * 500)
        assert len(other) == 1000
        own.forget(5)
        sql(place, ["UPDATE entries SET time = time + 1 WHERE place = 5"])
        with refused("entry 5: changed"):
            len(other)


def test_vectors_of_another_length_are_taken_once_all_were_erased(place):
    with CorrectionMemory.open(place) as own, CorrectionMemory.open(place) as other:
        own.learn(X[:3], ["a", "b", "c"])
        assert len(other) == 3
        own.forget([0, 1, 2])
        own.learn(MANY[:2, :4], ["d", "e"])
        assert other.predict(MANY[0, :4]).label == own.predict(MANY[0, :4]).label == "d"
        assert other.correct(MANY[3, :4], "f") == 8
