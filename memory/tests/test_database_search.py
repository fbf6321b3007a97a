"""Memories whose vectors stay in PostgreSQL answer as those that read them do."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count

import numpy as np
import psycopg
import pytest

from corrigible import CorrectionMemory
from corrigible.stores import database_search
from corrigible.stores.location import located
from ocrrlib.files import InputError
from trials import database_scale

CLASSES = 12
NUMBERS = count()  # of memories


def rows(d, n, seed=0):
    """Rows (n, d) around centres, their labels (n,), and queries (90, d)."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(CLASSES, d))
    y = rng.integers(0, CLASSES, n)
    X = centres[y] + 0.6 * rng.normal(size=(n, d))
    X[100:140] = X[100]  # copies of one text
    Q = centres[rng.integers(0, CLASSES, 90)] + 0.6 * rng.normal(size=(90, d))
    Q[0] = X[100]
    return X, [str(label) for label in y], Q


def shown(answers):
    """Answers as tuples, without the texts."""
    return [
        (one.label, one.confidence, [(near.entry, near.label, near.cosine) for near in one[2]])
        for one in answers
    ]


@pytest.fixture(scope="module")
def base(postgres):
    return postgres.address(postgres.new_base())


@pytest.fixture
def pair(base, tmp_path):
    """A memory in a file and one in a database, and a function that does the same to both."""
    there = {"name": f"m{next(NUMBERS)}", "search": "database"}
    with (
        CorrectionMemory.open(tmp_path / "m.sqlite") as near,
        CorrectionMemory.open(base, **there) as far,
    ):

        def both(do):
            first, second = (do(memory) for memory in (near, far))
            assert first == second
            return first

        yield near, far, both


@pytest.mark.parametrize("many", [5, 1000])
@pytest.mark.parametrize("d", [8, 48])
def test_the_database_answers_as_memory_does_whatever_was_changed(pair, d, many, monkeypatch):
    monkeypatch.setattr(database_search, "MANY", many)
    near, far, both = pair
    X, labels, Q = rows(d, 1500)
    if many > 5:
        Q = Q[:9]

    def same():
        both(lambda memory: shown(memory.predict(Q)))
        both(lambda memory: shown(memory.predict(Q[:3], 0.9)))
        both(lambda memory: memory.labels)

    both(lambda memory: memory.learn(X, labels))
    same()
    heads = [memory.head() for memory in (near, far)]
    before = shown(near.predict(Q))
    both(lambda memory: memory.correct(Q[0], "new"))
    nearest = near.predict(Q[1]).neighbours[0].entry
    both(lambda memory: memory.correct(Q[1], "a", replaces=nearest))
    same()
    undone = both(lambda memory: memory.undo(5))
    both(lambda memory: memory.rename("3", "three"))
    both(lambda memory: memory.correct(Q[2], "3"))
    both(lambda memory: memory.merge(["4", "5"], "45"))
    retired = both(lambda memory: memory.retire("7"))
    same()
    both(lambda memory: memory.undo(undone))
    both(lambda memory: memory.undo(retired))
    same()
    for memory, head in zip((near, far), heads):
        assert shown(memory.at(head).predict(Q)) == before
    both(lambda memory: memory.forget([100, 3, 17]))
    same()


def test_the_database_reviews_as_memory_does(pair):
    near, far, both = pair
    X, labels, Q = rows(48, 1000)
    both(lambda memory: memory.learn(X, labels))
    both(lambda memory: memory.undo(8))
    both(lambda memory: memory.suspects(30))
    both(lambda memory: [(one.row, one.answer.label) for one in memory.review(Q)])
    both(lambda memory: memory.preview(Q[3], "new", Q))
    nearest = near.predict(Q[3]).neighbours[0].entry
    both(lambda memory: memory.preview(Q[3], "new", Q, replaces=nearest))


def test_vectors_come_back_as_they_were_hashed(pair):
    near, far, both = pair
    X, labels, _ = rows(8, 600)  # some of these are no float16 numbers
    both(lambda memory: memory.learn(X, labels, again=True))
    both(lambda memory: [memory.entry(place)["x"] for place in range(600)])
    assert far.verify(far.head()) is None


@pytest.fixture
def indexed(base):
    """A memory of 2,000 entries with an index, and where it is."""
    where = {"path": base, "name": f"m{next(NUMBERS)}", "search": "database"}
    with CorrectionMemory.open(**where) as memory:
        X, labels, _ = rows(48, 2000)
        memory.learn(X, labels)
        memory.make_index()
        yield memory, where


def test_an_index_finds_nearly_what_exact_search_finds(indexed):
    exact, where = indexed
    _, _, Q = rows(48, 2000)
    with CorrectionMemory.open(**where, ef_search=200) as memory:
        pairs = zip(exact.predict(Q), memory.predict(Q))
        assert np.mean([one.label == other.label for one, other in pairs]) > 0.9


def test_an_index_finds_what_was_just_written_and_nothing_that_does_not_count(indexed):
    other, where = indexed
    with CorrectionMemory.open(**where, ef_search=40) as memory:
        _, _, Q = rows(48, 2000)
        place = other.correct(Q[1], "new")
        assert memory.predict(Q[1]).neighbours[0].entry == place
        other.undo(place)
        gone = memory.predict(Q[1]).label
        other.retire(gone)
        answer = memory.predict(Q[1])
        assert place not in [near.entry for near in answer.neighbours]
        assert len(answer.neighbours) == 5
        assert gone not in [answer.label, *(near.label for near in answer.neighbours)]


