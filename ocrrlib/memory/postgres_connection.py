"""A connection to a memory on a PostgreSQL server, which is made anew when it is lost."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg.errors import _WaitTimeout

from ocrrlib.files import InputError
from ocrrlib.memory.postgres_tables import about_of, create, schema_of, statements_for
from ocrrlib.memory.store import About
from ocrrlib.memory.waiting import deadline

REPLY = 30  # seconds that a statement may take
IDLE = 10  # seconds that a transaction may wait for its program, which others wait for
NETWORK = 5  # seconds more until the server is held to be gone
SETTINGS = {
    "search_path": "pg_catalog, pg_temp",  # no objects of the same names are meant
    "row_security": "off",  # an error where rows would be hidden
    "jit": "off",  # compiling takes longer than what is asked for
    "tcp_keepalives_idle": "10",  # a machine that is gone is noticed, and its lock is free
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "statement_timeout": f"{REPLY}s",
    "idle_in_transaction_session_timeout": f"{IDLE}s",
}
SETS = ", ".join(
    f"pg_catalog.set_config('{name}', %({name})s, false)"
    for name in [*SETTINGS, "default_transaction_read_only"]
)
# A base may be set to say that what is not yet on disk is.
SET = (
    f"SELECT pg_catalog.current_setting('server_encoding'), {SETS}, "
    "pg_catalog.set_config('synchronous_commit', pg_catalog.replace("
    "pg_catalog.current_setting('synchronous_commit'), 'off', 'on'), false)"
)
NOTHING = (None, None, None, False)  # what is told of a newest entry if there is no memory

_T = TypeVar("_T")


class Connection(psycopg.Connection):
    """A connection that is closed if the server does not reply for some time."""

    limit: float | None = REPLY + NETWORK

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait for a reply, as psycopg does, but not for ever."""
        try:
            return super().wait(gen, interval, self.limit if timeout is None else timeout)
        except _WaitTimeout as error:
            self.pgconn.finish()
            raise psycopg.OperationalError("the server does not reply") from error

    def is_lost(self, error: psycopg.Error) -> bool:
        """Whether an error means that the connection is lost; then it is closed."""
        by_server = error.diag.severity_nonlocalized in ("FATAL", "PANIC")
        by_client = error.sqlstate is None and isinstance(
            error, psycopg.OperationalError | psycopg.InterfaceError
        )
        if by_server or by_client:  # its end may not have been seen yet
            self.close()
        return self.closed


def connected(address: str, reads_only: bool) -> Connection:
    """Connect to a server with our settings.

    Raises ``psycopg.Error`` if it cannot be reached or does not let us in, or if its base is not in
    UTF-8.
    """
    settings = SETTINGS | {"default_transaction_read_only": "on" if reads_only else "off"}
    connection = Connection.connect(
        address,
        autocommit=True,
        connect_timeout=NETWORK,
        client_encoding="UTF8",
        fallback_application_name="ocrr",
        prepare_threshold=None,  # psycopg deallocates after a rollback, within a failed transaction
    )
    try:
        encoding, *_ = connection.execute(SET, settings).fetchone() or [None]
        if encoding != "UTF8":
            raise psycopg.DatabaseError(f"its base holds words in {encoding}, not in UTF8")
    except BaseException:
        connection.close()
        raise
    return connection


class Link:
    """A connection to one memory; ``connection`` is another one once it was lost.

    ``table`` is the number of a table, which tells the memory from another one of its name.
    """

    def __init__(
        self, address: str, name: str, where: str, about: Callable[[], str] | None
    ) -> None:
        """Connect to a memory, to read only if there is no ``about`` of a new one."""
        self.where = where
        self.reads_only = about is None
        self._address = address
        self._name = name
        self._is_closed = False  # by its owner
        self.connection = connected(address, self.reads_only)
        try:
            if schema_of(self.connection, name) is None:
                if about is None:
                    raise InputError(f"there is no memory {where}")
                create(self.connection, statements_for(self.connection, name), name, about())
            self.statements = statements_for(self.connection, name)
            self.about: About = about_of(self.connection, self.statements, name)
            self.table = self.newest()[0]
        except BaseException:
            self.connection.close()
            raise

    def close(self) -> None:
        """Close the connection for good."""
        self._is_closed = True
        self.connection.close()

    def newest(self) -> tuple:
        """Return table, place and hash of the newest entry, and whether there may be triggers."""
        found = self.connection.execute(self.statements.newest, binary=True).fetchone()
        return found or NOTHING

    def replies(self, statements: str) -> list[tuple]:
        """Return the rows of statements sent in one message, and last the newest entry.

        ``{table}`` in them is the number of the table.
        """
        text = statements.format(table=self.table).encode()
        cursor = self.connection.execute(text + self.statements.newest)
        rows = []
        while True:
            if cursor.description:
                rows.append(cursor.fetchone() or NOTHING)
            if not cursor.nextset():
                return rows

    def done(self, do: Callable[[], _T]) -> _T:
        """Return what ``do`` returns; it is done again if the connection is lost meanwhile."""
        until = deadline()
        while True:
            try:
                return do()
            except psycopg.Error as error:
                is_lost = self.connection.is_lost(error) and not self._is_closed
                if not is_lost or time.monotonic() > until:
                    raise
            self.connect_again(until)

    def unhurried(self, do: Callable[[], _T]) -> _T:
        """Return what ``do`` returns, however long the server takes."""
        connection = self.connection
        connection.execute("SET statement_timeout = 0")
        connection.limit = None
        try:
            return do()
        finally:
            connection.limit = Connection.limit
            if not connection.closed:
                connection.execute(f"SET statement_timeout = '{REPLY}s'")

    def connect_again(self, until: float) -> None:
        """Connect as soon as the server can be reached.

        Raises ``InputError`` if it cannot until a time, or if there is another memory.
        """
        while True:
            try:
                connection = connected(self._address, self.reads_only)
                break
            except psycopg.Error as error:
                if time.monotonic() > until:
                    raise InputError(
                        f"{self.where} cannot be reached any more: check server and network"
                    ) from error
                time.sleep(0.05)
        self.connection.close()
        self.connection = connection
        is_there = schema_of(connection, self._name) is not None
        if not is_there or about_of(connection, self.statements, self._name) != self.about:
            raise self.replaced()
        self.table = self.newest()[0]  # another one, if it is on another server by now

    def check_tables(self) -> None:
        """Raise ``psycopg.DatabaseError`` unless the tables are as they were made."""
        about_of(self.connection, self.statements, self._name)

    def replaced(self) -> InputError:
        """Return the error that the memory is not the one that was opened."""
        return InputError(f"{self.where} was replaced or removed since it was opened: open it anew")
