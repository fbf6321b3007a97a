"""The correction memory: answers, bad input, threads, processes, erasure, damage, disk."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections import deque
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from string import ascii_letters
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from entries import LABELS, D, X, clusters, in_a_file, refused, rows
from hypothesis import given, settings
from hypothesis import strategies as st

from corrigible import CorrectionMemory, proven
from ocrrlib.embeddings import halve, widen
from ocrrlib.encoders import DEFAULT_ENCODER, load_encoder
from ocrrlib.files import InputError
from ocrrlib.systems import make
from trials import torture
from trials.auditor import letters, sql


def test_texts_are_learnt_asked_and_corrected(place):
    with CorrectionMemory.open(place, encoder=letters) as memory:
        texts = ["lost card", "no pin", "card gone"]
        assert memory.learn(texts, ["lost", "pin", "lost"]) == [0, 1, 2]
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
    with CorrectionMemory.open(place, encoder=letters) as memory:
        assert memory.predict("my card was swallowed") == answer
    with refused("written with encoder letters"):
        CorrectionMemory.open(place, encoder="all-MiniLM-L6-v2")


@pytest.mark.parametrize("reader", ["substrate", "ledger_lda", "substrate_hnsw"])
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
    assert [answer.label for answer in answers] == expected
    with CorrectionMemory.open(path, reader=reader) as memory:
        assert [answer.label for answer in memory.predict(Q)] == expected


def counted(texts, seed, spread=0.0):
    """Counts of letters, projected at random."""
    counts = np.array([[text.count(letter) for letter in ascii_letters] for text in texts], float)
    projection = np.random.default_rng(seed).normal(size=(len(ascii_letters), D))
    return counts @ (projection + spread * np.random.default_rng(9).normal(size=projection.shape))


class Encoder:
    """Somebody's encoder: its name says nothing of its weights."""

    def __init__(self, seed, spread=0.0):
        self.encode = partial(counted, seed=seed, spread=spread)


OTHER_ENCODERS = {
    "objects": (lambda: Encoder(0), lambda: Encoder(7)),
    "functions": (lambda: lambda texts: counted(texts, 0), lambda: lambda texts: counted(texts, 7)),
    "partials": (lambda: partial(counted, seed=0), lambda: partial(counted, seed=7)),
    "lengths": (
        lambda: lambda texts: counted(texts, 0),
        lambda: lambda texts: counted(texts, 0)[:, :5],
    ),
    "a little": (lambda: Encoder(0), lambda: Encoder(0, 0.1)),
}


@pytest.mark.parametrize("one, other", OTHER_ENCODERS.values(), ids=OTHER_ENCODERS)
def test_another_encoder_of_the_same_name_is_refused(place, one, other):
    with CorrectionMemory.open(place, one()) as memory:
        memory.learn(["zeta", "xi"], ["a", "b"])
        x = memory.counted.X[0]
    with refused("another encoder"):
        CorrectionMemory.open(place, other())
    with CorrectionMemory.open(place, one()) as memory:
        assert memory.predict("zeta").neighbours[0].cosine == pytest.approx(1)
        assert memory.verify() is None
    with CorrectionMemory.open(place) as memory:
        assert memory.predict(x).label == "a"


def test_an_encoder_with_numbers_that_differ_in_rounding_is_the_same(path):
    CorrectionMemory.open(path, Encoder(0)).close()
    with CorrectionMemory.open(path, Encoder(0, 1e-3)) as memory:
        assert memory.correct("a card", "lost") == 0


@pytest.mark.parametrize("probe", ["", "AA", "!", 3, [], "AAAA" * 10])
def test_a_probe_that_is_none_is_refused_in_one_line(place, probe):
    CorrectionMemory.open(place, Encoder(0)).close()
    about = json.dumps([1, "m-0123456789abcdef", "Encoder", probe])
    sql(place, ["UPDATE about SET about = ?", [about]])
    with refused("encoder"):
        CorrectionMemory.open(place, Encoder(0))


def sorting(texts):
    texts.sort(key=len)
    return counted(texts, 0)