def test_an_earlier_head_is_asked_exactly_whatever_an_index_finds_by_now(indexed):
    exact, where = indexed
    _, _, Q = rows(48, 2000)
    head = exact.head()
    then = exact.at(head).predict(Q)
    with CorrectionMemory.open(**where, ef_search=10) as memory:
        for size in (1, 60):  # new neighbours of a query, one or many
            exact.learn(Q[:1] + np.linspace(0, 0.1, size)[:, None], ["new"] * size)
            assert memory.at(head).predict(Q) == then
            assert [memory.at(head).predict(q) for q in Q[:9]] == then[:9]


def test_an_index_that_several_make_at_once_is_made_once(base):
    where = {"path": base, "name": f"m{next(NUMBERS)}", "search": "database"}
    X, labels, _ = rows(48, 2000)
    with ExitStack() as opened:
        memories = [opened.enter_context(CorrectionMemory.open(**where)) for _ in range(4)]
        memories[0].learn(X, labels)
        with ThreadPoolExecutor() as threads:
            made = [threads.submit(memory.make_index) for memory in memories]
        for one in made:
            one.result()
    CorrectionMemory.open(**where, ef_search=40).close()


def test_forgetting_waits_for_no_index_that_is_being_made(indexed, monkeypatch):
    memory, where = indexed
    with psycopg.connect(where["path"]) as other, monkeypatch.context() as patch:
        patch.setattr("corrigible.stores.waiting.LOCK_TIMEOUT", 0)
        # As CREATE INDEX CONCURRENTLY does, and PostgreSQL's own VACUUM
        other.execute(f'LOCK TABLE "{where["name"]}".entries IN SHARE UPDATE EXCLUSIVE MODE')
        with pytest.raises(InputError, match="dead rows hold the content"):
            memory.forget(7)
    with pytest.raises(InputError, match="erased before"):
        memory.forget(7)


def test_forgetting_leaves_no_vector_in_table_and_index(indexed):
    memory, where = indexed
    x = memory.counted.X[7]
    with psycopg.connect(where["path"], autocommit=True) as connection:

        def copies():
            connection.execute("CHECKPOINT")
            found = []
            for table, values in (("nearest", "<f2"), ("entries", "<f4")):
                relation = f'"{where["name"]}".{table}'
                select = "SELECT current_setting('data_directory'), pg_relation_filepath(%s)"
                folder, file = connection.execute(select, [relation]).fetchone()
                with open(f"{folder}/{file}", "rb") as raw:
                    found.append(raw.read().count(x.astype(values).tobytes()))
            return found

        assert copies() == [1, 1]
        memory.forget(7)
        assert copies() == [0, 0]


def test_the_client_holds_no_vectors(base):
    X, labels, _ = rows(384, 3000)
    where = {"path": base, "name": "large", "search": "database"}
    with CorrectionMemory.open(**where) as memory:
        memory.learn(X, labels, again=True)
    tracemalloc.start()
    with CorrectionMemory.open(**where) as memory:
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(memory) == 3000
    assert held < X.nbytes / 2 / 8  # as float32; the rest is for hashes, labels and places


@pytest.mark.parametrize(
    "how, why",
    [
        ({"search": "database", "reader": "ledger_lda"}, "reads all vectors"),
        ({"search": "server"}, "no search 'server'"),
        ({"ef_search": 40}, "search='database'"),
        ({"search": "database", "ef_search": 0}, "no number from 1 to 1000"),
        ({"search": "database", "ef_search": 40}, "no index"),
    ],
)
def test_a_search_that_cannot_be_is_refused(base, how, why):
    with pytest.raises(InputError, match=why):
        CorrectionMemory.open(base, name="refused", **how)
    assert not located(base, "refused").is_there()


def test_vectors_in_a_file_or_without_pgvector_are_not_searched_there(postgres, tmp_path):
    with pytest.raises(InputError, match="is a file"):
        CorrectionMemory.open(tmp_path / "m.sqlite", search="database")
    assert not (tmp_path / "m.sqlite").exists()
    plain = postgres.address(postgres.new_base(vector=False))
    with pytest.raises(InputError, match="CREATE EXTENSION vector there first"):
        CorrectionMemory.open(plain, name="m", search="database")
    assert not located(plain, "m").is_there()
    CorrectionMemory.open(plain, name="m").close()
    with pytest.raises(InputError, match="no pgvector"):
        CorrectionMemory.open(plain, name="m", search="database")


@pytest.mark.slow
def test_the_study_of_scale_measures_a_memory_from_a_client_of_its_own(postgres):
    address = postgres.address(postgres.new_base())
    found = database_scale.measure(address, 1000, efforts=[40])
    exact, fast = found.to_dict("records")
    assert (exact["ef_search"], exact["recall"], exact["agreement"]) == (0, 1, 1)
    assert fast["ef_search"] == 40
    assert 0.5 < fast["recall"] <= 1
    assert 20 < exact["client_mb"] < 300
