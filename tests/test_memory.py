"""The correction memory: answers, bad input, threads and processes, erasure, damage, and what is on disk."""

import shutil
import sqlite3
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest
from conftest import clusters, rows
from hypothesis import given, settings
from hypothesis import strategies as st

from ocrrlib import CorrectionMemory
from ocrrlib.files import InputError
from ocrrlib.memory import proven
from ocrrlib.systems import make
from tests import torture
from tests.auditor import letters, sql

D = 8
X, Y = clusters(6, 10, D, seed=0)
LABELS = [f"class {y}" for y in Y]


@contextmanager
def refused(what=""):
    with pytest.raises(InputError) as caught:
        yield
    assert str(what) in str(caught.value) and len(str(caught.value).splitlines()) == 1


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.sqlite"


@pytest.fixture
def memory(path):
    with CorrectionMemory.open(path) as memory:
        memory.learn(X, LABELS, by="ana")
        yield memory


def test_texts_are_learnt_asked_and_corrected(path):
    with CorrectionMemory.open(path, encoder=letters) as memory:
        assert memory.learn(["lost card", "no pin", "card gone"], ["lost", "pin", "lost"]) == range(
            3
        )
        answer = memory.predict("my card was swallowed")
        assert answer.label == "lost" and 0 < answer.confidence <= 1
        assert memory.correct("my card was swallowed", "swallowed", by="ana") == 3
        (answer,) = memory.predict(["my card was swallowed"])
        near = answer.neighbours[0]
        assert (near.entry, near.label, near.text) == (3, answer.label, "my card was swallowed")
        assert near.cosine == pytest.approx(1) and near.when.tzinfo and len(memory) == 4
        assert memory.entry(3)["author"] == "ana" and memory.labels == ["lost", "pin", "swallowed"]
    with CorrectionMemory.open(path, encoder=letters) as memory:
        assert memory.predict("my card was swallowed") == answer
    with refused("written with encoder letters"):
        CorrectionMemory.open(path, encoder="all-MiniLM-L6-v2")


@pytest.mark.parametrize("reader", ["substrate", "ledger_lda", "ledger_plda", "substrate_hnsw"])
def test_answers_are_those_of_the_system_however_many_labels_come(path, reader):
    pairs, Q = (
        [*zip(X[20:], LABELS[20:]), *zip(rows(34, D, 5), map("new {}".format, range(34)))],
        rows(15, D, 3),
    )
    names = list(dict.fromkeys([*LABELS, *(label for _, label in pairs)]))
    system = make(reader).fit(X[:20], np.array(list(map(names.index, LABELS[:20]))), range(64))
    with CorrectionMemory.open(path, reader=reader) as memory:
        memory.learn(X[:20], LABELS[:20])
        for i, (x, label) in enumerate(pairs):
            if i % 9 == 0:
                assert [answer.label for answer in memory.predict(Q)] == [
                    names[id] for id in system.predict(Q)
                ]
            memory.correct(x, label)
            system.correct(x, names.index(label))
        answers, p = memory.predict(Q), system.predict_proba(Q)
        assert len(names) == len(memory.labels) == 40
        np.testing.assert_allclose(
            [a.confidence for a in answers], p[range(15), system.predict(Q)], atol=1e-6
        )
    with CorrectionMemory.open(path, reader=reader) as memory:
        assert [answer.label for answer in memory.predict(Q)] == [
            names[id] for id in system.predict(Q)
        ]


BAD = {
    "empty text": lambda memory: memory.learn(["a", " "], ["x", "y"]),
    "texts without an encoder": lambda memory: memory.learn(["a"], ["x"]),
    "NaN": lambda memory: memory.learn([X[0], X[1] * np.nan], ["x", "y"]),
    "another length": lambda memory: memory.learn(X[:2, :5], ["x", "y"]),
    "fewer labels": lambda memory: memory.learn(X[:2], ["x"]),
    "empty label": lambda memory: memory.learn(X[:2], ["x", " "]),
    "zero byte": lambda memory: memory.learn(X[:2], ["x", "a\0b"]),
    "no such entry": lambda memory: memory.forget(10**30),
    "no such proof": lambda memory: memory.prove_entry(60),
    "no head": lambda memory: memory.verify("a head"),
    "closed": lambda memory: (memory.close(), memory.predict(X[0])),
    "no reader of ledgers": lambda memory: CorrectionMemory.open(memory.path, reader="slda"),
}


