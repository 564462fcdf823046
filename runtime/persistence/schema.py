"""Define the tables of app.db, create or upgrade them, and compile statements on them.

JSON is stored as text, so that it is read back exactly; times are microseconds since the epoch. A test compares these
tables with an older file after its migrations.
"""

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    inspect,
    select,
    text,
)
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.types import TypeEngine
from sqlalchemy.util import await_only

from toolweave.encryption import TextCipher
from toolweave.errors import NewerSchema, PersistenceError
from toolweave.runtime.codec import from_json, from_micros, to_json, to_micros
from toolweave.runtime.persistence.database import driver_of, is_sqlite, lock

MIGRATIONS = Path(__file__).with_name("migrations")
# The revisions from and to which files are upgraded; their names sort by age.
OLDEST_REVISION, NEWEST_REVISION = "0004", "0008"
# The oldest version of the code, as its NEWEST_REVISION, that can use the newest schema; see `schema_compatibility`.
OLDEST_CODE = "0007"


def upgrade_schema(database: str, connection: Connection, cipher: TextCipher | None = None) -> None:
    """Create the tables, or run the missing migrations; errors name the `database`.

    `cipher` encrypts credentials that earlier versions stored in plain text. Raises the errors of `is_current`.
    """
    # Two processes that share a PostgreSQL database may start at once.
    lock(connection, "schema")
    revision = schema_revision(connection)
    if is_current(database, revision):
        return
    if not is_sqlite(connection):
        # Statements of other processes wait behind a migration that waits for a lock; the caller tries again.
        connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    scripts = ScriptDirectory(str(MIGRATIONS))
    steps = lambda heads, _: scripts._upgrade_revs("head", heads)  # noqa: E731, SLF001 - as in alembic's documentation
    options = {"fn": steps, "transactional_ddl": False, "cipher": cipher}
    context = MigrationContext.configure(connection, opts=options)
    if revision is not None:
        # As an argument, because `alembic.op` is one variable for all databases.
        context.run_migrations(op=Operations(context))
        return
    tables = [table for table in metadata.sorted_tables if table is not thread_labels or is_sqlite(connection)]
    metadata.create_all(connection, tables, checkfirst=False)
    for statement in CREATE_ON_SQLITE if is_sqlite(connection) else CREATE_ON_POSTGRESQL:
        connection.exec_driver_sql(statement)
    connection.execute(schema_compatibility.insert().values(oldest_code=OLDEST_CODE))
    context.stamp(scripts, "head")


class SchemaRevision(NamedTuple):
    """A database's schema revision, and the oldest code that can use it, if its migrations have recorded that."""

    revision: str
    oldest_code: str | None = None


def schema_revision(connection: Connection) -> SchemaRevision | None:
    """Return the schema revision of a database; None if it has no tables."""
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is None:
        return None
    is_recorded = inspect(connection).has_table(schema_compatibility.name)
    return SchemaRevision(revision, connection.scalar(select(schema_compatibility)) if is_recorded else None)


def is_current(database: str, schema: SchemaRevision | None) -> bool:
    """Return whether a database with this schema (None: no tables) needs no migration.

    Additive migrations leave the oldest code as it was, so that this version can use a newer schema.

    Raises:
        NewerSchema: the schema is newer than this version of Toolweave, which cannot use it.
        PersistenceError: the schema is older than any that can be upgraded.
    """
    alternative = "use another data folder (--data-dir or TOOLWEAVE_DATA_DIR) or database (TOOLWEAVE_DATABASE_URL)"
    if schema is None:
        return False
    revision, oldest_code = schema
    if revision > NEWEST_REVISION and (oldest_code is None or oldest_code > NEWEST_REVISION):
        raise NewerSchema.for_database(database, revision, NEWEST_REVISION, alternative)
    if revision < OLDEST_REVISION:
        raise PersistenceError(f"{database} has schema {revision!r}, older than {OLDEST_REVISION!r}: {alternative}.")
    return revision >= NEWEST_REVISION


