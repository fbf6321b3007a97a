"""The PostgreSQL tables in which a ledger is kept, in a schema of the memory's name.

They are those of SQLite: ``about`` has one row, ``entries`` a ``Row`` an entry. All names in SQL
are qualified, and no schema but PostgreSQL's own is searched, so that objects of the same names are
never meant.
"""

from psycopg import Connection
from psycopg.errors import DatabaseError, InsufficientPrivilege
from psycopg.sql import SQL, Identifier, Literal

from ocrrlib.memory.rows import FIELDS
from ocrrlib.memory.store import About, read_about

CONTENT = "salt", "label", "author", "text", "x", "act"
LOCK = 0x6F637272  # the first number of the advisory lock; the second is that of about
TABLES = """
CREATE SCHEMA {schema};
CREATE TABLE {schema}.about (about text NOT NULL);
CREATE TABLE {schema}.entries (
    place bigint PRIMARY KEY, time bigint NOT NULL, commitment bytea NOT NULL,
    previous bytea NOT NULL, hash bytea NOT NULL,
    salt bytea, label text, author text, text text, x bytea, act text);
ALTER TABLE {schema}.entries ALTER x SET STORAGE EXTERNAL;
"""
# What the tables have: kind and persistence of relations, columns with types, defaults and the
# like, keys; and nothing of what would change or hide what is written or read.
SHAPE = """
WITH ours AS (SELECT * FROM pg_class WHERE relnamespace = %s)
SELECT concat_ws(' ', 'relation', relname, relkind, relpersistence, amname,
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
    "column entries 10 x bytea f f",
    'column entries 11 act text f f "default"',
    "column entries_pkey 1 place bigint f f",
    "index entries_pkey t t 1",
    "constraint entries_pkey p {1}",
}


class Statements:
    """The SQL of one memory's tables, by its schema's name."""

    def __init__(self, name: str):
        schema = Identifier(name)
        table = Identifier(name, "entries").as_string()

        def of(text: str) -> bytes:
            query = SQL(text).format(  # type: ignore[arg-type]
                schema=schema,
                fields=SQL(FIELDS),
                table=Literal(table),  # type: ignore[arg-type]
            )
            return query.as_bytes()  # once, not at each call

        self.tables = of(TABLES)
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
            "SELECT {fields} FROM {schema}.entries WHERE place > %s ORDER BY place LIMIT %s"
        )
        self.links = of("SELECT previous, hash FROM {schema}.entries ORDER BY place")
        self.insert = of(
            "INSERT INTO {schema}.entries ({fields}) VALUES "
            "(%b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b)"
        )
        nothing = ", ".join(f"{name} = NULL" for name in CONTENT)
        self.erase = of(f"UPDATE {{schema}}.entries SET {nothing} WHERE place = ANY(%s)")
        self.vacuum = of("VACUUM {schema}.entries")
        self.room = of("SELECT pg_total_relation_size({table}::regclass)")
        # Of the table, and of that beside it which has long values
        self.dead = of(
            "SELECT sum(pg_stat_get_dead_tuples(one)) FROM pg_class, unnest(ARRAY[oid, "
            "reltoastrelid]) one WHERE oid = {table}::regclass AND one <> 0"
        )


def schema_of(connection: Connection, name: str) -> int | None:
    """Return the number of a schema, or None if there is none."""
    found = connection.execute("SELECT oid FROM pg_namespace WHERE nspname = %s", [name]).fetchone()
    return None if found is None else found[0]


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
    found = connection.execute(SHAPE, [schema_of(connection, name)]).fetchall()
    if {line for (line,) in found} != OWN_SHAPE:  # a trigger would change what is written
        raise DatabaseError("it is something else, of a later release, or its tables were changed")
    about = read_about(connection.execute(statements.about).fetchall())
    if about is None:
        raise DatabaseError("its table about was changed, or is of another version")
    return about


def vacuumed(connection: Connection, statements: Statements) -> bool:
    """Remove dead versions of rows; False if another program's transaction still sees some.

    Raises ``InsufficientPrivilege`` if the role may not do that: PostgreSQL only warns of it.
    """
    warnings: list[str] = []

    def note(told):
        warnings.append(told.message_primary or "")

    connection.add_notice_handler(note)
    try:
        connection.execute(statements.vacuum)
    finally:
        connection.remove_notice_handler(note)
    if warnings:
        raise InsufficientPrivilege(f"the content is erased, but {' '.join(warnings)}")
    ((dead,),) = connection.execute(statements.dead).fetchall()
    return not dead
