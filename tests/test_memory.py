"""The correction memory: answers, bad input, threads, processes, erasure, damage, disk."""

import shutil
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing import get_context
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import clusters, rows
from hypothesis import given, settings
from hypothesis import strategies as st

from ocrrlib import CorrectionMemory
from ocrrlib.files import ROOT, InputError
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
        texts = ["lost card", "no pin", "card gone"]
        assert memory.learn(texts, ["lost", "pin", "lost"]) == range(3)
        answer = memory.predict("my card was swallowed")
        assert answer.label == "lost"
        assert 0 < answer.confidence <= 1
        assert memory.correct("my card was swallowed", "swallowed", by="ana") == 3
        (answer,) = memory.predict(["my card was swallowed"])
        near = answer.neighbours[0]
        assert (near.entry, near.label, near.text) == (3, answer.label, "my card was swallowed")
        assert near.cosine == pytest.approx(1)
        assert near.when.tzinfo
        assert len(memory) == 4
        assert memory.entry(3)["author"] == "ana"
        assert memory.labels == ["lost", "pin", "swallowed"]
    with CorrectionMemory.open(path, encoder=letters) as memory:
        assert memory.predict("my card was swallowed") == answer
    with refused("written with encoder letters"):
        CorrectionMemory.open(path, encoder="all-MiniLM-L6-v2")


@pytest.mark.parametrize("reader", ["substrate", "ledger_lda", "ledger_plda", "substrate_hnsw"])
def test_answers_are_those_of_the_system_however_many_labels_come(path, reader):
    later = [*zip(X[20:], LABELS[20:])]
    later += [(x, f"new {i}") for i, x in enumerate(rows(34, D, 5))]
    names = list(dict.fromkeys([*LABELS, *(label for _, label in later)]))
    first = np.array([names.index(label) for label in LABELS[:20]])
    system = make(reader).fit(X[:20], first, range(64))
    Q = rows(15, D, 3)
    with CorrectionMemory.open(path, reader=reader) as memory:
        memory.learn(X[:20], LABELS[:20])
        for i, (x, label) in enumerate(later):
            if i % 9 == 0:
                answers = [answer.label for answer in memory.predict(Q)]
                assert answers == [names[id] for id in system.predict(Q)]
            memory.correct(x, label)
            system.correct(x, names.index(label))
        answers = memory.predict(Q)
        assert len(names) == len(memory.labels) == 40
    ids = system.predict(Q)
    expected = [names[id] for id in ids]
    p = system.predict_proba(Q)[range(15), ids]
    np.testing.assert_allclose([answer.confidence for answer in answers], p, atol=1e-6)
    with CorrectionMemory.open(path, reader=reader) as memory:
        assert [answer.label for answer in memory.predict(Q)] == expected


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
    trigger = "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END"
    sql(memory.path, [trigger])
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
        assert other.predict(X[0]).label == "a"
        assert one.verify() is None


def write_many(path, writer):
    """Write from four threads; labels by the places that were acknowledged."""
    written = {}
    with CorrectionMemory.open(path) as memory, ThreadPoolExecutor(4) as threads:

        def work(thread):
            for i in range(6):
                label = f"{writer} {thread} {i}"
                if i % 2:
                    places = [memory.correct(X[i], label)]
                else:
                    places = memory.learn(X[:5], [label] * 5)
                written.update(dict.fromkeys(places, label))
                assert memory.predict(X[i]).neighbours[0].cosine > 0.99

        list(threads.map(work, range(4)))
    return written


def test_threads_and_processes_write_and_read_the_same_file(path):
    with (
        CorrectionMemory.open(path) as early,
        ProcessPoolExecutor(2, get_context("spawn")) as processes,
    ):
        one, other = processes.map(partial(write_many, path), range(2))
        assert not one.keys() & other.keys()
        assert sorted(one | other) == list(range(2 * 4 * 18))
        with CorrectionMemory.open(path) as late:
            assert early.verify() is None
            assert early.head().root == late.head().root
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


@pytest.fixture
def forgotten(path):
    """A memory that forgot two entries, what it forgot, and how it was before."""
    words = ["my secret", "private label", "somebody"]
    with CorrectionMemory.open(path, encoder=letters) as memory:
        memory.learn(["my card", words[0] * 2000], ["lost", words[1]], by=words[2])
        memory.correct("a pin", "pin")
        vector = bytes.fromhex(memory.entry(1)["x"])
        head = memory.head()
        proof = memory.prove_entry(1)
        with CorrectionMemory.open(path) as other:
            assert other.predict(np.ones(D)).label in memory.labels
            memory.forget(1, by="ben")
            memory.forget(0)
            secrets = [vector, *(word.encode() for word in words)]
            yield SimpleNamespace(
                memory=memory, other=other, secrets=secrets, head=head, proof=proof
            )


def test_nothing_of_a_forgotten_entry_is_left_on_disk(forgotten, path):
    files = list(path.parent.iterdir())
    assert {file.name for file in files} == {"m.sqlite", "m.sqlite-wal", "m.sqlite-shm"}
    for secret in forgotten.secrets:
        assert not any(secret in file.read_bytes() for file in files)


