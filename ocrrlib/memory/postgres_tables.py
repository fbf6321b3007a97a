"""The PostgreSQL tables in which a ledger is kept, in a schema of the memory's name.

They are those of SQLite: ``about`` has one row, ``entries`` a ``Row`` an entry. All names in SQL
are qualified, and no schema but PostgreSQL's own is searched, so that objects of the same names are
never meant.

In a base with the extension pgvector, column x is a ``vector``, which the server can search;
elsewhere it is ``bytea``.
"""

import re
import time

from psycopg import Connection
from psycopg.errors import DatabaseError, InsufficientPrivilege
from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from ocrrlib.files import InputError
from ocrrlib.memory.postgres_vectors import row_received, row_to_send
from ocrrlib.memory.rows import FIELDS, Row
from ocrrlib.memory.store import About, read_about

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
# What the tables have: kind and persistence of relations, columns with types, defaults and the
# like, keys; and nothing of what would change or hide what is written or read.
SHAPE = """
WITH every AS (SELECT * FROM pg_class WHERE relnamespace = %s
    AND (relkind <> 'i' OR relname !~ '_cc(new|old)[0-9]*$')),
ours AS (SELECT * FROM every WHERE relkind <> 'i' OR relname <> 'nearest')
SELECT pg_get_indexdef(oid) FROM every WHERE relkind = 'i' AND relname = 'nearest'
UNION ALL SELECT concat_ws(' ', 'relation', relname, relkind, relpersistence, amname,
    relrowsecurity, relforcerowsecurity, relispartition)
    FROM ours LEFT JOIN pg_am ON pg_am.oid = relam
UNION ALL SELECT concat_ws(' ', 'column', relname, attnum, attname,
    format_type(atttypid, atttypmod), attnotnull, atthasdef, nullif(attidentity::text, ''),
    nullif(attgenerated::text, ''), nullif(attcollation, 0)::regcollation)
    FROM ours JOIN pg_attribute ON attrelid = ours.oid WHERE attnum > 0
UNION ALL SELECT concat_ws(' ', 'index', relname,
    indisunique, indisvalid, indkey, indpred, indexprs)
    FROM ours JOIN pg_index ON indexrelid = ours.oid
UNION ALL SELECT concat_ws(' ', 'constraint', conname, contype, conkey)
    FROM ours JOIN pg_constraint ON ours.oid IN (conrelid, confrelid) WHERE contype <> 'n'
UNION ALL SELECT concat_ws(' ', 'trigger', tgname) FROM ours JOIN pg_trigger ON tgrelid = ours.oid
UNION ALL SELECT concat_ws(' ', 'rule', rulename) FROM ours JOIN pg_rewrite ON ev_class = ours.oid
UNION ALL SELECT concat_ws(' ', 'policy', polname) FROM ours JOIN pg_policy ON polrelid = ours.oid
UNION ALL SELECT concat_ws(' ', 'heir', inhrelid, inhparent)
    FROM ours JOIN pg_inherits ON ours.oid IN (inhrelid, inhparent)
"""
OWN_SHAPE = {
    "relation about r p heap f f f",
    "relation entries r p heap f f f",
    "relation entries_pkey i p btree f f f",
    'column about 1 about text t f "default"',
    "column entries 1 place bigint t f",
    "column entries 2 time bigint t f",
    "column entries 3 commitment bytea t f",
    "column entries 4 previous bytea t f",
    "column entries 5 hash bytea t f",
    "column entries 6 salt bytea f f",
    'column entries 7 label text f f "default"',
    'column entries 8 author text f f "default"',
    'column entries 9 text text f f "default"',
    'column entries 11 act text f f "default"',
    "column entries_pkey 1 place bigint f f",
    "index entries_pkey t t 1",
    "constraint entries_pkey p {1}",
}
OWN_X = "column entries 10 x {} f f"
OWN_INDEX = (
    "CREATE INDEX nearest ON {schema}.entries "
    "USING hnsw (((x)::{vector}.halfvec({dim})) {vector}.halfvec_ip_ops)"
)


class Statements:
    """The SQL of one memory's tables, by its schema's name, and that of pgvector, if it is used."""

    def __init__(self, name: str, vector: str | None):
        self.vector = vector
        self._schema = Identifier(name)
        shown = FIELDS
        x: Composable = SQL("bytea")
        if vector is not None:
            shown = FIELDS.replace("x,", "{vector}.vector_send(x),")
            x = SQL("{}.vector").format(Identifier(vector))

        def of(text: str) -> bytes:
            names = {
                "schema": self._schema,
                "vector": Identifier(vector or ""),
                "x": x,
                "table": Literal(Identifier(name, "entries").as_string()),
            }
            text = text.replace("{shown}", shown).replace("{fields}", FIELDS)
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
        self.row = of("SELECT {shown} FROM {schema}.entries WHERE place = %s")
        self.block = of(
            "SELECT {shown} FROM {schema}.entries WHERE place >= %s ORDER BY place LIMIT %s"
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
        text = OWN_INDEX.replace("INDEX", "INDEX CONCURRENTLY", 1).replace("{dim}", str(dim))
        names = {"schema": self._schema, "vector": Identifier(self.vector or "")}
        return SQL(text).format(**names)  # type: ignore[arg-type]

    def to_send(self, row: Row) -> Row:
        """Return an entry as it is inserted."""
        return row if self.vector is None else row_to_send(row)

    def received(self, values: tuple) -> Row:
        """Return an entry from what was selected."""
        return Row(*values) if self.vector is None else row_received(values)


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


def about_of(connection: Connection, statements: Statements, name: str) -> About:
    """Return what a memory says about itself.

    Raises ``psycopg.DatabaseError`` if that is of another version or damaged, or the tables in the
    schema are not those of a memory, and no more.
    """
    found = {line for (line,) in connection.execute(SHAPE, [schema_of(connection, name)])}
    vector = statements.vector
    quoted = connection.execute("SELECT quote_ident(%s), quote_ident(%s)", [name, vector or ""])
    ((schema, extension),) = quoted.fetchall()
    x = OWN_X.format("bytea" if vector is None else f"{extension}.vector")
    index = OWN_INDEX.format(schema=schema, vector=extension, dim="DIM")
    is_index = re.compile(re.escape(index).replace("DIM", "[0-9]+")).fullmatch
    more = found - OWN_SHAPE - {x}
    if not OWN_SHAPE | {x} <= found or not all(map(is_index, more)):
        # A trigger would change what is written.
        raise DatabaseError("it is something else, of a later release, or its tables were changed")
    about = read_about(connection.execute(statements.about).fetchall())
    if about is None:
        raise DatabaseError("its table about was changed, or is of another version")
    return about


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
