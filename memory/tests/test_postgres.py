"""A memory on a PostgreSQL server: lost connections, strangers' tables, names, copies."""

import random
from contextlib import contextmanager, suppress
from secrets import token_hex

import psycopg
import pytest
from entries import MEMORY, X, corrigible, refused

from corrigible import CorrectionMemory, Undone, Unknown, proven, verify
from corrigible.ledger.copies import copy
from corrigible.proofs.rows import Content
from corrigible.stores.postgres_connection import Connection, ServerTransaction
from trials.auditor import ALL, KINDS, edit, letters, rewritten, sql
from trials.servers import connection

ENDED = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s"


@pytest.fixture
def place(server):
    """The address of a memory."""
    return f"{server}#{token_hex(8)}"


def cut(place):
    """End the connections of all memories, as a server does that restarts."""
    with connection(place.partition("#")[0]) as base:
        base.execute(ENDED, ["ocrr"])


def test_several_memories_are_in_one_base_each_by_its_name(server):
    names = ["Tickets", "tickets", 'a "b" c.d', "écru"]
    for name in names:
        with CorrectionMemory.open(server, name=name) as memory:
            memory.correct(X[0], f"of {name}")
    for name in names:
        with CorrectionMemory.open(server, name=name) as memory:
            assert memory.predict(X[0]).label == f"of {name}"
            with CorrectionMemory.open(memory.path) as again:
                assert again.labels == memory.labels
            assert memory.origin.startswith(name)


@pytest.mark.parametrize("name", [None, "", "pg_mine", "a\0b", "a%s", "é" * 32])
def test_a_name_that_no_schema_can_have_is_refused(server, name):
    with refused("name"):
        CorrectionMemory.open(server, name=name)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ana:my#secret@db.invalid/base",
        "postgresql://ana:p@secret@db.invalid/base",
        "postgresql://ana:my/secret@db.invalid/base",
        "postgresql+psycopg://ana:secret@db.invalid/base",
        "POSTGRESQL://ana:secret@db.invalid/base",
    ],
)
@pytest.mark.parametrize("name", [None, "tickets"])
def test_a_password_in_an_address_that_cannot_be_read_is_not_shown(address, name):
    with pytest.raises(ValueError) as caught:
        CorrectionMemory.open(address, name=name)
    assert "secret" not in str(caught.value)


def test_what_the_server_could_not_write_is_not_acknowledged(place):
    with CorrectionMemory.open(place) as memory:
        memory.learn(X[:2], ["a", "b"])
        ledger = memory._ledger
        with refused("division by zero"), ledger.transaction():
            ledger.append([Content("c", "", None, X[2].astype("<f4").tobytes())])
            with suppress(psycopg.Error):  # as if an error were told to another writer alone
                ledger.store._ask("SELECT 1 / 0")
            assert ledger.store.has_failed
        assert len(memory) == 2
        assert memory.correct(X[2], "c") == 2


@pytest.mark.parametrize("place_of_it", [-(2**63), -1])
def test_an_entry_before_the_first_is_a_fault(place, place_of_it):
    with CorrectionMemory.open(place) as memory:
        memory.learn(X[:2], ["a", "b"])
        with connection(place) as base:
            base.execute(
                "INSERT INTO entries SELECT %s, time, commitment, previous, hash, salt, label, "
                "author, text, x, act FROM entries WHERE place = 1",
                [place_of_it],
            )
        assert memory.verify().position == 0


def test_a_password_is_in_no_message(server):
    address = server.replace("postgres@", "postgres:secret@") + "&password=secret"
    with CorrectionMemory.open(address, name=token_hex(8)) as memory:
        with pytest.raises(ValueError) as caught:
            memory.predict(X[0])
    assert memory.path in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_server_that_counts_no_dead_rows_is_named_when_an_entry_is_forgotten(postgres):
    base = postgres.new_base(vector=False)
    address = postgres.address(base)
    with CorrectionMemory.open(address, name="m") as memory:
        memory.learn(X[:3], ["a", "b", "c"])
        memory.forget(0)
        with connection(address) as other:
            other.execute(f"ALTER DATABASE {base} SET track_counts = off")
    with CorrectionMemory.open(address, name="m") as memory:
        assert memory.labels == ["b", "c"]
        with refused("set track_counts there, and erase it again"):
            memory.forget(1)
        assert memory.labels == ["c"] and memory.correct(X[0], "a") == 5
        with refused("set track_counts there"):
            memory.forget(1)
    with connection(address) as other:
        other.execute(f"ALTER DATABASE {base} SET track_counts = on")
    with CorrectionMemory.open(address, name="m") as memory:
        assert memory.forget(2) == [2]
        with refused("nothing to erase"):
            memory.forget(1)
        assert memory.verify() is None


