"""The PostgreSQL tables in which a ledger is kept, in a schema of the memory's name.

They are those of SQLite: ``about`` has one row, ``entries`` a ``Row`` an entry. All names in SQL
are qualified, and no schema but PostgreSQL's own is searched, so that objects of the same names are
never meant.

In a base with the extension pgvector, column x is a ``vector``, which the server can search, and
NULL where an entry has none; elsewhere it is ``bytea``. A ``vector`` holds float32 numbers, so the
bytes that were hashed come back as they were. The index holds them as float16.
"""

import time

import numpy as np
from pgvector import Vector
from pgvector.psycopg.vector import register_vector_info
from psycopg import Connection
from psycopg.errors import DatabaseError, InsufficientPrivilege
from psycopg.sql import SQL, Composable, Composed, Identifier, Literal
from psycopg.types import TypeInfo

from corrigible.proofs.rows import FIELDS, Row
from corrigible.stores.store import About, read_about
from ocrrlib.files import InputError

CONTENT = "salt", "label", "author", "text", "x", "act"
LOCK = 0x6F637272  # the first number of the advisory lock; the second is that of about
INDEXING = LOCK + 1  # and of that of whoever makes the index
TABLES = """
CREATE SCHEMA {schema};
CREATE TABLE {schema}.about (about text NOT NULL);
CREATE TABLE {schema}.entries (
    place bigint PRIMARY KEY, time bigint NOT NULL, commitment bytea NOT NULL,
    previous bytea NOT NULL, hash bytea NOT NULL,
    salt bytea, label text, author text, text text, x {x}, act text);
ALTER TABLE {schema}.entries ALTER x SET STORAGE EXTERNAL;
"""
# Vectors stay with their rows, so that a search reads pages one after the other.
INLINE = "ALTER TABLE {schema}.entries SET (toast_tuple_target = 8160)"
INDEX = "nearest"  # name of the index of vectors
BUILDING = "2GB"  # memory for making it, as far as it is needed
MAKE_INDEX = (
    "CREATE INDEX CONCURRENTLY nearest ON {schema}.entries "
    "USING hnsw (((x)::{vector}.halfvec({dim})) {vector}.halfvec_ip_ops)"
)


class Statements:
    """The SQL of one memory's tables, by its schema's name, and that of pgvector, if it is used."""

    def __init__(self, name: str, vector: str | None):
        self.vector = vector
        self._schema = Identifier(name)
        x: Composable = SQL("bytea")
        if vector is not None:
            x = SQL("{}.vector").format(Identifier(vector))

        def of(text: str) -> bytes:
            names = {
                "schema": self._schema,
                "vector": Identifier(vector or ""),
                "x": x,
                "table": Literal(Identifier(name, "entries").as_string()),
            }
            text = text.replace("{fields}", FIELDS)
            query = SQL(text).format(**names)  # type: ignore[arg-type]
            return query.as_bytes()  # once, not at each call

        self.tables = of(TABLES if vector is None else f"{TABLES}{INLINE}")
        self.about = of("SELECT about FROM {schema}.about")
        self.say = of("INSERT INTO {schema}.about VALUES (%s)")
        # The table's number tells it from another one of its name. Triggers and the like would
        # change what is written or read: whether there may be any is told each time.
        self.newest = of(
            "SELECT told.tableoid::bigint, newest.place, newest.hash, "
            "(SELECT relhastriggers OR relhasrules OR relrowsecurity OR relhassubclass "
            "FROM pg_class WHERE oid = {table}::regclass) "
            "FROM {schema}.about told "
            "LEFT JOIN LATERAL (SELECT place, hash FROM {schema}.entries ORDER BY place DESC "
            "LIMIT 1) newest ON true LIMIT 1"
        )
        self.hash = of("SELECT hash FROM {schema}.entries WHERE place = %s")
        self.commitment = of("SELECT commitment FROM {schema}.entries WHERE place = %s")
        self.row = of("SELECT {fields} FROM {schema}.entries WHERE place = %s")
        self.block = of(
            "SELECT {fields} FROM {schema}.entries WHERE place >= %s ORDER BY place LIMIT %s"
        )
        self.drop_index = of("DROP INDEX CONCURRENTLY IF EXISTS {schema}.nearest")
        self.insert = of(
            "INSERT INTO {schema}.entries ({fields}) VALUES "
            "(%b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b)"
        )
        nothing = ", ".join(f"{name} = NULL" for name in CONTENT)
        self.erase = of(f"UPDATE {{schema}}.entries SET {nothing} WHERE place = ANY(%s)")
        self.vacuum = of(  # an index has vectors, too
            "VACUUM (INDEX_CLEANUP ON, SKIP_LOCKED) {schema}.entries"
        )
        self.room = of("SELECT pg_total_relation_size({table}::regclass)")
        # Of the table, and of that beside it which has long values
        self.dead = of(
            "SELECT sum(pg_stat_get_dead_tuples(one)) FROM pg_class, unnest(ARRAY[oid, "
            "reltoastrelid]) one WHERE oid = {table}::regclass AND one <> 0"
        )

    def index(self, dim: int) -> Composed:
        """Make the index of vectors of a length."""
        extension = Identifier(self.vector or "")
        return SQL(MAKE_INDEX).format(schema=self._schema, vector=extension, dim=Literal(dim))

    def to_send(self, row: Row) -> Row:
        """Return an entry as it is inserted."""
        if self.vector is None:
            return row
        x = Vector(np.frombuffer(row.x, "<f4")) if row.x else None
        return row._replace(x=x)  # type: ignore[arg-type]

    def received(self, values: tuple) -> Row:
        """Return an entry from what was selected."""
        row = Row(*values)
        if isinstance(row.x, Vector):
            return row._replace(x=row.x.to_numpy().astype("<f4").tobytes())
        is_erased = row.salt is None
        return row if self.vector is None or is_erased else row._replace(x=b"")