def lowering(texts):
    texts[:] = [text.lower() for text in texts]
    return counted(texts, 0)


def test_texts_are_kept_as_given_though_an_encoder_changes_its_list(place):
    texts = ["Where is MY card", "PIN"]
    with CorrectionMemory.open(place, lowering) as memory:
        memory.learn(texts, ["card", "pin"])
        assert [(memory.entry(i)["text"], memory.entry(i)["label"]) for i in range(2)] == [
            ("Where is MY card", "card"),
            ("PIN", "pin"),
        ]
    with CorrectionMemory.open(place, lowering) as memory:
        assert memory.predict(texts[1]).label == "pin"


def test_the_first_vectors_have_the_length_of_the_encoders(place):
    with CorrectionMemory.open(place, letters) as memory:
        with refused("values"):
            memory.learn(["a", "b"], ["x", "y"], vectors=X[:2, :3])
        with refused("values"):
            memory.learn(X[:2, :3], ["x", "y"])
        memory.learn(X[:2], ["x", "y"])
        assert memory.correct("a card", "z") == 2


def centred(texts):
    rows = counted(texts, 0)
    return rows - rows.mean(axis=0)


def as_int8(texts):
    """Ranges of int8 by batch, as of a model that was not calibrated."""
    rows = counted(texts, 0)
    lowest = rows.min(axis=0)
    ranges = np.maximum(rows.max(axis=0) - lowest, 1e-9)
    return ((rows - lowest) / ranges * 255 - 128).astype(np.int8)


@pytest.mark.parametrize(
    "encoder",
    [object(), Encoder, SimpleNamespace(encode=3), 3, lambda texts: None, "tfidf-svd"]
    + [lambda texts: np.random.default_rng().normal(size=(len(texts), D))]
    + [sorting, centred, as_int8]
    + [lambda texts: counted(sorted(texts, key=len, reverse=True), 0)]
    + [lambda texts: counted(sorted(texts), 0)]
    + [lambda texts: np.eye(64)[: len(texts)]]
    + [lambda texts: counted(texts, 0)[:, : 3 + len(texts)]]
    + [lambda texts: np.ones((len(texts), 200_000)), lambda texts: np.ones((len(texts), 0))],
)
def test_an_encoder_that_cannot_be_used_is_refused_before_a_file_is_made(path, encoder):
    with refused():
        CorrectionMemory.open(path, encoder)
    assert not list(path.parent.iterdir())


def test_a_text_of_which_an_encoder_knows_nothing_is_refused(path):
    with CorrectionMemory.open(path, lambda texts: np.zeros((len(texts), D))) as memory:
        with refused("text 0"):
            memory.correct("a card", "lost")
        assert len(memory) == 0


def test_an_encoder_is_loaded_only_for_texts_unless_it_is_given(path, monkeypatch):
    loader = "corrigible.ledger_encoder.load_encoder"
    monkeypatch.setattr(loader, lambda name: partial(counted, seed=0))
    with CorrectionMemory.open(path, "some/model") as memory:
        memory.correct("a card", "lost")
    monkeypatch.setattr(loader, lambda name: partial(counted, seed=7))
    with CorrectionMemory.open(path) as memory:
        assert memory.verify() is None
        assert memory.predict(memory.counted.X[0]).label == "lost"
        with refused("another encoder some/model"):
            memory.predict("a card")
        with refused("another encoder some/model"):
            memory.correct("a card", "lost")
        assert len(memory) == 1


def make_with(paths, seed, start, outcomes):
    """Make or open files with an encoder and let them learn; tell whether it was refused."""
    for path in paths:
        start.wait(100)
        try:
            with CorrectionMemory.open(path, Encoder(seed)) as memory:
                memory.learn(["my card", "a pin"], ["card", "pin"], by=str(seed))
                outcomes.put("learnt")
        except InputError as error:
            outcomes.put("refused" if "another encoder" in str(error) else str(error))


