"""A transaction that appends to a memory on a PostgreSQL server, and what came of it."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from ocrrlib.files import InputError
from ocrrlib.memory.postgres_connection import IDLE, NOTHING, Link
from ocrrlib.memory.postgres_tables import LOCK
from ocrrlib.memory.rows import Row
from ocrrlib.memory.store import Undone, Unknown
from ocrrlib.memory.tree import HASH
from ocrrlib.memory.waiting import deadline

MOMENT = "50ms"  # that a writer waits for others before threads that read get their turn
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
# In one message, not in a pipeline, after which a server would not limit idle transactions
AT_ONCE = f"{BEGIN}; SELECT pg_try_advisory_xact_lock({LOCK}, {{table}}::oid::integer); "
SOON = (
    f"{BEGIN}; SET LOCAL lock_timeout = '{MOMENT}'; "
    f"SELECT pg_advisory_xact_lock({LOCK}, {{table}}::oid::integer); SET LOCAL lock_timeout = 0; "
)
WAIT_LOCK = f"SELECT pg_advisory_xact_lock({LOCK}, %s::oid::integer)"


class Write:
    """A write that excludes others by an advisory lock, until it is committed or undone.

    ``newest`` is as ``Link.newest`` tells it. A write whose commit may have been lost
    with the connection is looked for by the commitment of its last entry. Until the write has an
    outcome, it has the lock: whoever gets that next sees which.
    """

    def __init__(self, link: Link):
        self._link = link
        self.newest: tuple = NOTHING
        self._pending: list[Row] = []  # not sent yet, so that the commit goes with them
        self._first = 0  # place of the first entry
        self._commitments = bytearray()  # of all entries
        self.failure: psycopg.Error | None = None  # after which the server writes nothing

    def begun(self) -> bool:
        """Begin; False if another program writes for more than a moment."""
        try:
            return self._begun_at_once() or self._begun_soon()
        except psycopg.Error:
            self.undo()  # or the connection would stay in a failed transaction
            raise

    def _begun_at_once(self):
        lock, self.newest = self._link.replies(AT_ONCE)[-2:]
        if lock == (True,):
            return True
        self._link.connection.execute("ROLLBACK")
        return False

    def _begun_soon(self):
        """Begin after those that came before."""
        try:
            self.newest = self._link.replies(SOON)[-1]
        except psycopg.errors.LockNotAvailable:
            self._link.connection.execute("ROLLBACK")
            return False
        return True

    def ask(self, query: Any, values: Iterable) -> list[tuple]:
        """Return what the server replies to a query, which sees the own entries."""
        with self._undone_if_lost():
            self._send()
            return self._link.connection.execute(query, [*values], binary=True).fetchall()

    def insert(self, rows: list[Row]) -> None:
        """Append entries."""
        with self._undone_if_lost():
            self._send()
        if not self._commitments:
            self._first = rows[0].place
        self._commitments += b"".join([row.commitment for row in rows])
        self._pending = rows
        self.newest = self._link.table, rows[-1].place, rows[-1].hash, False

    def erase(self, places: Iterable[int]) -> None:
        """Erase salt and content of entries."""
        with self._undone_if_lost():
            self._send()
            self._link.connection.execute(self._link.statements.erase, [[*places]])

    def commit(self) -> None:
        """Commit; raises ``Undone`` or ``Unknown`` if the connection was lost before the reply."""
        if self.failure is not None:  # the server would roll back, and say nothing of it
            raise self.failure
        connection = self._link.connection
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
            self._link.connection.execute("ROLLBACK")

    def _send(self):
        """Send entries that wait for others, or for the commit."""
        rows = self._pending
        self._pending = []
        if len(rows) == 1:
            self._link.connection.execute(
                self._link.statements.insert, self._link.statements.to_send(rows[0])
            )
        elif rows:
            with self._link.connection.cursor() as cursor:
                sent = map(self._link.statements.to_send, rows)
                cursor.executemany(self._link.statements.insert, sent)
            self._link.connection.execute("SELECT")  # for the limit: that was a pipeline

    @contextmanager
    def _undone_if_lost(self) -> Iterator[None]:
        """Tell, if the connection is lost before the commit, that nothing was written."""
        try:
            yield
        except psycopg.Error as error:
            self.failure = error
            if not self._link.connection.is_lost(error):
                raise
            raise self._undone() from error

    def _undone(self):
        return Undone(
            f"the connection to {self._link.where} was lost, and nothing was written: try again"
        )

    # The outcome of a commit without a reply

    def _is_there(self):
        """Whether all was committed; ``Unknown`` if the server cannot be reached."""
        until = deadline()
        while True:
            try:
                self._link.connect_again(until)
                return self._is_found()
            except (psycopg.Error, InputError) as error:
                if time.monotonic() > until:
                    raise Unknown(self._link.where, self._by_place()) from error
            time.sleep(0.05)

    def _is_found(self):
        """Whether the last entry is in its place, once nobody has the lock."""
        place = self._first + len(self._commitments) // HASH - 1
        connection = self._link.connection
        with connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = '{2 * IDLE}s'")
            connection.execute(WAIT_LOCK, [self._link.table])
            found = connection.execute(self._link.statements.commitment, [place]).fetchone()
        return found == (bytes(self._commitments[-HASH:]),)

    def _by_place(self):
        """Commitments of the entries, by their place."""
        starts = range(0, len(self._commitments), HASH)
        return {
            self._first + n: bytes(self._commitments[start : start + HASH])
            for n, start in enumerate(starts)
        }