# Lost connections


def test_reading_and_writing_go_on_after_a_connection_was_lost(memory, place):
    cut(place)
    assert memory.predict(X[3]).label == MEMORY[1][3]
    cut(place)
    assert memory.correct(X[0], "new") == len(X)
    cut(place)
    assert memory.forget(0) == [0]
    with memory._ledger.snapshot():
        cut(place)
        assert memory.entry(3)["label"] == MEMORY[1][3]
    assert memory.verify() is None


def test_a_snapshot_that_cannot_be_shown_again_is_refused(memory, place):
    with CorrectionMemory.open(place) as other, refused("others wrote"):
        with memory._ledger.snapshot():
            cut(place)
            other.correct(X[0], "new")
            memory.entry(3)


@contextmanager
def lost(monkeypatch, place, when, times=1):
    """Lose the connection before an insert or a commit, or the reply to a commit."""
    left = [times]

    def is_due(now):
        if now != when or not left[0]:
            return False
        left[0] -= 1
        return True

    def send(self):
        if self._pending and is_due("insert"):
            cut(place)
        sent(self)

    def execute(self, query, *values, **how):
        if query == "COMMIT" and self.is_writing and is_due("commit"):
            cut(place)
        return executed(self, query, *values, **how)

    def commit(self):
        if is_due("reply"):
            sent(self)
            self._session.connection.execute("COMMIT")
            self._session.connection.close()
        committed(self)

    sent, committed = ServerTransaction._send, ServerTransaction.commit
    executed = Connection.execute
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "is_writing", True, raising=False)
        patch.setattr(Connection, "execute", execute)
        patch.setattr(ServerTransaction, "_send", send)
        patch.setattr(ServerTransaction, "commit", commit)
        yield
    assert left == [0]


@pytest.mark.parametrize("when", ["insert", "commit", "reply"])
def test_a_write_whose_connection_is_lost_is_written_once(memory, place, monkeypatch, when):
    with CorrectionMemory.open(place) as other:
        with lost(monkeypatch, place, when):
            assert memory.correct(X[0], "new") == len(X)
        with lost(monkeypatch, place, when):
            assert memory.rename("new", "newer") == len(X) + 1
        with lost(monkeypatch, place, when):
            assert memory.forget([1, 2]) == [1, 2]
        assert len(other) == len(memory) == len(X) + 4
        assert memory.labels == other.labels
        assert memory.verify(other.head()) is None


@pytest.mark.parametrize("is_there", [True, False])
def test_a_write_of_unknown_outcome_is_found_by_its_commitment(
    memory, place, monkeypatch, is_there
):
    def unreachable(*_):
        raise psycopg.OperationalError("nobody is there")

    def commit(self):
        if is_there:
            self._send()
            self._session.connection.execute("COMMIT")
        self._session.connection.close()
        with monkeypatch.context() as patch:
            patch.setattr("corrigible.stores.waiting.LOCK_TIMEOUT", 0.1)
            patch.setattr("corrigible.stores.postgres_connection.connected", unreachable)
            committed(self)

    committed = ServerTransaction.commit
    with monkeypatch.context() as patch:
        patch.setattr(ServerTransaction, "commit", commit)
        with pytest.raises(Unknown, match=f"entry {len(X)} was written") as caught:
            memory.correct(X[0], "new")
    found = memory.written(caught.value)
    assert found == (range(len(X), len(X) + 1) if is_there else None)
    assert len(memory) == len(X) + is_there


def test_a_connection_lost_for_too_long_is_told_and_nothing_was_written(memory, place, monkeypatch):
    monkeypatch.setattr("corrigible.stores.waiting.LOCK_TIMEOUT", 0)
    with lost(monkeypatch, place, "insert", times=2), pytest.raises(Undone):
        memory.correct(X[0], "new")
    assert len(memory) == len(X)


# Other programs on the server


def test_an_entry_is_never_older_than_the_one_before_it(memory, place, monkeypatch):
    newest = memory.entry(len(X) - 1)["time"]
    with CorrectionMemory.open(place) as behind:
        monkeypatch.setattr("time.time_ns", lambda: (newest - 3_600_000_000) * 1000)
        assert behind.entry(behind.correct(X[0], "new"))["time"] == newest + 1
        assert behind.verify() is None


