"""Store checkpoints in LangGraph's PostgreSQL tables, under claims that the database checks in the same statement."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from psycopg import AsyncConnection, AsyncCursor, OperationalError
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

from toolweave.errors import ClaimLost, PersistenceError
from toolweave.runtime.persistence.checkpoints import postgres_rows as sql
from toolweave.runtime.persistence.checkpoints import rows as shared
from toolweave.runtime.persistence.checkpoints.rows import ThreadStorage
from toolweave.runtime.persistence.checkpoints.saver import (
    CheckpointKey,
    NewCheckpoint,
    RunAwareSaver,
    TaskWrites,
    is_foreign,
)
from toolweave.runtime.persistence.retries import repeatable
from toolweave.runtime.persistence.threads import ThreadClaim


class PostgresRunSaver(RunAwareSaver, AsyncPostgresSaver):
    """LangGraph's saver for several processes: a late write of a lost claim is refused by the database.

    The rows of `threads` and `runs` prove a claim, and each write locks them (`postgres_rows`). Only the
    claims of cancelled graphs are in memory. A save is one statement, and saves of several runs are concurrent.
    """

    copy_statements = (sql.COPY_THREAD,)

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection[Any]]) -> None:
        super().__init__(pool)
        self._pool = pool
        self._unfinished: set[asyncio.Task[None]] = set()
        # By thread, namespace and run; other writes of the run wait until the backup is stored.
        self._backups: dict[tuple[str, str, str], asyncio.Task[None]] = {}

    async def setup(self) -> None:
        """Create or upgrade all tables; several processes may do so at the same time.

        All is one transaction. LangGraph's setup would not work under a lock: CREATE INDEX CONCURRENTLY waits for the
        statements of the processes that wait for the lock.
        """
        async with self._cursor() as cursor, cursor.connection.transaction():
            await cursor.execute(sql.LOCK_SETUP)
            await cursor.execute(self.MIGRATIONS[0])
            await cursor.execute("SELECT COALESCE(MAX(v), -1) AS newest FROM checkpoint_migrations")
            (applied,) = await cursor.fetchall()
            for version in range(applied["newest"] + 1, len(self.MIGRATIONS)):
                await cursor.execute(self.MIGRATIONS[version].replace("CONCURRENTLY", "").encode())
                await cursor.execute("INSERT INTO checkpoint_migrations (v) VALUES (%s)", (version,))
            for statement in (shared.CREATE_KEPT_WRITES, shared.INDEX_KEPT_WRITES):
                await cursor.execute(sql.for_postgres(statement).encode())

    @repeatable
    async def require_claim(self, claim: ThreadClaim) -> None:
        """Raise ClaimLost unless this claim holds its thread."""
        async with self._cursor() as cursor:
            await _prove(cursor, claim)

    async def wait_for_writes(self) -> None:
        """Wait until all writes that have begun in this process are stored or have failed."""
        if self._unfinished:
            await asyncio.wait(self._unfinished)

    async def prune_older(self, thread_id: str, claim: ThreadClaim | None = None) -> None:
        """Delete checkpoints older than the newest of each namespace that are not needed to read that one.

        Raises:
            ClaimLost: another claim holds the thread.
        """
        await self._execute(claim, *sql.PRUNE, thread_id=thread_id)

    async def measure_storage(self, thread_id: str) -> ThreadStorage:
        """Return the storage of a thread; a value that several checkpoints have is stored once."""
        storage, values = ThreadStorage(), {"thread_id": thread_id}
        async with self._cursor() as cursor:
            (checkpoints,) = await _fetch(cursor, sql.MEASURE_CHECKPOINTS, values)
            (writes,) = await _fetch(cursor, sql.MEASURE_WRITES, values)
            for row in await _fetch(cursor, sql.MEASURE_CHANNELS, values):
                storage.channel_bytes[row["channel"]] = row["bytes"]
            for row in await _fetch(cursor, sql.CHANNEL_VERSIONS, values):
                storage.channel_versions[row["channel"]].add((row["checkpoint_ns"], row["version"]))
        storage.checkpoints, storage.checkpoint_bytes = checkpoints["number"], checkpoints["bytes"]
        storage.writes, storage.write_bytes = writes["number"], writes["bytes"]
        return storage

    async def thread_ids(self) -> set[str]:
        """Return the ids of threads that have checkpoints or writes."""
        async with self._cursor() as cursor:
            queries = (shared.SELECT_THREAD_IDS.format(table=t) for t in ("checkpoints", "checkpoint_writes"))
            return {row["thread_id"] for query in queries for row in await _fetch(cursor, query, {})}

    @asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncIterator[AsyncCursor[DictRow]]:  # noqa: ARG002
        """Open a cursor of a connection of its own; LangGraph's would let one operation wait for another."""
        try:
            async with (
                self._pool.connection() as connection,
                connection.cursor(binary=True, row_factory=dict_row) as cursor,
            ):
                yield cursor
        except OperationalError as error:
            raise PersistenceError(f"PostgreSQL cannot be used for checkpoints: {error}") from error

    @repeatable
    async def _load(self, config: RunnableConfig, key: CheckpointKey) -> CheckpointTuple | None:
        if not all(sql.is_text(name or "") for name in key):
            return None
        found = await AsyncPostgresSaver.aget_tuple(self, {"configurable": key._asdict()})
        # As on SQLite, and as the official server answers.
        return found._replace(config=config) if found is not None and key.checkpoint_id else found

    async def _save(self, config: RunnableConfig, key: CheckpointKey, new: NewCheckpoint) -> None:
        stored, blobs = split_values(new.checkpoint)
        rows = [
            (name, str(version), *self.serde.dumps_typed(blobs[name]))
            for name, version in new.versions.items()
            if name in blobs
        ]
        values = {
            **key._asdict(),
            "new_id": new.checkpoint["id"],
            "checkpoint": sql.to_jsonb(json.dumps(stored, ensure_ascii=False)),
            "metadata": sql.to_jsonb(new.metadata),
            # A node that writes to another thread must have seen what is stored there.
            "after": (key.checkpoint_id or "") if is_foreign(config, key) else None,
            **_columns(("channels", "versions", "types", "blobs"), rows),
        }
        await self._notify_before_save(config)
        claim = self._claim_of_write(config, key)
        await self._finish(self._write(claim, sql.PUT_CHECKPOINT, values))

    async def _save_writes(self, config: RunnableConfig, key: CheckpointKey, writes: TaskWrites) -> None:
        # A statement cannot replace a row twice.
        rows = list({row[0]: row for row in writes.rows}.values()) if writes.replaceable else writes.rows
        values = {
            **key._asdict(),
            "task_id": writes.task_id,
            "task_path": writes.task_path,
            "after": None,
            **_columns(("indexes", "channels", "types", "blobs"), rows),
        }
        claim = self._claim_of_write(config, key)
        run_id = self._run_to_back_up_for(config, key)

        async def work() -> None:
            if run_id is not None:
                await self._back_up(claim, key, run_id)
            await self._write(claim, sql.REPLACE_WRITES if writes.replaceable else sql.ADD_WRITES, values)

        await self._finish(work())

    async def _back_up(self, claim: ThreadClaim | None, key: CheckpointKey, run_id: str) -> None:
        """Back up a checkpoint's writes before the run's first one; several first ones wait for the same backup.

        Another process that continues the run does this again, which changes nothing if it is stored already.
        """
        loaded = (key.thread_id, key.checkpoint_ns, run_id)
        if loaded not in self._backups:
            work = self._change(claim, (shared.BACK_UP_WRITES,), {**key._asdict(), "run_id": run_id})
            self._backups[loaded] = asyncio.create_task(work)
            self._backups[loaded].add_done_callback(lambda _: self._backups.pop(loaded))
        await self._backups[loaded]
        self._loaded_checkpoints.pop(loaded, None)

    @repeatable
    async def _write(self, claim: ThreadClaim | None, statement: str, values: dict[str, Any]) -> None:
        """Execute a statement that starts after a fence."""
        async with self._cursor() as cursor:
            if claim is not None:
                await _prove(cursor, claim, statement, values)
                return
            async with cursor.connection.transaction():
                await cursor.execute(sql.LOCK_THREAD, values)
                if not await _fetch(cursor, sql.UNCLAIMED_FENCE + statement, values):
                    raise ClaimLost(values["thread_id"])

    @repeatable
    async def _fetch_row(self, query: str, values: dict[str, Any]) -> Any | None:
        async with self._cursor() as cursor:
            return next(iter(await _fetch(cursor, sql.for_postgres(query), values)), None)

    async def _execute(self, claim: ThreadClaim | None, *statements: str, **values: object) -> None:
        await self.wait_for_writes()
        await self._finish(self._change(claim, (*statements, sql.DELETE_UNUSED_BLOBS), values))

    @repeatable
    async def _change(self, claim: ThreadClaim | None, statements: tuple[str, ...], values: dict[str, Any]) -> None:
        async with self._cursor() as cursor, cursor.connection.transaction():
            if claim is not None:
                await _prove(cursor, claim)
            for statement in statements:
                await cursor.execute(sql.for_postgres(statement).encode(), values)

    async def _finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Write to the end although the caller is cancelled, and let `wait_for_writes` wait for it."""
        task = asyncio.create_task(work)
        self._unfinished.add(task)
        task.add_done_callback(self._forget)
        await asyncio.shield(task)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._unfinished.discard(task)
        if not task.cancelled():
            # Read here for callers that were cancelled: asyncio logs errors that nobody has read.
            task.exception()


async def _prove(
    cursor: AsyncCursor[DictRow], claim: ThreadClaim, statement: str = sql.PROOF, values: dict[str, Any] | None = None
) -> None:
    fence, proof = sql.fence(claim)
    if not await _fetch(cursor, fence + statement, {**(values or {}), **proof}):
        raise ClaimLost(claim.thread_id)


async def _fetch(cursor: AsyncCursor[DictRow], query: str, values: dict[str, Any]) -> list[DictRow]:
    await cursor.execute(query.encode(), values)
    return await cursor.fetchall()


def _columns(names: tuple[str, ...], rows: list[Any]) -> dict[str, list[Any]]:
    return {name: [row[index] for row in rows] for index, name in enumerate(names)}


def split_values(checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the checkpoint as JSON, and the values that are stored apart from it, once per version.

    Only values that `jsonb` reads back as they were stay inside. LangGraph finds a full copy of a delta channel by the
    value `true` beside it.
    """
    inside: dict[str, Any] = {}
    blobs: dict[str, Any] = {}
    for name, value in checkpoint["channel_values"].items():
        if value is None or type(value) in (bool, int) or (type(value) is str and value.isprintable()):
            inside[name] = value
        else:
            blobs[name] = value
            if isinstance(value, _DeltaSnapshot):
                inside[name] = True
    return {**checkpoint, "channel_values": inside}, blobs
