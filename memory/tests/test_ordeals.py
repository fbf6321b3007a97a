"""What happens to clients, servers and networks costs no entry; ``make torture`` has more of it."""

import pytest

from corrigible.stores import postgres_connection
from trials import ordeals
from trials.servers import serving


def assert_kept(found):
    """Writers were acknowledged something, and all of that is there, once."""
    assert found["acknowledged"]
    assert not found["lost"]
    assert not found["wrong"]
    assert not found["damaged"]


@pytest.fixture
def hurried(monkeypatch):
    """Limits of a second, where they are ten and thirty."""
    monkeypatch.setattr(postgres_connection, "IDLE", 1)
    monkeypatch.setattr(postgres_connection, "REPLY", 1)
    limits = {"statement_timeout": "1s", "idle_in_transaction_session_timeout": "1s"}
    monkeypatch.setattr(postgres_connection, "SETTINGS", postgres_connection.SETTINGS | limits)


def test_a_silent_client_keeps_others_no_longer_than_its_limit(postgres, hurried):
    assert ordeals.stuck(postgres, 1) == (1, 1)


def test_a_locked_table_is_told_in_one_line(postgres, hurried):
    assert ordeals.blocked(postgres, 1) == (1, 1)


def test_clocks_that_differ_leave_entries_in_order_of_time(postgres):
    found = ordeals.clocks(postgres, 2)
    assert_kept(found)
    assert not found["late"]


@pytest.mark.slow
def test_killed_clients_lose_nothing_acknowledged(postgres):
    found = ordeals.kills(postgres, 10)
    assert found["whole"] == 10
    assert_kept(found)


@pytest.mark.slow
def test_a_server_stopped_at_once_loses_nothing_acknowledged():
    with serving() as other:
        found = ordeals.stops(other, 3)
    assert found["whole"] == 3
    assert_kept(found)


@pytest.mark.slow
def test_a_network_that_delays_and_cuts_loses_nothing_acknowledged(postgres):
    found = ordeals.network(postgres, 5, delay=0.01, cut=0.005)
    assert found["cuts"]
    assert_kept(found)


@pytest.mark.slow
def test_two_machines_that_are_cut_off_lose_nothing_acknowledged(postgres):
    found = ordeals.machines(postgres, 8)
    assert found["cuts"]
    assert_kept(found)
