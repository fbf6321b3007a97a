"""A ledger's store on a PostgreSQL server: for programs of any number of machines."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ocrrlib.files import InputError
from ocrrlib.memory.postgres_connection import IDLE, Connection, connected
from ocrrlib.memory.postgres_tables import (
    LOCK,
    Statements,
    about_of,
    create,
    extension_of,
    has_index,
    is_searchable,
    make_index,
    schema_of,
    vacuumed,
)
from ocrrlib.memory.postgres_vectors import PostgresVectors
from ocrrlib.memory.rows import Row
from ocrrlib.memory.store import BLOCK, About, Undone, Unknown, deadline, usable
from ocrrlib.memory.tree import HASH

ERRORS = (psycopg.Error,)
LONGEST_NAME = 63  # bytes; PostgreSQL would cut a longer one
MOMENT = "50ms"  # that a writer waits for others before threads that read get their turn
READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

TRY_LOCK = f"SELECT pg_try_advisory_xact_lock({LOCK}, %s::oid::integer)"
WAIT_LOCK = f"SELECT pg_advisory_xact_lock({LOCK}, %s::oid::integer)"
NOTHING = (None, None, None)  # table, place and hash of a newest entry


def remedy(error: Exception) -> str:
    """Return what to do about an error of a server."""
    if type(error) is psycopg.DatabaseError:
        return "restore a backup, or choose another name"
    return "check server, network, address and rights"


class Server:
    """The place of a memory on a server: the address of a base, and the memory's name there."""

    def __init__(self, address: str, name: str | None):
        self.address = address
        self.name = _checked(name)
        try:
            self._where = f"{_shown(conninfo_to_dict(address))} ({self.name})"
        except psycopg.ProgrammingError as error:
            raise InputError(
                "this is no address of a base: give postgresql://user@host/base"
            ) from error

    def __str__(self) -> str:
        return self._where

    def is_there(self) -> bool:
        with usable(self, ERRORS, remedy), closing(connected(self.address, True)) as connection:
            return schema_of(connection, self.name) is not None

    holds_memory = is_there

    def open(self, about: Callable[[], str]) -> "PostgresStore":
        return PostgresStore(self, about)

    def open_to_read(self) -> "PostgresStore":
        return PostgresStore(self)

    def verifying(self) -> AbstractContextManager[object]:
        return nullcontext()

    def last_change(self) -> None:
        return None


def _checked(name):
    """A name of a memory that a schema can have."""
    if name is None:
        raise InputError("a base may hold several memories: give the name of one")
    size = len(str(name).encode(errors="replace"))
    if not 0 < size <= LONGEST_NAME or "\0" in name or name.startswith("pg_"):
        raise InputError(f"{name!r} is no name of a memory: give a word of 1 to 63 bytes")
    return str(name)


def _shown(parts):
    """An address without what is secret."""
    user = f"{parts['user']}@" if "user" in parts else ""
    host = parts.get("host") or parts.get("hostaddr") or ""
    port = f":{parts['port']}" if "port" in parts else ""
    if host.startswith("/"):  # the folder of a socket
        return f"postgresql://{user}{port}/{parts.get('dbname', '')}?host={host}"
    return f"postgresql://{user}{host}{port}/{parts.get('dbname', '')}"