@pytest.mark.slow
def test_of_two_processes_that_make_a_file_with_two_encoders_one_is_refused(tmp_path):
    processes = get_context("spawn")
    start = processes.Barrier(2)
    outcomes = processes.Queue()
    paths = [tmp_path / f"{i}.sqlite" for i in range(20)]
    both = [
        processes.Process(target=make_with, args=(paths, seed, start, outcomes)) for seed in (0, 7)
    ]
    for process in both:
        process.start()
    found = [outcomes.get(timeout=100) for _ in both for _ in paths]
    for process in both:
        process.join()
    assert sorted(found) == ["learnt"] * 20 + ["refused"] * 20
    for path in paths:
        with CorrectionMemory.open(path) as memory:
            (author,) = set(memory.table()["author"])
            expected = Encoder(int(author)).encode(["my card", "a pin"])
            np.testing.assert_allclose(memory.counted.X, widen(halve(expected)), atol=1e-3)


@pytest.mark.slow
def test_a_model_is_the_same_in_other_batches_and_another_one_with_other_weights(path, tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("sentence_transformers")
    model = load_encoder(DEFAULT_ENCODER).func.__self__

    def alone(size):
        return lambda texts: model.encode(texts, batch_size=size)

    CorrectionMemory.open(path, alone(64)).close()
    CorrectionMemory.open(path, alone(1)).close()
    model.max_seq_length = 128
    with refused("another encoder"):
        CorrectionMemory.open(path, alone(64))
    folder = str(tmp_path / "model")
    model.save(folder)
    with CorrectionMemory.open(tmp_path / "f.sqlite", folder) as memory:
        memory.correct("where is my card", "arrival")
    with torch.no_grad():
        for weights in model.parameters():
            weights *= 1 + 0.1 * torch.randn(weights.shape, generator=torch.manual_seed(0))
    model.save(folder)
    with CorrectionMemory.open(tmp_path / "f.sqlite") as memory, refused("another encoder"):
        memory.predict("where is my card")


DEEP = {"a": [[[[[[[[1]]]]]]]]}
TAKES_A_PLACE = [
    CorrectionMemory.undo,
    CorrectionMemory.forget,
    CorrectionMemory.entry,
    CorrectionMemory.history,
    CorrectionMemory.told_by,
    CorrectionMemory.prove_entry,
    lambda memory, place: memory.forget([0, place]),
    lambda memory, place: memory.at(memory.head()).history(place),
    lambda memory, place: memory.correct(X[0], "x", replaces=place),
    lambda memory, place: memory.preview(X[0], "x", replaces=place),
]
BAD = [  # calls, and what the refusal says
    (lambda memory: memory.learn(["a"], ["x"]), "made without an encoder"),
    (lambda memory: memory.learn([X[0], X[1] * np.nan], ["x", "y"]), "row 1 is zero, not finite"),
    (lambda memory: memory.learn([X[0], X[1][:5]], ["x", "y"]), "equally long rows"),
    (lambda memory: memory.learn(pd.DataFrame([["b", "d"]]), ["x", "y"]), "equally long rows"),
    (lambda memory: memory.learn(X[:2, :5], ["x", "y"]), "the vectors have 5 values"),
    (lambda memory: memory.learn(X[:2], "xy"), "is no list of labels"),
    (lambda memory: memory.learn(X[:2], {"x", "y"}), "is no list of labels"),
    (lambda memory: memory.learn(X[:2], ["x"]), "2 rows, 1 labels"),
    (lambda memory: memory.learn(X[:2], ["x", " "]), "row 1: ' ' is no label"),
    (lambda memory: memory.learn(X[:2], ["x", "a\0b"]), "leave out the zero byte"),
    (lambda memory: memory.learn(X[:2], ["x", "y"], about={"a": 1}), "is no list of notes"),
    (lambda memory: memory.predict(X[0].tolist()), "row 0 is 0.1"),
    *(
        (lambda memory, share=share: memory.predict(X[0], at_least=share), "share")
        for share in (0, 1, -1, 95, "0.9", True, np.nan)
    ),
    *(
        (lambda memory, n=n, ask=ask: ask(memory, n), "number of results")
        for n in (-1, 2.5, "3", None)
        for ask in (lambda memory, n: memory.review(X, n), CorrectionMemory.suspects)
    ),
    *(
        (lambda memory, queries=queries: memory.preview(X[0], "class 3", queries), "list")
        for queries in ("a word", 3, None)
    ),
    (lambda memory: memory.correct(X[0], "x", by="a" * 2**20), "shorten it"),
    (lambda memory: memory.correct(X[0], "x", replaces=99), "there is no entry 99"),
    (lambda memory: memory.correct(X[0], "x", about=["ticket"]), "give a JSON object"),
    (lambda memory: memory.correct(X[0], "x", about={"a": "b" * 5000}), "give a JSON object"),
    (lambda memory: memory.correct(X[0], "x", about={"a": np.nan}), "give a JSON object"),
    (lambda memory: memory.correct(X[0], "x", about=DEEP), "8 levels deep"),
    (lambda memory: memory.correct(X[0], "x", about={"a": "\ud800"}), "give a JSON object"),
    (lambda memory: memory.rename("nobody", "somebody"), "there is no label 'nobody'"),
    (lambda memory: memory.rename("class 0", "class 1"), "'class 1' is there already: merge"),
    (lambda memory: memory.rename("class 0", "\ud800"), "is no Unicode text"),
    (lambda memory: memory.merge(["class 0"], "class 0"), "there is nothing to merge"),
    (lambda memory: memory.merge(["class 0", "nobody"], "x"), "there is no label 'nobody'"),
    (lambda memory: memory.merge("class 0", "x"), "is no list of labels"),
    (lambda memory: memory.retire("nobody"), "there is no label 'nobody'"),
    (lambda memory: memory.undo(99), "there is no entry 99"),
    *(
        (lambda memory, number=number, call=call: call(memory, number), what)
        for number, what in (
            (True, "True is no place of an entry"),
            (2**63, f"there is no entry {2**63}"),
            (2**70, f"there is no entry {2**70}"),
            (-1, "there is no entry -1"),
            (60, "there is no entry 60"),
        )
        for call in TAKES_A_PLACE
    ),
    (lambda memory: memory.forget("1"), "is no place of an entry"),
    (lambda memory: memory.entry(None), "is no place of an entry"),
    (lambda memory: memory.entries(since="yesterday"), "is no time"),
    (lambda memory: memory.prove_entry(1.5), "is no place of an entry"),
    (lambda memory: memory.verify("a head"), "no head"),
    (lambda memory: (memory.close(), memory.predict(X[0])), ""),
    (lambda memory: (memory.close(), memory.labels), ""),
    (lambda memory: CorrectionMemory.open(memory.path, reader="slda"), "reads no ledger"),
]


@pytest.mark.parametrize("call, what", BAD)
def test_bad_input_is_refused_in_one_line_and_changes_nothing(memory, call, what):
    head = memory.head()
    with refused(what):
        call(memory)
    with CorrectionMemory.open(memory.path) as again:
        assert again.head().root == head.root


class Word(str):
    """Somebody's own class of texts."""

    __slots__ = ()

    def __str__(self):
        return "something else"


@pytest.mark.parametrize("row", ["", " \n", None, np.nan, pd.NA, b"card", 3, "\ud800", X[0], ["a"]])
@pytest.mark.parametrize("given", [None, X[:3]], ids=["texts alone", "with vectors"])
def test_a_row_that_is_no_text_is_refused_by_its_number(place, row, given):
    with CorrectionMemory.open(place, letters) as memory:
        with refused("row 1"):
            memory.learn(["a card", row, "a pin"], ["x", "y", "z"], vectors=given)
        with refused("row 1"):
            memory.predict(["a card", row])
        assert len(memory) == 0


@pytest.mark.parametrize(
    "form",
    [tuple, iter, np.array, partial(np.array, dtype=object), pd.Series, pd.Index, deque]
    + [lambda values: pd.Series(values, [3, 7], dtype="string"), lambda values: map(Word, values)],
)
def test_texts_and_labels_come_in_any_ordered_form(place, form):
    texts = ["my card", "a pin"]
    with CorrectionMemory.open(place, letters) as memory:
        assert memory.learn(form(texts), form(["1", "2"])) == [0, 1]
        answers = memory.predict(form(texts))
        assert [answer.neighbours[0].text for answer in answers] == texts
        assert memory.learn(iter(texts), ["3", "4"], vectors=letters(texts)) == [2, 3]
        assert memory.predict(iter(letters(texts))) == memory.predict(letters(texts))
        assert memory.predict(pd.Series(letters(texts)[0])) == memory.predict(letters(texts)[0])


@pytest.mark.parametrize("text", ["a" * 2**20, "\u00e9" * 2**19])
def test_a_text_that_is_too_long_for_a_file_is_refused_by_its_number(place, text):
    with CorrectionMemory.open(place, letters) as memory:
        with refused("row 1"):
            memory.learn(["a card", text], ["x", "y"])
        assert len(memory) == 0
        memory.learn(["a card", text[:500_000]], ["x", "y"])


def test_labels_that_mean_the_same_are_one_label(memory):
    same = ["caf\xe9", " cafe\u0301\n", np.str_("caf\xe9"), 1, "1", 1.0, np.int8(1), True, np.True_]
    memory.learn(X[: len(same)], same)
    assert memory.labels[-3:] == ["caf\xe9", "1", "True"]
    for label in (b"a", 0.5, None, np.nan, ""):
        with refused("row 1"):
            memory.learn(X[:2], ["a", label])


def test_a_confidence_is_at_most_1(memory):
    Q, _ = clusters(6, 40, D, seed=1)
    confidences = [answer.confidence for answer in memory.predict(Q)]
    assert 0 < min(confidences) <= max(confidences) <= 1


TRIGGERS = {
    Path: ["CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END"],
    str: [
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "CREATE TRIGGER t BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION f()",
    ],
}


def test_a_trigger_that_is_planted_while_it_is_open_is_refused_before_a_write(memory, place):
    sql(place, *([line] for line in TRIGGERS[str if isinstance(place, str) else Path]))
    with refused("tables"):
        memory.correct(X[0], "a")


def test_an_empty_memory_has_no_answer_and_its_first_entry_sets_the_length(place):
    with CorrectionMemory.open(place) as one, CorrectionMemory.open(place) as other:
        with refused("no entry that counts"):
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


@pytest.mark.parametrize(
    "place", ["file", pytest.param("server", marks=pytest.mark.slow)], indirect=True
)
def test_threads_and_processes_write_and_read_the_same_memory(place):
    with (
        CorrectionMemory.open(place) as early,
        ProcessPoolExecutor(2, get_context("spawn")) as processes,
    ):
        one, other = processes.map(partial(write_many, place), range(2))
        assert not one.keys() & other.keys()
        assert sorted(one | other) == list(range(2 * 4 * 18))
        with CorrectionMemory.open(place) as late:
            assert early.verify() is None
            assert early.head().root == late.head().root
            assert {place: early.entry(place)["label"] for place in range(len(late))} == one | other
            assert early.predict(X) == late.predict(X)


def test_a_file_can_be_made_by_several_at_once(tmp_path):
    start = threading.Barrier(2, timeout=100)

    def work(own):
        for i in range(40):
            start.wait()
            with CorrectionMemory.open(tmp_path / f"{i}.sqlite") as memory:
                memory.correct(X[own], "a")
                start.wait()
                assert len(memory) == 2

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, range(2)))


