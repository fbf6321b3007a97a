"""The roles of ``docs/examples/roles.sql``: what each may do on a real server, and what not."""

import numpy as np
import psycopg
import pytest

from corrigible import CorrectionMemory, verify
from ocrrlib.files import InputError
from trials import MEMORY

X = np.eye(4)
WRITES = {
    "update content": "UPDATE tickets.entries SET label = 'other' WHERE place = 0",
    "erase": "UPDATE tickets.entries SET salt = NULL, x = NULL WHERE place = 0",
    "update hashes": "UPDATE tickets.entries SET hash = previous WHERE place = 0",
    "move": "UPDATE tickets.entries SET place = 9 WHERE place = 0",
    "delete": "DELETE FROM tickets.entries WHERE place = 0",
    "truncate": "TRUNCATE tickets.entries",
    "insert": "INSERT INTO tickets.entries SELECT 9, time, hash, hash, hash "
    "FROM tickets.entries LIMIT 1",
    "say otherwise": "UPDATE tickets.about SET about = ''",
    "say more": "INSERT INTO tickets.about VALUES ('')",
    "alter": "ALTER TABLE tickets.entries ADD more text",
    "index": "CREATE INDEX more ON tickets.entries (time)",
    "drop": "DROP TABLE tickets.entries",
    "trigger": "CREATE TRIGGER t BEFORE INSERT ON tickets.entries EXECUTE FUNCTION "
    "suppress_redundant_updates_trigger()",
    "rule": "CREATE RULE r AS ON INSERT TO tickets.entries DO INSTEAD NOTHING",
    "policy": "CREATE POLICY p ON tickets.entries",
    "function": "CREATE FUNCTION tickets.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "table": "CREATE TABLE tickets.more (n int)",
    "public function": "CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "become owner": "SET ROLE postgres",
}
MAY = {
    "service": {"insert"},
    "auditor": set(),
    "eraser": {"insert", "update content", "erase"},
}


@pytest.fixture(scope="module")
def base(postgres):
    """Name of a base with a memory ``tickets`` and the roles."""
    base = postgres.new_base()
    with CorrectionMemory.open(postgres.address(base), name="tickets") as memory:
        memory.learn(X[:3], ["card", "pin", "card"])
    with psycopg.connect(postgres.address(base)) as connection:
        connection.execute((MEMORY / "docs/examples/roles.sql").read_text())
    return base


@pytest.fixture
def address(postgres, base):
    """Address of the base as a role sees it."""
    return lambda role: postgres.address(base, f"ocrr_{role}")


@pytest.mark.parametrize("what", WRITES)
@pytest.mark.parametrize("role", MAY)
def test_a_role_can_do_no_more_than_it_may(address, role, what):
    with psycopg.connect(address(role), autocommit=True) as connection:
        connection.execute("BEGIN")
        try:
            connection.execute(WRITES[what])
            could = True
        except psycopg.errors.InsufficientPrivilege:
            could = False
        connection.execute("ROLLBACK")
    assert could == (what in MAY[role])


@pytest.mark.parametrize("role", MAY)
def test_a_role_can_give_no_rights(address, role):
    with psycopg.connect(address(role)) as connection:
        connection.execute("GRANT UPDATE ON tickets.entries TO ocrr_service")  # warns, no more
        has = "SELECT has_table_privilege('ocrr_service', 'tickets.entries', 'UPDATE')"
        assert connection.execute(has).fetchone() == (False,)
        connection.rollback()


@pytest.mark.parametrize("search", [None, "database"])
def test_the_service_appends_and_reads_and_cannot_erase(address, search):
    with CorrectionMemory.open(address("service"), name="tickets", search=search) as memory:
        place = memory.correct(X[3], "transfer")
        assert memory.predict(X[3]).label == "transfer"
        with pytest.raises(InputError, match="permission denied"):
            memory.forget(place)
        assert memory.entry(place)["label"] == "transfer"
        assert memory.undo(place) == place + 1


def test_the_auditor_reads_and_verifies_and_cannot_append(address):
    assert verify(address("auditor"), name="tickets") is None
    with CorrectionMemory.open(address("auditor"), name="tickets", search="database") as memory:
        assert memory.predict(X[1]).label == "pin"
        assert memory.verify(memory.head()) is None
        with pytest.raises(InputError, match="permission denied"):
            memory.correct(X[3], "transfer")


def test_the_eraser_erases_and_vacuums(address):
    with CorrectionMemory.open(address("service"), name="tickets") as memory:
        place = memory.correct(X[3], "secret")
    with CorrectionMemory.open(address("eraser"), name="tickets") as memory:
        memory.forget(place, by="eraser")
        assert "label" not in memory.entry(place)
        assert memory.verify(memory.head()) is None


def test_what_the_eraser_writes_otherwise_is_noticed(address):
    with psycopg.connect(address("eraser"), autocommit=True) as connection:
        connection.execute(WRITES["update content"])
        assert verify(address("auditor"), name="tickets").position == 0
        connection.execute("UPDATE tickets.entries SET label = 'card' WHERE place = 0")
    assert verify(address("auditor"), name="tickets") is None
