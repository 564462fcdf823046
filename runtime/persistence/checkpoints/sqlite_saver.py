"""Store checkpoints in SQLite, fast."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import aiosqlite
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, writes_sort_key
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from sqlalchemy import Connection

from toolweave.errors import ClaimLost
from toolweave.runtime.persistence.checkpoints import rows as sql
from toolweave.runtime.persistence.checkpoints.rows import ThreadStorage, measure_thread, prune_checkpoints, thread_ids
from toolweave.runtime.persistence.checkpoints.saver import (
    CheckpointKey,
    NewCheckpoint,
    RunAwareSaver,
    TaskWrites,
    config_for,
    is_foreign,
)
from toolweave.runtime.persistence.database import SqliteDatabase, driver_of
from toolweave.runtime.persistence.threads import ThreadClaim


class SqliteRunSaver(RunAwareSaver, AsyncSqliteSaver):
    """LangGraph's saver with its frequent operations on our database threads.

    Loading, saving and writing each switch to a database thread once, not three to five times, and concurrent saves
    share a commit (measured: a third less CPU per step). `connection` serves the other, rare reads and never writes.
    """

    def __init__(self, connection: aiosqlite.Connection, database: SqliteDatabase) -> None:
        super().__init__(connection)
        self._database = database
        # By thread. In memory, because only one process uses the file, and its writer executes the writes in order.
        self._claims: dict[str, ThreadClaim] = {}

    def accept_claim(self, claim: ThreadClaim) -> None:
        """Accept writes to a thread only under this claim from now on (R-01)."""
        super().accept_claim(claim)
        self._claims[claim.thread_id] = claim

    def remove_claim(self, claim: ThreadClaim) -> None:
        """Stop accepting writes under this claim."""
        super().remove_claim(claim)
        if self._claims.get(claim.thread_id) == claim:
            del self._claims[claim.thread_id]

    async def require_claim(self, claim: ThreadClaim) -> None:
        """Raise ClaimLost unless this claim holds its thread."""
        if self._claims.get(claim.thread_id) != claim:
            raise ClaimLost(claim.thread_id)

    async def wait_for_writes(self) -> None:
        """Wait until all queued writes are stored; reads do not see them before."""
        await self._database.write(lambda _connection: None)

    async def prune_older(self, thread_id: str, claim: ThreadClaim | None = None) -> None:
        """Delete checkpoints older than the newest of each namespace that are not needed to read that one.

        Raises:
            ClaimLost: another claim holds the thread.
        """
        if claim is not None:
            await self.require_claim(claim)
        await self._database.write(partial(prune_checkpoints, thread_id=thread_id))

    async def measure_storage(self, thread_id: str) -> ThreadStorage:
        """Return the storage of a thread."""
        return await measure_thread(self._database, self.serde, thread_id)

    async def thread_ids(self) -> set[str]:
        """Return the ids of threads that have checkpoints or writes."""
        return await self._database.read(thread_ids)

    async def _load(self, config: RunnableConfig, key: CheckpointKey) -> CheckpointTuple | None:
        loaded = await self._database.read(partial(_load, key=key))
        if loaded is None:
            return None
        (checkpoint_id, parent_id, kind, checkpoint, metadata), writes = loaded
        writes.sort(key=lambda row: writes_sort_key(*row[:3]))
        return CheckpointTuple(
            config=config if key.checkpoint_id else config_for(key, checkpoint_id),
            checkpoint=self.serde.loads_typed((kind, checkpoint)),
            metadata=json.loads(metadata) if metadata is not None else {},
            parent_config=config_for(key, parent_id) if parent_id else None,
            pending_writes=[
                (task_id, channel, self.serde.loads_typed((kind, value)))
                for _, task_id, _, channel, kind, value in writes
            ],
        )

    async def _save(self, config: RunnableConfig, key: CheckpointKey, new: NewCheckpoint) -> None:
        row = (
            key.thread_id,
            key.checkpoint_ns,
            new.checkpoint["id"],
            key.checkpoint_id,
            *self.serde.dumps_typed(new.checkpoint),
            new.metadata.encode("utf-8", "ignore"),
        )
        await self._notify_before_save(config)
        self._check_claim(config, key)
        await self._database.write(partial(_put_checkpoint, row=row, require_newest=is_foreign(config, key)))

    async def _save_writes(self, config: RunnableConfig, key: CheckpointKey, writes: TaskWrites) -> None:
        rows = [(*key, writes.task_id, writes.task_path, *row) for row in writes.rows]
        statement = sql.REPLACE_WRITE if writes.replaceable else sql.ADD_WRITE
        self._check_claim(config, key)
        backup_run_id = self._run_to_back_up_for(config, key)
        if backup_run_id is not None:
            del self._loaded_checkpoints[key.thread_id, key.checkpoint_ns, backup_run_id]
        work = partial(_put_writes, key=key, statement=statement, rows=rows, backup_run_id=backup_run_id)
        await self._database.write(work)

    def _check_claim(self, config: RunnableConfig, key: CheckpointKey) -> None:
        # Checked right before the write is queued, because writes are executed in the order of the queue.
        if self._claims.get(key.thread_id) != self._claim_of_write(config, key):
            raise ClaimLost(key.thread_id)

    async def _fetch_row(self, query: str, values: dict[str, Any]) -> Any | None:
        return await self._database.read(lambda connection: driver_of(connection).execute(query, values).fetchone())

    async def _execute(self, claim: ThreadClaim | None, *statements: str, **values: object) -> None:
        if claim is not None:
            await self.require_claim(claim)
        await self._database.write(partial(_execute_all, statements=statements, values=values))


def create_kept_writes_table(connection: Connection) -> None:
    """Create the table of backed-up writes."""
    _execute_all(connection, (sql.CREATE_KEPT_WRITES, sql.INDEX_KEPT_WRITES), {})


def _load(connection: Connection, key: CheckpointKey) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]] | None:
    driver = driver_of(connection)
    query = sql.ONE_CHECKPOINT if key.checkpoint_id else sql.NEWEST_CHECKPOINT
    found = driver.execute(query, key._asdict()).fetchone()
    if found is None:
        return None
    return found, driver.execute(sql.PENDING_WRITES, {**key._asdict(), "checkpoint_id": found[0]}).fetchall()


def _put_checkpoint(connection: Connection, row: tuple[Any, ...], *, require_newest: bool) -> None:
    if require_newest:
        thread_id, namespace, _, parent, *_ = row
        key = {"thread_id": thread_id, "checkpoint_ns": namespace}
        newest = driver_of(connection).execute(sql.NEWEST_CHECKPOINT, key).fetchone()
        if newest is not None and newest[0] != parent:
            # Another run of the thread has written meanwhile.
            raise ClaimLost(thread_id)
    driver_of(connection).execute(sql.PUT_CHECKPOINT, row)


def _put_writes(
    connection: Connection, key: CheckpointKey, statement: str, rows: list[tuple[Any, ...]], backup_run_id: str | None
) -> None:
    driver = driver_of(connection)
    if backup_run_id is not None:
        driver.execute(sql.BACK_UP_WRITES, {**key._asdict(), "run_id": backup_run_id})
    driver.executemany(statement, rows)


def _execute_all(connection: Connection, statements: Sequence[str], values: Mapping[str, object]) -> None:
    for statement in statements:
        driver_of(connection).execute(statement, values)
