"""Store a ledger on a PostgreSQL server, for programs on any number of machines."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from corrigible.proofs.rows import Row
from corrigible.stores.postgres_connection import ServerTransaction, Session, connected
from corrigible.stores.postgres_search import PostgresVectors
from corrigible.stores.postgres_tables import (
    has_index,
    make_index,
    schema_of,
    statements_for,
    vacuumed,
)
from corrigible.stores.store import ROWS_AT_ONCE
from corrigible.stores.waiting import as_input_error
from ocrrlib.files import InputError

ERRORS = (psycopg.Error,)
ENCODE = "the address has an odd @, # or /: write those of a password as %40, %23 and %2F"
LONGEST_NAME = 63  # bytes; PostgreSQL would cut a longer one
READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


def remedy(error: Exception) -> str:
    """Return what to do about an error of a server."""
    if type(error) is psycopg.DatabaseError:
        return "restore a backup, or choose another name"
    return "check server, network, address and rights"


def _no_index(where):
    """The error that a memory's vectors have no index."""
    return InputError(
        f"{where} has no index of its vectors: call make_index once, or leave ef_search out"
    )


class Server:
    """The place of a memory on a server: the address of a base, and the memory's name there."""

    def __init__(self, address: str, name: str):
        self.address = address
        self.name = checked_name(name)
        try:
            self._where = f"{shown_address(conninfo_to_dict(address))}#{quote(self.name, safe='')}"
        except psycopg.ProgrammingError as error:
            raise InputError(
                "this is no address of a base: give postgresql://user@host/base"
            ) from error

    def __str__(self) -> str:
        return self._where

    def is_there(self) -> bool:
        with (
            as_input_error(self, ERRORS, remedy),
            closing(connected(self.address, True)) as connection,
        ):
            return schema_of(connection, self.name) is not None

    holds_memory = is_there

    def check_search(self, ef_search: int | None):
        with (
            as_input_error(self, ERRORS, remedy),
            closing(connected(self.address, True)) as connection,
        ):
            if schema_of(connection, self.name) is not None:
                return
            if statements_for(connection, self.name).vector is None:
                raise InputError(
                    f"{self} cannot be searched in its base, which has no pgvector: run "
                    "CREATE EXTENSION vector there first"
                )
            if ef_search is not None:
                raise _no_index(self)

    def open(self, about: Callable[[], str]) -> "PostgresStore":
        return PostgresStore(self, about)

    def open_to_read(self) -> "PostgresStore":
        return PostgresStore(self)

    def verifying(self) -> AbstractContextManager[object]:
        return nullcontext()

    def last_change(self) -> None:
        return None