@pytest.mark.parametrize("call", BAD.values(), ids=BAD)
def test_bad_input_is_refused_in_one_line_and_changes_nothing(memory, call):
    head = memory.head()
    with refused():
        call(memory)
    with CorrectionMemory.open(memory.path) as again:
        assert again.head().root == head.root


def test_a_trigger_that_is_planted_while_it_is_open_is_refused_before_a_write(memory):
    sql(
        memory.path,
        [
            "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE place = 60; END"
        ],
    )
    with refused("tables"):
        memory.correct(X[0], "a")


def test_an_empty_memory_has_no_answer_and_its_first_entry_sets_the_length(path):
    with CorrectionMemory.open(path) as one, CorrectionMemory.open(path) as other:
        with refused("empty"):
            one.predict(X[0])
        one.correct(X[0], "a")
        for use in (partial(other.correct, label="b"), other.predict):
            with refused("values"):
                use(X[0, :5])
        assert other.predict(X[0]).label == "a" and one.verify() is None


def write_many(path, writer):
    """What four threads wrote: places and labels as they were acknowledged."""
    with CorrectionMemory.open(path) as memory, ThreadPoolExecutor(4) as threads:

        def work(thread):
            told = {}
            for i in range(6):
                label = f"{writer} {thread} {i}"
                places = (
                    [memory.correct(X[i], label)] if i % 2 else memory.learn(X[:5], [label] * 5)
                )
                told |= dict.fromkeys(places, label)
                assert memory.predict(X[i]).neighbours[0].cosine > 0.99
            return told

        return dict(item for told in threads.map(work, range(4)) for item in told.items())


def test_threads_and_processes_write_and_read_the_same_file(path):
    with (
        CorrectionMemory.open(path) as early,
        ProcessPoolExecutor(2, get_context("spawn")) as processes,
    ):
        one, other = processes.map(partial(write_many, path), range(2))
        assert not one.keys() & other.keys() and sorted(one | other) == list(range(2 * 4 * 18))
        with CorrectionMemory.open(path) as late:
            assert early.verify() is None and early.head().root == late.head().root
            assert {place: early.entry(place)["label"] for place in range(len(late))} == one | other
            assert early.predict(X) == late.predict(X)


def test_a_file_can_be_made_by_several_at_once(tmp_path):
    start = threading.Barrier(2, timeout=100)

    def work(_):
        for i in range(40):
            start.wait()
            with CorrectionMemory.open(tmp_path / f"{i}.sqlite") as memory:
                memory.correct(X[0], "a")
                start.wait()
                assert len(memory) == 2

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, range(2)))


def test_nothing_of_a_forgotten_entry_is_left_and_all_proofs_hold(path):
    words = ["my secret", "private label", "somebody"]
    with (
        CorrectionMemory.open(path, encoder=letters) as memory,
        CorrectionMemory.open(path) as other,
    ):
        memory.learn(["my card", words[0] * 2000], ["lost", words[1]], by=words[2])
        memory.correct("a pin", "pin")
        vector, head, proof = (
            bytes.fromhex(memory.entry(1)["x"]),
            memory.head(),
            memory.prove_entry(1),
        )
        assert other.predict(np.ones(D)).label in memory.labels
        memory.forget(1, by="ben")
        memory.forget(0)
        files = list(path.parent.iterdir())
        assert {file.name for file in files} == {"m.sqlite", "m.sqlite-wal", "m.sqlite-shm"}
        for word in [vector, *map(str.encode, words)]:
            assert not any(word in file.read_bytes() for file in files)
        for reader in (memory, other):
            answer = reader.predict(np.ones(D))
            assert (
                answer.label == "pin" and len(answer.neighbours) == 1 and reader.labels == ["pin"]
            )
        assert (
            memory.verify(str(head)) is None
            and len(memory) == 5
            and memory.entry(3)["author"] == "ben"
        )
        assert (
            proven(proof)[0]["label"] == words[1]
            and "label" not in proven(memory.prove_entry(1))[0]
        )
        assert memory.prove_extension(str(head)).startswith("old 3")
        for place in (1, 3):
            with refused("nothing to erase"):
                memory.forget(place)
        assert other.verify(str(head), str(memory.head())) is None


