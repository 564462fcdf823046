"""Copy the databases of a data folder into an empty PostgreSQL database: `toolweave db copy` (S-06).

All is one transaction, so that a failed copy leaves nothing behind. Rows are sent by COPY in their order.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Table

from toolweave.encryption import TextCipher
from toolweave.errors import PersistenceError, TokenStoreError
from toolweave.runtime.persistence.checkpoints.postgres_rows import to_jsonb
from toolweave.runtime.persistence.checkpoints.postgres_saver import split_values
from toolweave.runtime.persistence.checkpoints.saver import CheckpointSerializer
from toolweave.runtime.persistence.postgres.database import PostgresDatabase, RawConnection, scalar
from toolweave.runtime.persistence.postgres.store import stored_minutes, stored_value, vector_text
from toolweave.runtime.persistence.postgres.workers import LIVE_PROCESSES
from toolweave.runtime.persistence.schema import metadata, processes, schema_compatibility, thread_labels

Row = tuple[Any, ...]
ROWS_PER_BATCH = 500
# A server that has used the database already has stored the assistants of its langgraph.json there.
REPLACED = ("assistant_versions", "assistants", "tool_registry_revision")
NOT_COPIED = (processes, schema_compatibility, thread_labels)
# What differs in the copy: running runs have lost their process, and nobody holds a thread.
EXPRESSIONS = {
    ("threads", "claim"): "NULL",
    ("threads", "claimed_by"): "NULL",
    ("threads", "followed_until"): "NULL",
    ("runs", "status"): "iif(status = 'running', 'pending', status)",
    ("runs", "promoted"): "0",
    ("runs", "watch"): "0",
    ("runs", "process_id"): "NULL",
    ("run_events", "created_at"): "coalesce(created_at, (SELECT updated_at FROM runs AS r WHERE r.run_id = t.run_id))",
}
SERIAL_COLUMNS = """
SELECT column_name FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name = %s AND column_default LIKE 'nextval(%%'
"""
KEY = ("thread_id", "checkpoint_ns", "checkpoint_id")
WRITE = ("task_id", "task_path", "idx", "channel", "type")
ITEM = ("prefix", "key", "value", "created_at", "updated_at", "expires_at", "ttl_minutes")
VECTOR = ("prefix", "key", "field_name", "embedding", "created_at", "updated_at")


@dataclass(frozen=True, slots=True)
class TableCopy:
    """The rows of a SQLite table for a PostgreSQL table; `convert` returns the rows that replace one."""

    source: str
    target: str
    columns: Sequence[str]
    expressions: Sequence[str]
    convert: Callable[[Row], Row] = field(default=lambda row: row)
    condition: str = "1"

    @property
    def query(self) -> str:
        """Return the statement that selects the rows."""
        return f"SELECT {', '.join(self.expressions)} FROM {self.source} AS t WHERE {self.condition} ORDER BY rowid"  # noqa: S608 - constants


@dataclass
class FolderCopy:
    """A copy of one data folder, which the caller has locked and upgraded; `dims` is the length of stored vectors.

    `read` and `write` are the ciphers of the folder and of the servers that use the database. `others` are the tables
    of further files of the folder that belong into the database.
    """

    folder: Path
    read: TextCipher = field(kw_only=True)
    write: TextCipher = field(kw_only=True)
    dims: int | None = None
    others: Mapping[str, Sequence[Table]] = field(default_factory=dict)
    serde: CheckpointSerializer = field(default_factory=CheckpointSerializer, init=False)

    async def run(self, database: PostgresDatabase) -> dict[str, int]:
        """Copy everything and return the number of rows by table.

        Raises:
            PersistenceError: processes use the database, it is not empty, or a row cannot be stored there. Nothing is
                stored.
        """
        counts: dict[str, int] = {}
        try:
            async with database.pool.connection() as connection, connection.transaction():
                # Times without a time zone are UTC.
                await connection.execute("SET LOCAL TimeZone = 'UTC'; LOCK TABLE threads IN SHARE ROW EXCLUSIVE MODE")
                await self._require_unused(connection)
                for file, tables in self._tables().items():
                    with closing(sqlite3.connect(self.folder / file)) as source:
                        source.execute("BEGIN")
                        for table in tables:
                            counts[table.target] = await self._copy_table(connection, source, table)
                        if file == "checkpoints.db":
                            counts["checkpoints"] = await self._copy_checkpoints(connection, source)
                # Without statistics, queries would read whole tables until PostgreSQL collects some.
                await connection.execute("ANALYZE")
        except (psycopg.Error, sqlite3.Error) as error:
            # The rest of PostgreSQL's text quotes the row.
            reason = error.diag.message_primary if isinstance(error, psycopg.Error) else None
            raise PersistenceError(
                f"The data folder {self.folder} could not be copied to {database.label}: {reason or error}. Nothing "
                "was stored."
            ) from error
        return counts

    def _tables(self) -> dict[str, list[TableCopy]]:
        """Return what to copy from each file, in an order that satisfies foreign keys."""
        files = {"app.db": [self._plain(table) for table in metadata.sorted_tables if table not in NOT_COPIED]}
        in_task = (*KEY, *WRITE, "value")
        columns = (*KEY, *WRITE, "blob")
        texts = (*KEY, "task_id", "coalesce(task_path, '')", *in_task[5:])
        files["checkpoints.db"] = [
            TableCopy("writes", "checkpoint_writes", columns, texts),
            TableCopy("kept_writes", "kept_writes", ("run_id", *columns), ("run_id", *in_task)),
        ]
        value_as_text = [f"CAST({name} AS TEXT)" if name == "value" else name for name in ITEM]
        files["store.db"] = [TableCopy("store", "store", ITEM, value_as_text, _convert_item)]
        if self.dims is not None:
            condition = f"length(embedding) = {4 * self.dims}"
            files["store.db"].append(
                TableCopy("store_vectors", "store_vectors", VECTOR, VECTOR, _convert_vector, condition)
            )
        return files | {file: [self._plain(table) for table in tables] for file, tables in self.others.items()}

    def _plain(self, table: Table) -> TableCopy:
        columns = table.c.keys()
        expressions = [EXPRESSIONS.get((table.name, column), column) for column in columns]
        sealed = columns.index("sealed") if "sealed" in columns else None

        def convert(row: Row) -> Row:
            values: list[Any] = [value.replace("\0", "") if isinstance(value, str) else value for value in row]
            if sealed is not None:
                values[sealed] = self._reseal(values[sealed])
            return tuple(values)

        return TableCopy(table.name, table.name, columns, expressions, convert)

    def _reseal(self, sealed: bytes | None) -> bytes | None:
        """Encrypt credentials with the other key; those that cannot be read stay, and their run reports it."""
        try:
            return sealed and self.write.encrypt(self.read.decrypt(sealed))
        except TokenStoreError:
            return sealed

    async def _require_unused(self, connection: RawConnection) -> None:
        if await scalar(connection, LIVE_PROCESSES):
            raise PersistenceError("Processes of Toolweave use the database. Stop them first; nothing was stored.")
        targets = [table.target for tables in self._tables().values() for table in tables]
        for target in (*targets, "checkpoints"):
            if target not in REPLACED and await scalar(connection, _on(target, "SELECT EXISTS (SELECT FROM {table})")):
                raise PersistenceError(
                    f"The database has rows in its table {target}: copy to an empty database. Nothing was stored."
                )
        for target in REPLACED:
            if target in targets:
                await connection.execute(_on(target, "DELETE FROM {table}"))

    async def _copy_table(self, connection: RawConnection, source: sqlite3.Connection, table: TableCopy) -> int:
        rows = (table.convert(row) for row in source.execute(table.query))
        await _send(connection, table.target, table.columns, rows)
        number = await _compare(connection, source, table)
        for (column,) in await (await connection.execute(SERIAL_COLUMNS, (table.target,))).fetchall():
            following = "SELECT setval(pg_get_serial_sequence({name}, {key}), max({column})) FROM {table}"
            parts = {"name": sql.Literal(table.target), "key": sql.Literal(column), "column": sql.Identifier(column)}
            await connection.execute(_on(table.target, following, **parts))
        return number

    async def _copy_checkpoints(self, connection: RawConnection, source: sqlite3.Connection) -> int:
        """Split each checkpoint into its JSON and its values, each version of which is stored once."""
        columns = (*KEY, "parent_checkpoint_id", "checkpoint", "metadata")
        query = (
            "SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata "
            "FROM checkpoints ORDER BY thread_id, checkpoint_ns, checkpoint_id"
        )
        namespace, stored = None, set[tuple[str, str]]()
        found = source.execute(query)
        while batch := found.fetchmany(ROWS_PER_BATCH):
            rows, blobs = [], []
            for *key, parent_id, kind, encoded, described in batch:
                if namespace != key[:2]:
                    namespace, stored = key[:2], set()
                checkpoint = self.serde.loads_typed((kind, encoded))
                inside, values = split_values(checkpoint)
                text = to_jsonb(json.dumps(inside, ensure_ascii=False))
                rows.append((*key, parent_id, text, to_jsonb(_text(described) or "{}")))
                for channel, value in values.items():
                    version = (channel, str(checkpoint["channel_versions"].get(channel)))
                    if version not in stored:
                        stored.add(version)
                        blobs.append((*key[:2], *version, *self.serde.dumps_typed(value)))
            await _send(connection, "checkpoint_blobs", (*KEY[:2], "channel", "version", "type", "blob"), blobs)
            await _send(connection, "checkpoints", columns, rows)
        return await _compare(connection, source, TableCopy("checkpoints", "checkpoints", columns, columns))


def _convert_item(row: Row) -> Row:
    prefix, key, value, created_at, updated_at, expires_at, minutes = row
    return prefix, key, stored_value(value), created_at, updated_at, expires_at, stored_minutes(minutes)


def _convert_vector(row: Row) -> Row:
    return *row[:3], vector_text(row[3]), *row[4:]


def _text(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def _on(table: str, statement: str, **parts: sql.Composable) -> sql.Composed:
    return sql.SQL(statement).format(table=sql.Identifier(table), **parts)


async def _send(connection: RawConnection, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    async with connection.cursor().copy(_on(table, "COPY {table} ({names}) FROM STDIN", names=names)) as copy:
        for row in rows:
            await copy.write_row(row)


async def _compare(connection: RawConnection, source: sqlite3.Connection, table: TableCopy) -> int:
    """Return the number of rows. Raises PersistenceError unless both tables have as many."""
    query = f"SELECT count(*) FROM {table.source} WHERE {table.condition}"  # noqa: S608 - constants
    (before,) = source.execute(query).fetchone()
    after: int = await scalar(connection, _on(table.target, "SELECT count(*) FROM {table}"))
    if before != after:
        raise PersistenceError(
            f"The table {table.target} has {after} rows after the copy of {before}. Nothing was stored."
        )
    return after