class PostgresStore:
    """A ledger's tables on a server; without ``about`` of a new one, nothing is written."""

    errors = ERRORS
    residue = "whose dead rows hold the content"
    cleans_itself = True  # by autovacuum
    fitted = None
    beyond_erasure = (
        "the write-ahead log and its archive, replicas, backups, and the free space in pages of "
        "the table until it is used again"
    )

    def __init__(self, server: Server, about: Callable[[], str] | None = None):
        self.where = str(server)
        self._server = server
        with as_input_error(self.where, ERRORS, remedy):
            self._session = Session(server.address, server.name, self.where, about)
        self.about = self._session.about
        self._shown: tuple | None = None  # the newest entry, while one state is shown
        self._write: ServerTransaction | None = None

    def remedy(self, error: Exception) -> str:
        return remedy(error)

    def way_out(self) -> str:
        return "restore a backup"

    def room(self) -> int:
        return self._ask(self._session.statements.room)[0][0]

    def prepare_writes(self):
        pass

    def close_untouched(self):
        self.close()

    def close(self):
        self._session.close()

    # Transactions

    @contextmanager
    def reading(self) -> Iterator[None]:
        self._shown = self._session.done(self._begun_to_read)
        try:
            yield
        finally:
            self._shown = None
            self._end("COMMIT")

    def _begun_to_read(self):
        """Begin to show one state; return its newest entry."""
        try:
            return self._session.replies(f"{READ}; ")[-1]
        except psycopg.Error:
            self._end("ROLLBACK")  # or the connection would stay in a failed transaction
            raise

    def _end(self, how):
        """End a transaction that has nothing to lose."""
        with suppress(psycopg.Error):
            self._session.connection.execute(how)

    def _ask(self, query: Any, values: Iterable = ()) -> list[tuple]:
        """Return what the server replies to a query."""
        if self._write is not None:
            return self._write.ask(query, values)

        asked = self._session.connection

        def ask():
            connection = self._session.connection
            if self._shown is not None and connection is not asked:
                self._show_again()
            return connection.execute(query, [*values], binary=True).fetchall()

        return self._session.done(ask)

    def _show_again(self):
        """Show what was shown before the connection was lost, if it is still the newest."""
        before = self._shown
        self._shown = self._begun_to_read()
        if self._shown[1:3] != before[1:3]:
            raise InputError(
                f"the connection to {self.where} was lost, and others wrote meanwhile: try again"
            )

    @contextmanager
    def writing(self) -> Iterator[None]:
        try:
            yield
            if self._write is not None:
                self._write.commit()
        except BaseException:
            if self._write is not None:
                self._write.undo()
            raise
        finally:
            self._write = None

    def try_begin(self) -> bool:
        write = ServerTransaction(self._session)
        if not self._session.done(write.try_begin):
            return False
        self._write = write
        if write.newest[0] != self._session.table:  # it would be lost
            raise self._session.replaced()
        return True

    @property
    def has_failed(self) -> bool:
        return self._write is not None and self._write.failure is not None

    # Entries

    def has_changed(self, size: int, newest: bytes) -> bool:
        if self._write is not None:
            found = self._write.newest
        else:
            found = self._shown or self._session.done(self._session.newest)
        table, place, hash, is_altered = found
        if table != self._session.table:
            raise self._session.replaced()
        if is_altered:
            raise psycopg.DatabaseError(
                "its tables were changed: entries has triggers, rules, row security or heirs, or "
                "had some since its last VACUUM"
            )
        if place is None:
            return size > 0
        return (place + 1, hash) != (size, newest)

    def check_tables(self):
        pass  # the newest entry tells

    def mark_read(self):
        pass  # the newest entry tells

    def hash_at(self, place: int) -> bytes | None:
        found = self._ask(self._session.statements.hash, [place])
        return found[0][0] if found else None

    def row(self, place: int) -> Row | None:
        found = self._ask(self._session.statements.row, [place])
        return self._session.statements.received(found[0]) if found else None

    def blocks(self, first: int | None = None) -> Iterator[list[Row]]:
        if self._shown is None and self._write is None:
            with self.reading():
                yield from self.blocks(first)
            return
        start = -(2**63) if first is None else first  # not 0: no place below is overlooked
        while True:
            found = self._ask(self._session.statements.block, [start, ROWS_AT_ONCE])
            if found:
                rows = [*map(self._session.statements.received, found)]
                yield rows
                start = rows[-1].place + 1
            if len(found) < ROWS_AT_ONCE:
                return

    def insert(self, rows: list[Row]):
        if any("\0" in (row.text or "") for row in rows):
            raise InputError("a text has a zero byte, which PostgreSQL cannot hold: drop it")
        assert self._write is not None
        self._write.insert(rows)

    def erase(self, places: Iterable[int]):
        assert self._write is not None
        self._write.erase(places)

    def source(self, ef_search: int | None) -> PostgresVectors:
        vector = self._session.statements.vector
        if vector is None:
            raise InputError(
                f"{self.where} cannot be searched in its base, which had no pgvector when it was "
                "made: run CREATE EXTENSION vector there, and copy it to another name"
            )
        with as_input_error(self.where, ERRORS, remedy):
            if ef_search is not None and not has_index(self._session.connection, self._server.name):
                raise _no_index(self.where)
        return PostgresVectors(self._ask, self._server.name, vector)

    def make_index(self, dim: int):
        self.source(None)
        if not dim:
            raise InputError(f"{self.where} has no vectors to index: learn first")
        server = self._server
        other = Session(server.address, server.name, self.where, lambda: self.about.text)
        with closing(other.connection):
            other.unhurried(
                lambda: make_index(other.connection, other.statements, server.name, dim)
            )

    def cleaned(self) -> bool:
        session = self._session

        def vacuum():
            return session.unhurried(lambda: vacuumed(session.connection, session.statements))

        return session.reads_only or session.done(vacuum)


def checked_name(name: str | None) -> str:
    """Return the name of a memory if a schema can have it; ``InputError`` if not."""
    if not name:
        raise InputError("a base may hold several memories: give the name of one")
    size = len(str(name).encode(errors="replace"))
    is_odd = {*"\0%"} & {*name} or name.startswith("pg_")  # to the server, or to its driver
    if not 0 < size <= LONGEST_NAME or is_odd:
        raise InputError(f"{name!r} is no name of a memory: give a word of 1 to 63 bytes")
    return str(name)


def shown_address(parts: dict) -> str:
    """Return an address, by its parts as psycopg names them, without what is secret.

    Raises ``InputError`` if it may be cut at a wrong place.
    """
    if any("@" in (parts.get(name) or "") for name in ("host", "port", "dbname")):
        raise InputError(ENCODE)  # a part of a password may stand there
    user = f"{parts['user']}@" if "user" in parts else ""
    host = parts.get("host") or parts.get("hostaddr") or ""
    port = f":{parts['port']}" if "port" in parts else ""
    if host.startswith("/"):  # the folder of a socket
        return f"postgresql://{user}{port}/{parts.get('dbname', '')}?host={host}"
    return f"postgresql://{user}{host}{port}/{parts.get('dbname', '')}"