@pytest.fixture
def forgotten(place):
    """A memory that forgot two entries, what it forgot, and how it was before."""
    words = ["my secret", "private label", "somebody"]
    with CorrectionMemory.open(place, encoder=letters) as memory:
        memory.learn(["my card", words[0] * 2000], ["lost", words[1]], by=words[2])
        memory.correct("a pin", "pin")
        vector = bytes.fromhex(memory.entry(1)["x"])
        head = memory.head()
        proof = memory.prove_entry(1)
        with CorrectionMemory.open(place) as other:
            assert other.predict(np.ones(D)).label in memory.labels
            memory.forget(1, by="ben")
            memory.forget(0)
            secrets = [vector, *(word.encode() for word in words)]
            yield SimpleNamespace(
                memory=memory, other=other, secrets=secrets, head=head, proof=proof
            )


@in_a_file
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


def test_labels_and_entries_are_right_at_once_after_an_entry_was_forgotten(memory):
    with CorrectionMemory.open(memory.path) as other:
        memory.correct(X[0], "another")
        assert other.labels == memory.labels == [*dict.fromkeys(LABELS), "another"]
        assert len(other.counted.y) == 61
        memory.forget(60)
        assert len(memory.counted.y) == 60
        assert memory.labels == list(dict.fromkeys(LABELS)) == other.labels
        np.testing.assert_array_equal(other.counted.y, memory.counted.y)
        with refused("zero byte"):
            memory.learn(X[:2], ["x", "a\0b"])
        assert len(memory.counted.y) == 60


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


