"""A connection to a memory on a PostgreSQL server, and the transaction that appends to it.

A connection that is lost is made anew; what came of a commit without a reply is looked for.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg.errors import _WaitTimeout

from corrigible.proofs.rows import Row
from corrigible.proofs.tree import HASH
from corrigible.stores.postgres_tables import (
    LOCK,
    about_of,
    create,
    register_vectors,
    schema_of,
    statements_for,
)
from corrigible.stores.store import About, Undone, Unknown
from corrigible.stores.waiting import deadline
from ocrrlib.files import InputError

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
MOMENT = "50ms"  # that a writer waits for others before threads that read get their turn
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
# In one message, not in a pipeline, after which a server would not limit idle transactions
AT_ONCE = f"{BEGIN}; EXECUTE locked({{table}}); "
SOON = (
    f"{BEGIN}; SET LOCAL lock_timeout = '{MOMENT}'; "
    f"SELECT pg_advisory_xact_lock({LOCK}, {{table}}::oid::integer); SET LOCAL lock_timeout = 0; "
)
# What every transaction begins with is planned once a connection: that takes longer than to do it.
PREPARE = (
    f"PREPARE locked(oid) AS SELECT pg_try_advisory_xact_lock({LOCK}, $1::integer); "
    "PREPARE newest AS "
)
NEWEST = "EXECUTE newest"
WAIT_LOCK = f"SELECT pg_advisory_xact_lock({LOCK}, %s::oid::integer)"
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


class Session:
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
            register_vectors(self.connection, self.statements)
            self.about: About = about_of(self.connection, self.statements)
            self._prepare()
        except BaseException:
            self.connection.close()
            raise

    def close(self) -> None:
        """Close the connection for good."""
        self._is_closed = True
        self.connection.close()

    def _prepare(self):
        """Prepare statements of a new connection, and find the table."""
        self.connection.execute(PREPARE.encode() + self.statements.newest)
        self.table = self.newest()[0]  # another one, if it is on another server by now

    def newest(self) -> tuple:
        """Return table, place and hash of the newest entry, and whether it may be altered."""
        return self.connection.execute(NEWEST).fetchone() or NOTHING

    def replies(self, statements: str) -> list[tuple]:
        """Return the rows of statements sent in one message, and last the newest entry.

        ``{table}`` in them is the number of the table.
        """
        cursor = self.connection.execute(statements.format(table=self.table) + NEWEST)
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
        if not is_there or about_of(connection, self.statements) != self.about:
            raise self.replaced()
        register_vectors(connection, self.statements)
        self._prepare()

    def replaced(self) -> InputError:
        """Return the error that the memory is not the one that was opened."""
        return InputError(f"{self.where} was replaced or removed since it was opened: open it anew")


class ServerTransaction:
    """A write that excludes others by an advisory lock, until it is committed or undone.

    ``newest`` is as ``Session.newest`` tells it. A write whose commit may have been lost
    with the connection is looked for by the commitment of its last entry. Until the write has an
    outcome, it has the lock: whoever gets that next sees which.
    """

    def __init__(self, session: Session):
        self._session = session
        self.newest: tuple = NOTHING
        self._pending: list[Row] = []  # not sent yet, so that the commit goes with them
        self._first = 0  # place of the first entry
        self._commitments = bytearray()  # of all entries
        self.failure: psycopg.Error | None = None  # after which the server writes nothing

    def try_begin(self) -> bool:
        """Begin; False if another program writes for more than a moment."""
        try:
            return self._try_at_once() or self._try_soon()
        except psycopg.Error:
            self.undo()  # or the connection would stay in a failed transaction
            raise

    def _try_at_once(self):
        lock, self.newest = self._session.replies(AT_ONCE)[-2:]
        if lock == (True,):
            return True
        self._session.connection.execute("ROLLBACK")
        return False

    def _try_soon(self):
        """Begin after those that came before."""
        try:
            self.newest = self._session.replies(SOON)[-1]
        except psycopg.errors.LockNotAvailable:
            self._session.connection.execute("ROLLBACK")
            return False
        return True

    def ask(self, query: Any, values: Iterable) -> list[tuple]:
        """Return what the server replies to a query, which sees the own entries."""
        with self._undone_if_lost():
            self._send()
            return self._session.connection.execute(query, [*values], binary=True).fetchall()

    def insert(self, rows: list[Row]) -> None:
        """Append entries."""
        with self._undone_if_lost():
            self._send()
        if not self._commitments:
            self._first = rows[0].place
        self._commitments += b"".join([row.commitment for row in rows])
        self._pending = rows
        self.newest = self._session.table, rows[-1].place, rows[-1].hash, False

    def erase(self, places: Iterable[int]) -> None:
        """Erase salt and content of entries."""
        with self._undone_if_lost():
            self._send()
            self._session.connection.execute(self._session.statements.erase, [[*places]])

    def commit(self) -> None:
        """Commit; raises ``Undone`` or ``Unknown`` if the connection was lost before the reply."""
        if self.failure is not None:  # the server would roll back, and say nothing of it
            raise self.failure
        connection = self._session.connection
        try:
            with connection.pipeline():
                self._send()
                connection.execute("COMMIT")
        except psycopg.Error as error:
            if not connection.is_lost(error):
                raise
            if self._commitments and not self._is_there():
                raise self._undone() from error

    def undo(self) -> None:
        """Write nothing; a server that is not there does so by itself."""
        with suppress(psycopg.Error):
            self._session.connection.execute("ROLLBACK")

    def _send(self):
        """Send entries that wait for others, or for the commit."""
        rows = self._pending
        self._pending = []
        if len(rows) == 1:
            self._session.connection.execute(
                self._session.statements.insert, self._session.statements.to_send(rows[0])
            )
        elif rows:
            with self._session.connection.cursor() as cursor:
                sent = map(self._session.statements.to_send, rows)
                cursor.executemany(self._session.statements.insert, sent)
            self._session.connection.execute("SELECT")  # for the limit: that was a pipeline

    @contextmanager
    def _undone_if_lost(self) -> Iterator[None]:
        """Tell, if the connection is lost before the commit, that nothing was written."""
        try:
            yield
        except psycopg.Error as error:
            self.failure = error
            if not self._session.connection.is_lost(error):
                raise
            raise self._undone() from error

    def _undone(self):
        return Undone(
            f"the connection to {self._session.where} was lost, and nothing was written: try again"
        )

    # The outcome of a commit without a reply

    def _is_there(self):
        """Whether all was committed; ``Unknown`` if the server cannot be reached."""
        until = deadline()
        while True:
            try:
                self._session.connect_again(until)
                return self._is_found()
            except (psycopg.Error, InputError) as error:
                if time.monotonic() > until:
                    raise Unknown(self._session.where, self._by_place()) from error
            time.sleep(0.05)

    def _is_found(self):
        """Whether the last entry is in its place, once nobody has the lock."""
        place = self._first + len(self._commitments) // HASH - 1
        connection = self._session.connection
        with connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = '{2 * IDLE}s'")
            connection.execute(WAIT_LOCK, [self._session.table])
            found = connection.execute(self._session.statements.commitment, [place]).fetchone()
        return found == (bytes(self._commitments[-HASH:]),)

    def _by_place(self):
        """Commitments of the entries, by their place."""
        starts = range(0, len(self._commitments), HASH)
        return {
            self._first + n: bytes(self._commitments[start : start + HASH])
            for n, start in enumerate(starts)
        }