def test_a_forgotten_entry_no_longer_votes_in_any_process(forgotten):
    for reader in (forgotten.memory, forgotten.other):
        answer = reader.predict(np.ones(D))
        assert answer.label == "pin"
        assert len(answer.neighbours) == 1
        assert reader.labels == ["pin"]


def test_heads_and_proofs_hold_after_an_entry_was_forgotten(forgotten):
    memory = forgotten.memory
    head = str(forgotten.head)
    assert memory.verify(head) is None
    assert forgotten.other.verify(head, str(memory.head())) is None
    assert memory.prove_extension(head).startswith("old 3")
    assert proven(forgotten.proof)[0]["label"] == "private label"
    assert "label" not in proven(memory.prove_entry(1))[0]


def test_a_tombstone_is_kept_and_cannot_be_forgotten(forgotten):
    memory = forgotten.memory
    assert len(memory) == 5
    assert memory.entry(3)["author"] == "ben"
    for place in (1, 3):
        with refused("nothing to erase"):
            memory.forget(place)


def test_what_somebody_reads_delays_an_erasure_and_is_named(memory, monkeypatch):
    monkeypatch.setattr("ocrrlib.memory.database.PATIENCE", 0)
    with (
        closing(sqlite3.connect(memory.path)) as reader,
        CorrectionMemory.open(memory.path) as impatient,
    ):
        reader.execute("BEGIN").execute("SELECT * FROM entries").fetchone()
        with refused("others still read"):
            impatient.forget(0)
    assert memory.verify() is None
    assert "label" not in memory.entry(0)


def test_all_entries_are_exported(memory, tmp_path):
    memory.forget(2)
    for name, read in (("a.csv", pd.read_csv), ("a.parquet", pd.read_parquet)):
        memory.export(tmp_path / name)
        table = read(tmp_path / name)
        assert len(table) == 61
        assert table["label"][:2].tolist() == LABELS[:2]
        assert pd.isna(table["label"][2])
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
        # SQLite raises it to what there is, and then reports a full disk.
        self.execute("PRAGMA max_page_count = 1")


def test_a_full_disk_loses_nothing(memory, monkeypatch):
    head = str(memory.head())
    memory.close()
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Full))
        with CorrectionMemory.open(memory.path) as again:
            with refused("full"):
                again.learn(rows(600, D, 1), ["a"] * 600)
            assert len(again) == 60
            assert again.labels == list(dict.fromkeys(LABELS))
    with CorrectionMemory.open(memory.path) as again:
        assert again.verify(head) is None
        assert again.correct(X[0], "a") == 60


def fitted(written):
    """The substrate after writes of (number of the write, vector, label), and its classes."""
    writes, vectors, labels = zip(*written)
    names = sorted(set(labels))
    y = [names.index(label) for label in labels]
    first = writes.count(writes[0])
    system = make("substrate").fit(np.array(vectors[:first]), np.array(y[:first]), names)
    for x, id in zip(vectors[first:], y[first:]):
        system.correct(x, id)
    return system, names


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
    path = tmp_path_factory.mktemp("m") / "m.sqlite"
    written = {}
    heads = []
    memory = CorrectionMemory.open(path)
    for write, (use, i) in enumerate(uses):
        if use == "learn":
            places = memory.learn(X[i : i + 7], LABELS[i : i + 7])
            for place, x, label in zip(places, X[i : i + 7], LABELS[i : i + 7]):
                written[place] = write, x, label
        elif use == "correct":
            place = memory.correct(X[i], f"label {i}")
            written[place] = write, X[i], f"label {i}"
        elif use == "forget" and written:
            place = sorted(written)[i % len(written)]
            memory.forget(place)
            del written[place]
        elif use == "reopen":
            memory.close()
            memory = CorrectionMemory.open(path)
        heads.append(str(memory.head()))
        if written:
            system, names = fitted(written.values())
            answers = [answer.label for answer in memory.predict(X)]
            assert answers == [names[id] for id in system.predict(X)]
    assert memory.verify(*heads) is None
    memory.close()


def test_no_changed_file_goes_unnoticed():
    found = torture.mutations(100)
    assert found["refused"]
    assert found["reported"]
    assert not found["unnoticed"]
    assert "not one line" not in found


def test_its_import_loads_neither_systems_nor_pandas_nor_torch():
    heavy = ["pandas", "pyarrow", "torch", "scipy", "joblib", "ocrrlib.systems", "ocrrlib.rivals"]
    code = f"import sys, ocrrlib.memory; print(*{{*sys.modules}} & {{*{heavy}}})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == ([], "")


@pytest.mark.slow
@pytest.mark.parametrize("ordeal, count", [(torture.kills, 40), (torture.cuts, 60)])
def test_nothing_acknowledged_is_lost(ordeal, count):
    if ordeal is torture.cuts and not shutil.which("strace"):
        pytest.skip("strace is not installed")
    found = ordeal(count, seed=1)
    assert not found["lost"]
    assert not found["damaged"]
    assert found["acknowledged"] >= count