@in_a_file
def test_what_somebody_reads_delays_an_erasure_and_is_named(memory, monkeypatch):
    monkeypatch.setattr("corrigible.stores.waiting.LOCK_TIMEOUT", 0)
    with (
        closing(sqlite3.connect(memory.path)) as reader,
        CorrectionMemory.open(memory.path) as impatient,
    ):
        reader.execute("BEGIN").execute("SELECT * FROM entries").fetchone()
        with refused("others still read"):
            impatient.forget(0)
    assert memory.verify() is None
    assert "label" not in memory.entry(0)


def test_all_entries_but_those_erased_are_exported(memory, tmp_path):
    memory.forget(2)
    for name, read in (("a.csv", pd.read_csv), ("a.PARQUET", pd.read_parquet)):
        memory.export(tmp_path / name)
        table = read(tmp_path / name)
        assert table["place"].tolist() == [0, 1, *range(3, 60)]
        assert table["label"].tolist() == LABELS[:2] + LABELS[3:]
        assert pd.to_datetime(table["time"])[0] == memory.predict(X[0]).neighbours[0].when
    np.testing.assert_array_equal(np.frombuffer(table["x"][0], np.float32), X[0])
    memory.export(tmp_path / "a.jsonl")
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines[:2]] == [
        memory.entry(place) | {"text": None, "act": None} for place in (0, 1)
    ]


