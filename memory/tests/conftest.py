"""Fixtures: a memory in a file and on a server, a browser."""

import gc
import os
from secrets import token_hex

# Before NumPy is there: on a machine with other work, waiting BLAS threads make small products ten
# times slower.
for library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import pytest
from entries import MEMORY
from hypothesis import HealthCheck, settings

from corrigible import CorrectionMemory
from tests.browser import browser, find
from trials import PATHS
from trials.servers import connection, serving

settings.register_profile(
    "repeatable", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def paths(monkeypatch):
    """Let processes that trials start find them."""
    monkeypatch.setenv("PYTHONPATH", PATHS)


@pytest.fixture
def path(tmp_path):
    """Where a memory's file goes."""
    return tmp_path / "m.sqlite"


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server with pgvector, which loses what it holds if the machine fails."""
    with serving() as running:
        with connection(running.address()) as base:
            base.execute("ALTER SYSTEM SET fsync = off")
            base.execute("SELECT pg_reload_conf()")
        yield running


@pytest.fixture(scope="module")
def server(postgres):
    """Address of a base on the server, without pgvector: one for each module of tests."""
    return postgres.address(postgres.new_base(vector=False))


@pytest.fixture(params=["file", "server"])
def place(request, path):
    """Where a memory goes: its file, or its address on a server."""
    if request.param == "file":
        return path
    return f"{request.getfixturevalue('server')}#{token_hex(8)}"


@pytest.fixture
def memory(place):
    """A correction memory of a few vectors, by ana."""
    with CorrectionMemory.open(place) as memory:
        memory.learn(*MEMORY, by="ana")
        yield memory


def pytest_collection_finish():
    """Let garbage collections, which some libraries ask for, skip what was imported: it stays."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def tab():
    """A tab of a headless browser."""
    if not find():
        pytest.skip("no Chromium is installed")
    with browser() as tab:
        yield tab
