"""A connection to a PostgreSQL server: its settings, and the limits of what is waited for."""

from typing import Any

import psycopg
from psycopg.errors import _WaitTimeout

REPLY = 30  # seconds that a statement may take
IDLE = 10  # seconds that a transaction may wait for its program, which others wait for
NETWORK = 5  # seconds more until the server is held to be gone
SETTINGS = {
    "search_path": "pg_catalog, pg_temp",  # no objects of the same names are meant
    "row_security": "off",  # an error where rows would be hidden
    "statement_timeout": f"{REPLY}s",
    "idle_in_transaction_session_timeout": f"{IDLE}s",
    "jit": "off",  # compiling takes longer than what is asked for
    "default_transaction_isolation": "read committed",
}


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
        if by_server or by_client:  # the end of the connection may not have been seen yet
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
    )
    try:
        for name, value in settings.items():
            connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", [name, value])
        # A base may be set to say that what is not yet on disk is.
        (durable,) = connection.execute("SHOW synchronous_commit").fetchone() or [None]
        if durable == "off":
            connection.execute("SET synchronous_commit = on")
        (encoding,) = connection.execute("SHOW server_encoding").fetchone() or [None]
        if encoding != "UTF8":
            raise psycopg.DatabaseError(f"its base holds words in {encoding}, not in UTF8")
    except BaseException:
        connection.close()
        raise
    return connection