@pytest.mark.parametrize("name", ["a.json", "a.xlsx", "a", ".csv", "a.csv.gz", "m.sqlite", "a."])
def test_an_export_of_another_format_is_refused_and_leaves_no_file(memory, tmp_path, name):
    before = sorted(tmp_path.iterdir())
    with refused(".csv, .jsonl, .parquet"):
        memory.export(tmp_path / name)
    assert sorted(tmp_path.iterdir()) == before


def export_forever(path, targets):
    with CorrectionMemory.open(path) as memory:
        while True:
            for target in targets:
                memory.export(target)


@pytest.mark.slow
@in_a_file
def test_an_export_that_is_killed_leaves_the_old_one_or_the_new_one(memory, tmp_path):
    whole = {}
    for ending in (".csv", ".jsonl", ".parquet"):
        target = tmp_path / f"a{ending}"
        memory.export(target)
        whole[target] = target.read_bytes()
    killed_within = 0
    rng = np.random.default_rng(0)
    for _ in range(8):
        target.unlink()
        writer = get_context("spawn").Process(target=export_forever, args=(memory.path, [*whole]))
        writer.start()
        while not target.exists():  # until it has written all of them
            writer.join(0.01)
        writer.join(rng.uniform(0, 0.1))
        writer.kill()
        writer.join()
        assert {target: target.read_bytes() for target in whole} == whole
        leftovers = list(tmp_path.glob(".a.*"))
        killed_within += len(leftovers)
        for leftover in leftovers:
            os.utime(leftover, (0, 0))  # the next export removes those older than an hour
        for target in whole:
            memory.export(target)
        assert not list(tmp_path.glob(".a.*"))
    assert killed_within


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


@in_a_file
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
    code = f"import sys, corrigible; print(*{{*sys.modules}} & {{*{heavy}}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
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