class PostgresStore:
    """A ledger's tables on a server; without ``about`` of a new one, nothing is written.

    A lost connection is made anew. A write whose commit may have been lost with it is looked for by
    the commitment of its last entry: the lock that it held tells when it has an outcome.
    """

    errors = ERRORS
    leftover = "whose dead rows hold the content"
    cleans_itself = True  # in time, by autovacuum
    unreached = (
        "the write-ahead log and its archive, replicas, backups, and free space in the table's "
        "pages until it is used again (VACUUM FULL rewrites them)"
    )

    def __init__(self, server: Server, about: Callable[[], str] | None = None):
        self.where = str(server)
        self._server = server
        self._reads_only = about is None
        self._mode: str | None = None  # READ or WRITE within a transaction
        self._newest: tuple = ()  # table, place and hash, as a transaction sees it
        self._pending: list[Row] = []  # of a write, not sent yet
        self._first = 0  # place of the first entry of a write
        self._commitments = bytearray()  # of all its entries
        with usable(self.where, ERRORS, remedy):
            self._connection = connected(server.address, self._reads_only)
            try:
                self._open(about)
            except BaseException:
                self.close()
                raise

    def _open(self, about):
        if schema_of(self._connection, self._server.name) is None:
            if about is None:
                raise InputError(f"there is no memory {self.where}")
            said = about()
            statements = Statements(self._server.name, extension_of(self._connection))
            create(self._connection, statements, self._server.name, said)
        vector = None
        if is_searchable(self._connection, self._server.name):
            vector = extension_of(self._connection)
        self._statements = Statements(self._server.name, vector)
        self.about: About = about_of(self._connection, self._statements, self._server.name)
        self._table = self._look()[0]

    def remedy(self, error: Exception) -> str:
        return remedy(error)

    def way_out(self) -> str:
        return "restore a backup"

    def room(self) -> int:
        return self._ask("SELECT pg_total_relation_size(%s::oid)", [self._table])[0][0]

    def ready(self):
        pass

    def refuse(self):
        self.close()

    def close(self):
        self._connection.close()

    # Connection

    def _ask(self, query: Any, values: Iterable = ()) -> list[tuple]:
        """Return what the server replies to a query, by another connection if this one is lost."""
        if self._mode == WRITE:
            return self._told(query, values)
        until = deadline()
        while True:
            try:
                return self._connection.execute(query, [*values], binary=True).fetchall()
            except psycopg.Error as error:
                if not self._connection.is_lost(error) or time.monotonic() > until:
                    raise
            self._connect_again(until)
            if self._mode == READ:
                self._begin_again()

    def _told(self, query, values):
        """Reply to a query within a write, which sees its own entries."""
        with self._undone_if_lost():
            self._send()
            return self._connection.execute(query, [*values], binary=True).fetchall()

    @contextmanager
    def _undone_if_lost(self):
        """Tell, if the connection is lost before a commit, that nothing was written."""
        try:
            yield
        except psycopg.Error as error:
            if not self._connection.is_lost(error):
                raise
            raise self._undone() from error

    def _undone(self):
        return Undone(
            f"the connection to {self.where} was lost, and nothing was written: try again"
        )

    def _connect_again(self, until):
        """Connect as soon as the server can be reached, to the same memory."""
        while True:
            try:
                connection = connected(self._server.address, self._reads_only)
                break
            except psycopg.Error as error:
                if time.monotonic() > until:
                    raise InputError(
                        f"{self.where} cannot be reached any more: check server and network"
                    ) from error
                time.sleep(0.05)
        self._connection.close()
        self._connection: Connection = connection
        if schema_of(connection, self._server.name) is None:
            self._refuse_other()
        if about_of(connection, self._statements, self._server.name) != self.about:
            self._refuse_other()
        # Another one of the same memory, if it is on another server by now
        self._table = connection.execute(self._statements.newest).fetchone()[0]

    def _refuse_other(self):
        raise InputError(f"{self.where} was replaced or removed since it was opened: open it anew")

    def _begin_again(self):
        """Show the state that was shown before the connection was lost, if it is the newest."""
        before = self._newest
        self._begin()
        if self._newest != before:
            raise InputError(
                f"the connection to {self.where} was lost, and others wrote meanwhile: try again"
            )

    # Transactions

    def _look(self):
        """The table, and place and hash of its newest entry."""
        found = self._ask(self._statements.newest)
        return found[0] if found else NOTHING

    @contextmanager
    def reading(self) -> Iterator[None]:
        until = deadline()
        while True:
            try:
                self._begin()
                break
            except psycopg.Error as error:
                if not self._connection.is_lost(error) or time.monotonic() > until:
                    raise
            self._connect_again(until)
        self._mode = READ
        try:
            yield
        finally:
            self._mode = None
            self._end("COMMIT")

    def _begin(self):
        with self._connection.pipeline():
            self._connection.execute(READ)
            newest = self._connection.execute(self._statements.newest, binary=True)
        self._newest = newest.fetchone() or NOTHING

    def _end(self, how):
        """End a transaction that has nothing to lose."""
        with suppress(psycopg.Error):
            self._connection.execute(how)

    @contextmanager
    def writing(self) -> Iterator[None]:
        try:
            yield
            if self._mode == WRITE:
                self._commit()
        except BaseException:
            if self._mode == WRITE:
                self._end("ROLLBACK")
            raise
        finally:
            self._mode = None
            self._pending = []
            self._commitments.clear()

    def begun(self) -> bool:
        until = deadline()
        while True:
            try:
                if not self._locked_at_once() and not self._locked_soon():
                    return False
                break
            except psycopg.Error as error:
                if not self._connection.is_lost(error) or time.monotonic() > until:
                    raise
            self._connect_again(until)
        self._mode = WRITE
        if self._newest[0] != self._table:  # it would be lost
            self._refuse_other()
        return True

    def _locked_at_once(self):
        """Begin a write, with the newest entry as others left it; False if another one is on."""
        with self._connection.pipeline():
            self._connection.execute(WRITE)
            lock = self._connection.execute(TRY_LOCK, [self._table])
            newest = self._connection.execute(self._statements.newest, binary=True)
        is_locked = lock.fetchone() == (True,)
        self._newest = newest.fetchone() or NOTHING
        if not is_locked:
            self._connection.execute("ROLLBACK")
        return is_locked

    def _locked_soon(self):
        """The same, after others that came before; False if these take more than a moment."""
        try:
            with self._connection.pipeline():
                self._connection.execute(WRITE)
                self._connection.execute(f"SET LOCAL lock_timeout = '{MOMENT}'")
                self._connection.execute(WAIT_LOCK, [self._table])
                self._connection.execute("SET LOCAL lock_timeout = 0")
                newest = self._connection.execute(self._statements.newest, binary=True)
            self._newest = newest.fetchone() or NOTHING
        except psycopg.errors.LockNotAvailable:
            self._connection.execute("ROLLBACK")
            return False
        return True

    def _send(self):
        """Send entries that wait for others or for the commit."""
        rows = self._pending
        self._pending = []
        if len(rows) == 1:
            self._connection.execute(self._statements.insert, self._statements.to_send(rows[0]))
        elif rows:
            with self._connection.cursor() as cursor:
                cursor.executemany(self._statements.insert, map(self._statements.to_send, rows))

    def _commit(self):
        try:
            with self._connection.pipeline():
                self._send()
                self._connection.execute("COMMIT")
        except psycopg.Error as error:
            if not self._connection.is_lost(error):
                raise
            self._mode = None
            self._find_outcome()

    def _find_outcome(self):
        """Return if the write is there, although the connection was lost; else raise."""
        if not self._commitments:
            return  # nothing was written
        until = deadline()
        last = bytes(self._commitments[-HASH:])
        place = self._first + len(self._commitments) // HASH - 1
        while True:
            try:
                self._connect_again(until)
                with self._connection.transaction():
                    # Had until then by the write, if that was not undone.
                    self._connection.execute(f"SET LOCAL lock_timeout = '{2 * IDLE}s'")
                    self._connection.execute(WAIT_LOCK, [self._table])
                    found = self._connection.execute(self._statements.commitment, [place])
                    is_there = found.fetchone() == (last,)
                break
            except (psycopg.Error, InputError) as error:
                if time.monotonic() > until:
                    raise Unknown(self.where, self._unknown()) from error
                time.sleep(0.05)
        if not is_there:
            raise self._undone()

    def _unknown(self):
        """Commitments of a write by their place."""
        starts = range(0, len(self._commitments), HASH)
        return {
            self._first + n: bytes(self._commitments[start : start + HASH])
            for n, start in enumerate(starts)
        }

    # Rows

    def has_changed(self, size: int, newest: bytes) -> bool:
        table, place, hash = self._newest if self._mode else self._look()
        if table != self._table:
            self._refuse_other()
        if place is None:
            return size > 0
        return (place + 1, hash) != (size, newest)

    def look_again(self):
        pass  # the tables are compared as a connection is made

    def caught_up(self):
        pass  # the newest entry tells

    def hash_at(self, place: int) -> bytes | None:
        found = self._ask(self._statements.hash, [place])
        return found[0][0] if found else None

    def row(self, place: int) -> Row | None:
        found = self._ask(self._statements.row, [place])
        return self._statements.received(found[0]) if found else None

    def blocks(self, first: int | None = None) -> Iterator[list[Row]]:
        if self._mode is None:
            with self.reading():
                yield from self.blocks(first)
            return
        before = -(2**63) if first is None else first - 1
        while True:
            found = self._ask(self._statements.block, [before, BLOCK])
            rows = [*map(self._statements.received, found)]
            if rows:
                yield rows
                before = rows[-1].place
            if len(rows) < BLOCK:
                return

    def links(self) -> list[tuple[bytes, bytes]]:
        return self._ask(self._statements.links)

    def insert(self, rows: list[Row]):
        if any("\0" in (row.text or "") for row in rows):
            raise InputError("a text has a zero byte, which PostgreSQL cannot hold: drop it")
        with self._undone_if_lost():
            self._send()
        if not self._commitments:
            self._first = rows[0].place
        self._commitments += b"".join([row.commitment for row in rows])
        self._pending = rows
        self._newest = self._table, rows[-1].place, rows[-1].hash

    def erase(self, places: Iterable[int]):
        with self._undone_if_lost():
            self._send()
            self._connection.execute(self._statements.erase, [[*places]])

    def source(self, ef_search: int | None) -> PostgresVectors:
        vector = self._statements.vector
        if vector is None:
            raise InputError(
                f"{self.where} cannot be searched in its base, which had no pgvector when it was "
                "made: run CREATE EXTENSION vector there, and copy it to another name"
            )
        with usable(self.where, ERRORS, remedy):
            if ef_search is not None and not has_index(self._connection, self._server.name):
                raise InputError(
                    f"{self.where} has no index of its vectors: call make_index once, or leave "
                    "ef_search out"
                )
        return PostgresVectors(self._ask, self._server.name, vector)

    def make_index(self, dim: int):
        self.source(None)
        with closing(connected(self._server.address, False)) as connection:
            make_index(connection, self._statements, self._server.name, dim)

    def cleaned(self) -> bool:
        return self._reads_only or vacuumed(self._connection, self._statements)