def test_an_erasure_that_another_transaction_delays_is_named(memory, place, monkeypatch):
    with connection(place) as reader, reader.transaction():
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM entries")
        with monkeypatch.context() as patch, refused("whose dead rows hold the content"):
            patch.setattr("corrigible.stores.waiting.LOCK_TIMEOUT", 0)
            memory.forget(3)
    with refused("erased before"):
        memory.forget(3)
    dead = "SELECT n_dead_tup FROM pg_stat_all_tables WHERE relid = 'entries'::regclass"
    assert sql(place, [dead]) == [(0,)]


CHANGES = {
    "a trigger": "CREATE TRIGGER t BEFORE UPDATE ON entries EXECUTE FUNCTION "
    "suppress_redundant_updates_trigger()",
    "a rule": "CREATE RULE r AS ON INSERT TO entries DO INSTEAD NOTHING",
    "row security": "ALTER TABLE entries ENABLE ROW LEVEL SECURITY",
    "an heir": "CREATE TABLE heir () INHERITS (entries)",
    "a view": "ALTER TABLE entries RENAME TO old; CREATE VIEW entries AS SELECT * FROM old",
    "another version": "UPDATE about SET about = '[9' || substr(about, 3)",
    "no word": "DELETE FROM about",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_tables_that_would_change_what_is_written_are_refused(memory, place, change):
    memory.close()
    sql(place, [change])
    for use in (CorrectionMemory.open, verify):
        with refused("changed"):
            use(place)


def test_a_memory_that_was_replaced_while_it_is_open_is_not_written(memory, place):
    name = place.partition("#")[2]
    sql(place, [f'DROP SCHEMA "{name}" CASCADE'])
    CorrectionMemory.open(place).close()
    with refused("replaced"):
        memory.correct(X[0], "new")


def test_functions_of_the_same_names_are_never_called(place, memory):
    sql(
        place,
        ["CREATE SCHEMA IF NOT EXISTS evil"],
        [
            "CREATE OR REPLACE FUNCTION evil.current_setting(text) RETURNS text "
            "LANGUAGE sql AS $$ SELECT 'LATIN1' $$"
        ],
    )
    address, _, name = place.partition("#")
    found = f"{address}&options=-csearch_path%3Devil,pg_catalog#{name}"
    with CorrectionMemory.open(found) as again:
        assert again.correct(X[0], "new") == len(X)


@pytest.mark.parametrize("kind", KINDS)
def test_an_edit_of_any_kind_is_named_by_place_and_kind(memory, place, kind):
    items = sql(place, [ALL])
    edited, expected = edit(items, kind, random.Random(0))
    assert rewritten(place, edited, memory.head()) == expected


# Copies


def test_old_heads_and_proofs_fit_a_copy_on_a_server_and_back(place, tmp_path):
    file = tmp_path / "m.sqlite"
    back = tmp_path / "back.sqlite"
    with CorrectionMemory.open(file, letters) as memory:
        memory.learn(["lost card", "no pin", "a crane"], ["lost", "pin", "other"], by="ana")
        heads = [memory.head()]
        memory.rename("lost", "gone")
        memory.forget(1)
        heads.append(memory.head())
        proof = memory.prove_entry(0)
        answer = memory.predict("a card")
        rows = memory._ledger.rows()
    assert copy(file, place).root == copy(place, back).root == heads[-1].root
    for other in (place, back):
        with CorrectionMemory.open(other, letters) as memory:
            assert memory.verify(*heads) is None
            assert memory._ledger.rows() == rows
            assert memory.prove_entry(0, head=heads[-1]) and memory.predict("a card") == answer
            assert proven(proof)[0] == memory.entry(0)
            memory.correct("a card", "new")


def test_a_copy_replaces_no_memory(memory, place, path):
    CorrectionMemory.open(path).close()
    with refused("a memory in"):
        copy(place, path)
    with refused("there is no memory"):
        copy(f"{place}none", path.with_name("new"))


def test_a_text_that_a_server_cannot_hold_is_refused(memory):
    with CorrectionMemory.open(f"{memory.path}texts", letters) as texts, refused("zero byte"):
        texts.correct("a card\0", "lost")


def test_commands_take_an_address_and_a_name(server, tmp_path):
    name = token_hex(8)
    with CorrectionMemory.open(server, name=name) as memory:
        memory.learn(X[:9], MEMORY[1][:9])

    named = ["--name", name]
    assert "all as it was written" in corrigible("verify", server, *named)[1]
    assert "the write-ahead log" in corrigible("forget", server, 0, *named)[2]
    assert corrigible("copy", server, tmp_path / "m.sqlite", *named)[0] == 0
    assert verify(tmp_path / "m.sqlite") is None
    assert "leave the name" in corrigible("verify", tmp_path / "m.sqlite", *named)[2]