def test_what_somebody_reads_delays_an_erasure_and_is_named(memory, monkeypatch):
    monkeypatch.setattr("ocrrlib.memory.database.PATIENCE", 0)
    with (
        closing(sqlite3.connect(memory.path)) as reader,
        CorrectionMemory.open(memory.path) as impatient,
    ):
        reader.execute("BEGIN").execute("SELECT * FROM entries").fetchone()
        with refused("others still read"):
            impatient.forget(0)
    assert memory.verify() is None and "label" not in memory.entry(0)


def test_all_entries_are_exported(memory, tmp_path):
    memory.forget(2)
    for name, read in (("a.csv", pd.read_csv), ("a.parquet", pd.read_parquet)):
        memory.export(tmp_path / name)
        table = read(tmp_path / name)
        assert (
            len(table) == 61
            and table["label"][:2].tolist() == LABELS[:2]
            and pd.isna(table["label"][2])
        )
        assert pd.to_datetime(table["time"])[0] == memory.predict(X[0]).neighbours[0].when
    np.testing.assert_array_equal(np.frombuffer(table["x"][0], np.float32), X[0])


def test_a_strangers_file_is_named_in_one_line_and_stays(tmp_path):
    (tmp_path / "junk").write_bytes(b"text,label\n" * 500)
    (tmp_path / "folder").mkdir()
    sql(tmp_path / "other", ["CREATE TABLE notes (text TEXT)"])
    before = {file: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    for name in ("junk", "other", "folder", "no folder/m"):
        with refused(tmp_path / name):
            CorrectionMemory.open(tmp_path / name)
    assert {file: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()} == before


class Full(sqlite3.Connection):
    def __init__(self, *args, **how):
        super().__init__(*args, **how)
        self.execute(
            "PRAGMA max_page_count = 1"
        )  # SQLite raises it to what there is, and then reports a full disk


def test_a_full_disk_loses_nothing(memory, monkeypatch):
    head = str(memory.head())
    memory.close()
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Full))
        with CorrectionMemory.open(memory.path) as again:
            with refused("full"):
                again.learn(rows(600, D, 1), ["a"] * 600)
            assert len(again) == 60 and again.labels == list(dict.fromkeys(LABELS))
    with CorrectionMemory.open(memory.path) as again:
        assert again.verify(head) is None and again.correct(X[0], "a") == 60


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.sampled_from(["learn", "correct", "forget", "reopen"]), st.integers(0, 40)),
        max_size=12,
    )
)
def test_after_any_use_old_heads_verify_and_answers_are_those_of_a_new_start(
    tmp_path_factory, uses
):
    path, written, heads = tmp_path_factory.mktemp("m") / "m.sqlite", {}, []
    memory = CorrectionMemory.open(path)
    for write, (use, i) in enumerate(uses):
        if use == "learn":
            places = memory.learn(X[i : i + 7], LABELS[i : i + 7])
            written |= {place: (write, X[i + n], LABELS[i + n]) for n, place in enumerate(places)}
        elif use == "correct":
            written[memory.correct(X[i], f"label {i}")] = write, X[i], f"label {i}"
        elif use == "forget" and written:
            memory.forget(place := sorted(written)[i % len(written)])
            del written[place]
        elif use == "reopen":
            memory.close()
            memory = CorrectionMemory.open(path)
        heads.append(str(memory.head()))
        if written:
            writes, vectors, labels = zip(*written.values())
            names, first = sorted(set(labels)), writes.count(writes[0])
            y = np.array(list(map(names.index, labels)))
            system = make("substrate").fit(np.array(vectors[:first]), y[:first], names)
            for x, id in zip(vectors[first:], y[first:].tolist()):
                system.correct(x, id)
            assert [answer.label for answer in memory.predict(X)] == [
                names[id] for id in system.predict(X)
            ]
    assert memory.verify(*heads) is None
    memory.close()


def test_no_changed_file_goes_unnoticed():
    found = torture.mutations(100)
    assert (
        found["refused"]
        and found["reported"]
        and not found["unnoticed"]
        and "not one line" not in found
    )


@pytest.mark.slow
@pytest.mark.parametrize("ordeal, count", [(torture.kills, 40), (torture.cuts, 60)])
def test_nothing_acknowledged_is_lost(ordeal, count):
    if ordeal is torture.cuts and not shutil.which("strace"):
        pytest.skip("strace is not installed")
    found = ordeal(count, seed=1)
    assert not found["lost"] and not found["damaged"] and found["acknowledged"] >= count