# JSON text as jsonb, for searches; NULL for text that jsonb cannot hold, such as half a surrogate pair.
CREATE_ON_POSTGRESQL = (
    """
    CREATE OR REPLACE FUNCTION to_searchable(document text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN RETURN document::jsonb; EXCEPTION WHEN OTHERS THEN RETURN NULL; END $$
    """,
    "CREATE INDEX ix_threads_metadata ON threads USING gin (to_searchable(metadata) jsonb_path_ops)",
    "CREATE INDEX ix_run_events_created ON run_events USING brin (created_at)",
)
CREATE_ON_SQLITE = (
    """
    CREATE TRIGGER move_labels AFTER UPDATE OF updated_at ON threads WHEN new.status != 'busy'
    BEGIN UPDATE OR REPLACE thread_labels SET created_at = new.updated_at WHERE thread_id = new.thread_id; END
    """,
    """
    CREATE TRIGGER place_labels AFTER INSERT ON thread_labels
    WHEN new.created_at != (SELECT updated_at FROM threads WHERE thread_id = new.thread_id AND status != 'busy')
    BEGIN UPDATE OR REPLACE thread_labels SET created_at =
        (SELECT updated_at FROM threads WHERE thread_id = new.thread_id) WHERE thread_id = new.thread_id; END
    """,
    """
    CREATE TRIGGER delete_labels AFTER DELETE ON threads
    BEGIN DELETE FROM thread_labels WHERE thread_id = old.thread_id; END
    """,
)
metadata = MetaData()


def _required(kind: type[TypeEngine[Any]], *names: str) -> Iterator[Column[Any]]:
    return (Column(name, kind, nullable=False) for name in names)


def _optional(kind: type[TypeEngine[Any]], *names: str) -> Iterator[Column[Any]]:
    return (Column(name, kind) for name in names)