def schema_of(connection: Connection, name: str) -> int | None:
    """Return the number of a schema, or None if there is none."""
    found = connection.execute("SELECT oid FROM pg_namespace WHERE nspname = %s", [name]).fetchone()
    return None if found is None else found[0]


def statements_for(connection: Connection, name: str) -> Statements:
    """Return the SQL of a memory as it is; of one that is to be made, with pgvector if it is there.

    Its schema is that which PostgreSQL names, not one of a type of the same name.
    """
    schema = schema_of(connection, name)
    kind = connection.execute(
        "SELECT typname FROM pg_attribute JOIN pg_type kind ON kind.oid = atttypid "
        "JOIN pg_class ours ON ours.oid = attrelid "
        "WHERE relnamespace = %s AND relname = 'entries' AND attname = 'x'",
        [schema],
    ).fetchone()
    if schema is not None and kind != ("vector",):
        return Statements(name, None)
    extension = connection.execute(
        "SELECT nspname FROM pg_extension JOIN pg_namespace space ON space.oid = extnamespace "
        "WHERE extname = 'vector'"
    ).fetchone()
    return Statements(name, extension[0] if extension else None)


def has_index(connection: Connection, name: str) -> bool:
    """Whether the vectors of a memory have an index that is ready."""
    found = connection.execute(
        "SELECT indisvalid FROM pg_class ours JOIN pg_index ON indexrelid = ours.oid "
        "WHERE relnamespace = %s AND relname = %s",
        [schema_of(connection, name), INDEX],
    ).fetchone()
    return found == (True,)


def make_index(connection: Connection, statements: Statements, name: str, dim: int):
    """Make the index of vectors of a length, unless it is there; one program at a time."""
    ours = "SELECT pg_try_advisory_lock(%s, hashtext(%s))"
    # Whoever waits within a statement would be waited for by the one that makes it.
    while connection.execute(ours, [INDEXING, name]).fetchone() != (True,):
        time.sleep(1)
    if has_index(connection, name):
        return
    connection.execute(f"SET maintenance_work_mem = '{BUILDING}'")
    connection.execute(statements.drop_index)  # of an attempt that was cut off
    connection.execute(statements.index(dim))


def create(connection: Connection, statements: Statements, name: str, about: str):
    """Make the tables of a new memory, unless another program has just done so."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [LOCK, name])
        if schema_of(connection, name) is None:
            connection.execute(statements.tables)
            connection.execute(statements.say, [about])


def about_of(connection: Connection, statements: Statements) -> About:
    """Return what a memory says about itself.

    Raises ``psycopg.DatabaseError`` if that is of another version or damaged.
    """
    about = read_about(connection.execute(statements.about).fetchall())
    if about is None:
        raise DatabaseError("its table about was changed, or is of another version")
    return about


def register_vectors(connection: Connection, statements: Statements) -> None:
    """Let a connection send and receive vectors of pgvector, if the memory has them."""
    if statements.vector is not None:
        kind = Identifier(statements.vector, "vector")
        register_vector_info(connection, TypeInfo.fetch(connection, kind))


def vacuumed(connection: Connection, statements: Statements) -> bool:
    """Remove dead versions of rows.

    False if another program's transaction still sees some, or its work on the table prevents it.
    Raises ``InsufficientPrivilege`` if the role may not do that: PostgreSQL only warns of it; and
    ``InputError`` if the server does not count dead rows.
    """
    if connection.execute("SELECT current_setting('track_counts')").fetchone() != ("on",):
        raise InputError(
            "the content is erased, but the server does not count dead rows, so nobody can tell "
            "whether they are gone: set track_counts there, and erase it again"
        )
    warnings: list[str] = []

    def note(told):
        warnings.append(told.message_primary or "")

    connection.add_notice_handler(note)
    try:
        connection.execute(statements.vacuum)
    finally:
        connection.remove_notice_handler(note)
    if any("lock not available" in warning for warning in warnings):
        return False
    if warnings:
        raise InsufficientPrivilege(f"the content is erased, but {' '.join(warnings)}")
    ((dead,),) = connection.execute(statements.dead).fetchall()
    return not dead