assistants = Table(
    "assistants",
    metadata,
    Column("assistant_id", Text, primary_key=True),
    Column("graph_id", Text, nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("description", Text),
    *_required(Text, "config", "context", "metadata"),
    Column("version", Integer, nullable=False),
    *_required(BigInteger, "created_at", "updated_at"),
)
assistant_versions = Table(
    "assistant_versions",
    metadata,
    Column("assistant_id", Text, ForeignKey("assistants.assistant_id", ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, primary_key=True),
    *_required(Text, "graph_id", "name"),
    Column("description", Text),
    *_required(Text, "config", "context", "metadata"),
    Column("created_at", BigInteger, nullable=False),
)
# `settled` is the status without pending or running runs: if the only pending run of an interrupted thread is
# cancelled, the thread is interrupted again. `claim` is the token of the request or sweep that writes the thread's
# checkpoints without a run; no run of the thread starts while it is set. `claimed_by` is the process that holds
# it. Until `followed_until` a process follows the thread's events, so its runs publish them to other processes.
threads = Table(
    "threads",
    metadata,
    Column("thread_id", Text, primary_key=True),
    *_required(Text, "status", "settled", "metadata", "config"),
    *_optional(Text, "state_values", "interrupts", "error"),
    Column("created_at", BigInteger, nullable=False, index=True),
    Column("updated_at", BigInteger, nullable=False, index=True),
    Column("state_updated_at", BigInteger, nullable=False, index=True),
    Column("ttl_strategy", Text),
    Column("ttl_minutes", Float),
    Column("expires_at", BigInteger),
    *_optional(Text, "claim", "claimed_by"),
    Column("followed_until", BigInteger),
    Column("priority", Integer),
    Column("fairness_group", Text),
)
# On SQLite only, for searches by a label; see search.py. Triggers set `created_at` to the thread's `updated_at` when
# the thread is not busy, so that the primary key has the order of the usual page, and delete the labels with the
# thread. They also correct what code with schema 0007 writes.
thread_labels = Table(
    "thread_labels",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, primary_key=True),
    Column("created_at", BigInteger, primary_key=True),
    Column("thread_id", Text, primary_key=True),
    sqlite_with_rowid=False,
)
# `seq` is the order of creation, which clocks and clients' ids cannot guarantee. `sealed` holds the caller's encrypted
# credentials; the statement that ends the run deletes them. Waiting runs start in the order of `urgency`: the
# time since which a run waits, shifted by its priority (S-08). The next three columns are used on PostgreSQL only:
# `promoted` if the run may start now, `watch` with what other processes wait for, and the process that executes it.
runs = Table(
    "runs",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("run_id", Text, nullable=False, unique=True),
    Column("thread_id", Text, ForeignKey("threads.thread_id", ondelete="CASCADE"), nullable=False),
    *_required(Text, "assistant_id", "graph_id", "status", "metadata", "kwargs", "multitask_strategy"),
    *_required(Integer, "temporary", "attempt"),
    Column("cancel", Text),
    Column("not_before", BigInteger),
    *_required(BigInteger, "created_at", "updated_at"),
    Column("sealed", LargeBinary),
    Column("urgency", BigInteger, nullable=False, server_default="0"),
    Column("promoted", Integer, nullable=False, server_default="0"),
    Column("watch", Integer, nullable=False, server_default="0"),
    *_optional(Text, "process_id", "cancel_reason"),
)
# The key of a thread that is followed before it exists: see insert_follow in events.py.
FOLLOW_PREFIX = "followed:"
run_events = Table(
    "run_events",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("event", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("created_at", BigInteger),
    # On PostgreSQL the events of a deleted temporary run stay a while, for clients of other processes.
    ForeignKeyConstraint(["run_id"], ["runs.run_id"], ondelete="CASCADE").ddl_if(dialect="sqlite"),
)
crons = Table(
    "crons",
    metadata,
    Column("cron_id", Text, primary_key=True),
    Column("assistant_id", Text, ForeignKey("assistants.assistant_id", ondelete="CASCADE"), nullable=False),
    Column("thread_id", Text, ForeignKey("threads.thread_id", ondelete="CASCADE")),
    Column("user_id", Text),
    Column("schedule", Text, nullable=False),
    Column("timezone", Text),
    Column("end_time", BigInteger),
    *_required(Text, "payload", "metadata"),
    Column("on_run_completed", Text),
    Column("enabled", Integer, nullable=False),
    Column("next_run_at", BigInteger, index=True),
    *_required(BigInteger, "created_at", "updated_at"),
    Column("user_members", Text),
    Column("sealed", LargeBinary),
)
# An outbox: a row is inserted in the transaction that ends its run, and deleted when the receiver has accepted it.
webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("delivery_id", Text, primary_key=True),
    *_required(Text, "run_id", "url"),
    Column("body", LargeBinary, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", BigInteger, index=True),
    Column("last_error", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("given_up_at", BigInteger),
)
# The events of the newer protocol; `data` is a whole event as JSON. The reference server does not send `detail` events
# (see runtime/events).
thread_events = Table(
    "thread_events",
    metadata,
    Column("thread_id", Text, ForeignKey("threads.thread_id", ondelete="CASCADE"), primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("run_id", Text, ForeignKey("runs.run_id", ondelete="CASCADE"), nullable=False, index=True),
    *_required(Text, "channel", "namespace"),
    Column("detail", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
thread_sequences = Table(
    "thread_sequences",
    metadata,
    Column("thread_id", Text, ForeignKey("threads.thread_id", ondelete="CASCADE"), primary_key=True),
    Column("last_seq", BigInteger, nullable=False),
)
# The processes that use a PostgreSQL database; one without a heartbeat for `lease` microseconds counts as dead.
processes = Table(
    "processes",
    metadata,
    Column("process_id", Text, primary_key=True),
    *_required(Text, "role", "host"),
    *_required(Integer, "pid", "slots"),
    *_required(BigInteger, "started_at", "heartbeat_at", "lease"),
)
# One row. A migration that older code cannot work with sets it to its own revision; additive ones leave it.
schema_compatibility = Table("schema_compatibility", metadata, Column("oldest_code", Text, primary_key=True))
EXPIRING = text("expires_at IS NOT NULL")
Index("ix_threads_expires_at", threads.c.expires_at, sqlite_where=EXPIRING, postgresql_where=EXPIRING)
# The statuses that last but are not the usual one; busy threads have active runs. SQLite needs OR.
STOPPED = text("status = 'interrupted' OR status = 'error'")
Index("ix_threads_stopped", threads.c.status, threads.c.updated_at, sqlite_where=STOPPED, postgresql_where=STOPPED)
Index("ix_thread_labels_thread", thread_labels.c.thread_id, thread_labels.c.key, thread_labels.c.value)
# For searches in the order of the statuses only: SQLite would also use a full index for searches by a status.
ANY_STATUS = text("status > ''")
Index("ix_threads_status", threads.c.status, threads.c.thread_id, sqlite_where=ANY_STATUS, postgresql_where=ANY_STATUS)
CLAIMED = text("claim IS NOT NULL")
Index("ix_threads_claimed", threads.c.thread_id, sqlite_where=CLAIMED, postgresql_where=CLAIMED)
Index("ix_runs_thread", runs.c.thread_id, runs.c.seq)
ACTIVE = text("status IN ('pending', 'running')")
Index("ix_runs_active", runs.c.thread_id, runs.c.seq, sqlite_where=ACTIVE, postgresql_where=ACTIVE)
RUNNING = text("status = 'running'")
Index("ux_runs_one_running", runs.c.thread_id, unique=True, sqlite_where=RUNNING, postgresql_where=RUNNING)
PROMOTED = text("status = 'pending' AND promoted = 1")
Index("ix_runs_promoted", runs.c.urgency, runs.c.seq, sqlite_where=PROMOTED, postgresql_where=PROMOTED)
R = TypeVar("R")
Parameters = Mapping[str, object]
JSON_COLUMNS = frozenset({"config", "context", "metadata", "kwargs", "payload", "interrupts", "error"})
TIME_COLUMNS = frozenset(
    {"created_at", "updated_at", "state_updated_at", "not_before", "end_time", "next_run_at", "expires_at"}
)


class Statement:
    """A SQLAlchemy statement compiled to SQL once and executed by the driver; rows have their columns as attributes.

    SQLAlchemy's own execution takes 20 µs, this 6 µs. All column types are native to the driver. Errors are the
    driver's exceptions.
    """

    def __init__(self, statement: ClauseElement, keys: list[str] | None = None) -> None:
        """Compile for SQLite; `keys` are the columns that an insert fills."""
        self._statement = statement
        self._keys = keys
        self._sql, self._constants = _compile(statement, keys, sqlite_dialect(paramstyle="named"))
        self._postgresql: tuple[str, dict[str, Any]] | None = None
        columns = getattr(statement, "exported_columns", ())
        self._row: Callable[..., Any] = namedtuple("Row", [column.name for column in columns])  # type: ignore[misc]

    def run(self, connection: Connection, parameters: Parameters) -> None:
        """Execute the statement."""
        self._execute(connection, parameters)

    def run_many(self, connection: Connection, rows: Sequence[Parameters]) -> None:
        """Execute the statement once per row of parameters."""
        if is_sqlite(connection):
            driver_of(connection).executemany(self._sql, [{**self._constants, **row} for row in rows])
        else:
            for row in rows:
                self._execute(connection, row)

    def first(self, connection: Connection, parameters: Parameters) -> Any:
        """Execute the statement and return the first row, or None."""
        if is_sqlite(connection):
            row = driver_of(connection).execute(self._sql, {**self._constants, **parameters}).fetchone()
        else:
            row = next(iter(self._execute(connection, parameters)), None)
        return None if row is None else self._row(*row)

    def all(self, connection: Connection, parameters: Parameters) -> list[Any]:
        """Execute the statement and return all rows."""
        return [self._row(*row) for row in self._execute(connection, parameters)]

    def _execute(self, connection: Connection, parameters: Parameters) -> Iterable[Any]:
        if is_sqlite(connection):
            return driver_of(connection).execute(self._sql, {**self._constants, **parameters})
        if self._postgresql is None:
            self._postgresql = _compile(self._statement, self._keys, connection.dialect)
        sql, constants = self._postgresql
        return execute_on_postgresql(connection, sql, {**constants, **parameters})


def _compile(statement: ClauseElement, keys: list[str] | None, dialect: Dialect) -> tuple[str, dict[str, Any]]:
    """Return a statement's SQL and the constants in it, which are parameters, too."""
    compiled = statement.compile(dialect=dialect, column_keys=keys)
    binds = {name: bind for name, bind in compiled.binds.items() if not bind.required}  # type: ignore[attr-defined]
    return str(compiled), {name: bind.value for name, bind in binds.items() if bind.value is not None}


def execute_on_postgresql(connection: Connection, statement: str, parameters: Parameters) -> Sequence[Any]:
    """Execute a statement by psycopg and return its rows."""
    driver: Any = connection.connection.driver_connection
    cursor = await_only(driver.execute(statement, parameters))
    rows: Sequence[Any] = await_only(cursor.fetchall()) if cursor.description is not None else ()
    return rows


def to_record(kind: type[R], row: Any, **overrides: Any) -> R:
    """Convert a row to a dataclass by equal names; `overrides` sets fields that are stored differently."""
    for field in fields(kind):  # type: ignore[arg-type]  # every kind is a dataclass
        name = field.name
        if name not in overrides and name in row._fields:
            overrides[name] = _convert(name, getattr(row, name), from_json, from_micros)
    return kind(**overrides)


def to_row(table: Table, record: Any, **overrides: object) -> dict[str, Any]:
    """Convert a dataclass to the columns of a table by equal names; `overrides` sets columns that differ."""
    for name in table.c.keys():  # noqa: SIM118 - iterating over it yields columns, not keys
        if name not in overrides and hasattr(record, name):
            overrides[name] = _convert(name, getattr(record, name), to_json, to_micros)
    return overrides


def _convert(name: str, value: Any, convert_json: Callable[[Any], Any], convert_time: Callable[[Any], Any]) -> Any:
    if value is None:
        return None
    if name in JSON_COLUMNS:
        return convert_json(value)
    return convert_time(value) if name in TIME_COLUMNS else value
