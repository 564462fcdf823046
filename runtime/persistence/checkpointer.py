"""Store checkpoints in SQLite, fast and with an exact rollback of runs (langgraph_api.md 5.8, 5.9)."""

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import aiosqlite
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import ERROR
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from sqlalchemy import Connection

from toolweave.errors import ClaimLost
from toolweave.json_values import LARGE_BYTES, pause_gc
from toolweave.runtime.persistence import checkpoint_rows as sql
from toolweave.runtime.persistence.checkpoint_rows import ThreadStorage, measure_thread, prune_checkpoints, thread_ids
from toolweave.runtime.persistence.database import SqliteDatabase, driver_of
from toolweave.runtime.persistence.threads import ThreadClaim

# LangGraph stores a resume value under this task until the interrupted task has used it.
NULL_TASK_ID = str(UUID(int=0))
# LangGraph drops `checkpoint_id` from a checkpoint's metadata, so it is stored under FORKED_FROM. A run's config has it
# under FORKED_FROM_KEY, because LangGraph hides keys with this prefix from streams and tracers.
FORKED_FROM = "forked_from"
FORKED_FROM_KEY = "__pregel_forked_from"
# The claim under which a graph writes, in `configurable`.
CLAIM_KEY = "__pregel_thread_claim"
# The names of the request headers in a run's config: they may hold tokens, and LangGraph would copy them into the
# metadata of each checkpoint.
HEADERS_KEY = "__pregel_request_headers"
# These metadata, which identify the parent graph's task of a subgraph's checkpoint, are dropped by LangGraph as well.
SUBGRAPH_TASK_FIELDS = (
    "langgraph_node",
    "langgraph_step",
    "langgraph_path",
    "langgraph_triggers",
    "langgraph_checkpoint_ns",
)
# Runs that have loaded an earlier run's checkpoint but not written to it yet; far more than execute at a time.
MAX_LOADED_CHECKPOINTS = 4096


class CheckpointKey(NamedTuple):
    """The key of a checkpoint; without `checkpoint_id` it means the newest one."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str | None


class CheckpointSerializer(JsonPlusSerializer):
    """LangGraph's serializer, with faster decoding of large checkpoints."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode a large value without garbage collection."""
        if len(data[1]) < LARGE_BYTES:
            return super().loads_typed(data)
        with pause_gc():
            return super().loads_typed(data)


class RunAwareSaver(AsyncSqliteSaver):
    """LangGraph's saver with its frequent operations on our database threads, and with rollback of runs.

    Loading, saving and writing each switch to a database thread once, not three to five times, and concurrent saves
    share a commit (measured: a third less CPU per step). `connection` serves the other, rare reads and never writes.

    A run that resumes an interrupted thread adds its resume values and results to the checkpoint where an earlier run
    stopped. A rollback that only deleted the later run's checkpoints would leave them there, and the next run would see
    a rolled-back approval. So the previous writes are backed up first, once per run and checkpoint.
    """

    def __init__(self, connection: aiosqlite.Connection, database: SqliteDatabase) -> None:
        super().__init__(connection, serde=CheckpointSerializer())
        self._database = database
        # Awaited with the run's id before each save.
        self.on_before_save: Callable[[str], Awaitable[None]] = _no_wait
        # (Thread, namespace, run) to the earlier run's checkpoint from which the run continues.
        self._loaded_checkpoints: OrderedDict[tuple[str, str, str], str] = OrderedDict()
        # By thread. In memory, because only one process uses the file, and its writer executes the writes in order.
        self._claims: dict[str, ThreadClaim] = {}
        self._blocked_claims: set[ThreadClaim] = set()

    def accept_claim(self, claim: ThreadClaim) -> None:
        """Accept writes to a thread only under this claim from now on (R-01)."""
        self._claims[claim.thread_id] = claim

    def block_writes(self, claim: ThreadClaim) -> None:
        """Reject checkpoints under this claim of a cancelled graph; the claim still holds its thread."""
        self._blocked_claims.add(claim)

    async def wait_for_writes(self) -> None:
        """Wait until all queued writes are stored; reads do not see them before."""
        await self._database.write(lambda _connection: None)

    def remove_claim(self, claim: ThreadClaim) -> None:
        """Stop accepting writes under this claim."""
        self._blocked_claims.discard(claim)
        if self._claims.get(claim.thread_id) == claim:
            del self._claims[claim.thread_id]

    def require_claim(self, claim: ThreadClaim) -> None:
        """Raise ClaimLost unless this claim holds its thread."""
        if self._claims.get(claim.thread_id) != claim:
            raise ClaimLost(claim.thread_id)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Load a thread's newest checkpoint, or the one in the config, with its pending writes."""
        key = _key_of(config)
        loaded = await self._database.read(partial(_load, key=key))
        if loaded is None:
            return None
        (checkpoint_id, parent_id, kind, checkpoint, metadata), writes = loaded
        writes.sort(key=lambda row: writes_sort_key(*row[:3]))
        found = CheckpointTuple(
            config=config if key.checkpoint_id else _config_for(key, checkpoint_id),
            checkpoint=self.serde.loads_typed((kind, checkpoint)),
            metadata=json.loads(metadata) if metadata is not None else {},
            parent_config=_config_for(key, parent_id) if parent_id else None,
            pending_writes=[
                (task_id, channel, self.serde.loads_typed((kind, value)))
                for _, task_id, _, channel, kind, value in writes
            ],
        )
        self._record_load(config, key, checkpoint_id, found.metadata)
        return found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002 - the whole checkpoint is stored
    ) -> RunnableConfig:
        """Save a checkpoint."""
        key = _key_of(config)
        stored_metadata = json.dumps(_stored_metadata(config, metadata), ensure_ascii=False)
        row = (
            key.thread_id,
            key.checkpoint_ns,
            checkpoint["id"],
            key.checkpoint_id,
            *self.serde.dumps_typed(checkpoint),
            stored_metadata.encode("utf-8", "ignore"),
        )
        await self._notify_before_save(config)
        self._check_write_claim(config, key)
        other_thread = config["configurable"].get(CLAIM_KEY) is not None and not self._is_own(config, key)
        await self._database.write(partial(_put_checkpoint, row=row, require_newest=other_thread))
        return _config_for(key, checkpoint["id"])

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save pending writes of a checkpoint; back up those of an earlier run first."""
        key = _key_of(config)
        replaceable = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        rows = [
            (*key, task_id, task_path, WRITES_IDX_MAP.get(channel, index), channel, *self.serde.dumps_typed(value))
            for index, (channel, value) in enumerate(writes)
        ]
        statement = sql.REPLACE_WRITE if replaceable else sql.ADD_WRITE
        await self._notify_before_save(config)
        self._check_write_claim(config, key)
        backup_run_id = self._run_of_first_write(config, key)
        work = partial(_put_writes, key=key, statement=statement, rows=rows, backup_run_id=backup_run_id)
        await self._database.write(work)

    def saver_for_update(self) -> "DeferredWritesSaver":
        """Return a saver for one state update."""
        return DeferredWritesSaver(self)

    async def fail_task(self, claim: ThreadClaim, config: RunnableConfig, task_id: str, error: BaseException) -> None:
        """Replace the writes of a checkpoint's task by an error; delete those of a Command. Raises ClaimLost."""
        self.require_claim(claim)
        kind, value = self.serde.dumps_typed(error)
        failure = {"idx": WRITES_IDX_MAP[ERROR], "channel": ERROR, "type": kind, "value": value}
        statements = sql.FAIL_TASK if task_id != NULL_TASK_ID else sql.FAIL_TASK[1:]
        await self._execute(*statements, **_key_of(config)._asdict(), task_id=task_id, **failure)

    async def delete_checkpoint(self, claim: ThreadClaim, config: RunnableConfig) -> None:
        """Delete one checkpoint with its pending writes. Raises ClaimLost."""
        self.require_claim(claim)
        await self._execute(*sql.DELETE_CHECKPOINT, **_key_of(config)._asdict())

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete all rows of a thread."""
        await self._execute(*sql.DELETE_THREAD, thread_id=str(thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and pending writes of a thread to another one that has none."""
        await self._execute(*sql.COPY_THREAD, source=source_thread_id, target=target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all checkpoints of threads (`delete`), or all but the newest of each namespace (`keep_latest`)."""
        for thread_id in thread_ids:
            if strategy == "delete":
                await self.adelete_thread(thread_id)
            else:
                await self.prune_older(thread_id)

    async def prune_older(self, thread_id: str) -> None:
        """Delete checkpoints older than the newest of each namespace that are not needed to read that one."""
        await self._database.write(partial(prune_checkpoints, thread_id=thread_id))

    async def measure_storage(self, thread_id: str) -> ThreadStorage:
        """Return the storage of a thread."""
        return await measure_thread(self._database, self.serde, thread_id)

    async def thread_ids(self) -> set[str]:
        """Return the ids of threads that have checkpoints or writes."""
        return await self._database.read(thread_ids)

    async def roll_back_run(self, claim: ThreadClaim, run_id: str) -> None:
        """Delete a run's checkpoints, including subgraphs', and restore the writes before it. Raises ClaimLost."""
        self.require_claim(claim)
        await self._execute(*sql.ROLL_BACK_RUN, thread_id=claim.thread_id, run_id=run_id)

    async def has_interrupted_again(self, thread_id: str, run_id: str) -> bool:
        """Return whether a task used the resume value of this run for an earlier interrupt and interrupted again."""
        return await self._has_row(sql.INTERRUPTED_AGAIN, thread_id, run_id)

    async def wrote_only_command(self, thread_id: str, run_id: str) -> bool:
        """Return whether a run only stored its Command's writes, on an earlier run's checkpoint."""
        return await self._has_row(sql.WROTE_ONLY_COMMAND, thread_id, run_id)

    async def _has_row(self, query: str, thread_id: str, run_id: str) -> bool:
        values = {"thread_id": thread_id, "run_id": run_id, "for_all_tasks": NULL_TASK_ID}
        row = await self._database.read(lambda connection: driver_of(connection).execute(query, values).fetchone())
        return row is not None

    async def _execute(self, *statements: str, **values: object) -> None:
        await self._database.write(partial(_execute_all, statements=statements, values=values))

    async def _notify_before_save(self, config: RunnableConfig) -> None:
        run_id = _run_id_of(config)
        if run_id is not None:
            await self.on_before_save(run_id)

    def _check_write_claim(self, config: RunnableConfig, key: CheckpointKey) -> None:
        # Checked right before the write is queued, because writes are executed in the order of the queue.
        claim: ThreadClaim | None = config["configurable"].get(CLAIM_KEY) if self._is_own(config, key) else None
        if self._claims.get(key.thread_id) != claim or claim in self._blocked_claims:
            raise ClaimLost(key.thread_id)

    def _is_own(self, config: RunnableConfig, key: CheckpointKey) -> bool:
        """Return whether a write has a claim on its own thread; a node may invoke a graph on another thread."""
        claim: ThreadClaim | None = config["configurable"].get(CLAIM_KEY)
        return claim is not None and claim.thread_id == key.thread_id

    def _record_load(
        self, config: RunnableConfig, key: CheckpointKey, checkpoint_id: str, metadata: CheckpointMetadata
    ) -> None:
        run_id = _run_id_of(config)
        if run_id is not None and metadata.get("run_id") != run_id:
            self._loaded_checkpoints[key.thread_id, key.checkpoint_ns, run_id] = checkpoint_id
            if len(self._loaded_checkpoints) > MAX_LOADED_CHECKPOINTS:
                self._loaded_checkpoints.popitem(last=False)

    def _run_of_first_write(self, config: RunnableConfig, key: CheckpointKey) -> str | None:
        """Return the run's id if this is its first write to an earlier run's checkpoint, else None."""
        run_id = _run_id_of(config)
        if run_id is None:
            return None
        loaded_key = (key.thread_id, key.checkpoint_ns, run_id)
        if self._loaded_checkpoints.get(loaded_key) != key.checkpoint_id:
            return None
        del self._loaded_checkpoints[loaded_key]
        return run_id


class DeferredWritesSaver(RunAwareSaver):
    """A RunAwareSaver that stores the writes of a state update together with the update's checkpoint.

    LangGraph saves an update's writes before it applies them. If a reducer then raised, they would stay on the
    checkpoint, and the thread's state could not be read any more.
    """

    def __init__(self, saver: RunAwareSaver) -> None:
        self.__dict__.update(vars(saver))
        self._deferred: list[tuple[RunnableConfig, Sequence[tuple[str, Any]], str, str]] = []

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save the deferred writes and the checkpoint."""
        await self.store_writes()
        return await super().aput(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Defer the writes."""
        self._deferred.append((config, writes, task_id, task_path))

    async def store_writes(self) -> None:
        """Save the deferred writes."""
        while self._deferred:
            await super().aput_writes(*self._deferred.pop(0))


class TaskSubsetSaver(RunAwareSaver):
    """A RunAwareSaver that reads checkpoints with the pending writes of some tasks only."""

    def __init__(self, saver: RunAwareSaver, tasks: Collection[str]) -> None:
        self.__dict__.update(vars(saver))
        self._tasks = tasks

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Load a checkpoint with the pending writes of the tasks."""
        found = await super().aget_tuple(config)
        writes = [write for write in (found and found.pending_writes) or [] if write[0] in self._tasks]
        return found and found._replace(pending_writes=writes)


async def _no_wait(_run_id: str) -> None:
    """Return at once."""


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


def _key_of(config: RunnableConfig) -> CheckpointKey:
    ids = config["configurable"]
    return CheckpointKey(str(ids["thread_id"]), ids.get("checkpoint_ns", ""), get_checkpoint_id(config))


def _config_for(key: CheckpointKey, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": key._replace(checkpoint_id=checkpoint_id)._asdict()}


def _stored_metadata(config: RunnableConfig, metadata: CheckpointMetadata) -> dict[str, Any]:
    public_config = remove_headers(config, config["configurable"].get(HEADERS_KEY))
    stored: dict[str, Any] = {**get_checkpoint_metadata(public_config, metadata)}
    if origin := config["configurable"].get(FORKED_FROM_KEY):
        stored[FORKED_FROM] = origin
    if config["configurable"].get("checkpoint_ns"):
        task_metadata = config.get("metadata") or {}
        stored |= {name: task_metadata[name] for name in SUBGRAPH_TASK_FIELDS if name in task_metadata}
    return stored


def remove_headers(config: RunnableConfig, headers: Collection[str] | None) -> RunnableConfig:
    """Return a run's config without these request headers, which only its nodes may read."""
    if not headers:
        return config
    shown = {name: value for name, value in config["configurable"].items() if name not in headers}
    return {**config, "configurable": shown}


def _run_id_of(config: RunnableConfig) -> str | None:
    run_id = config["configurable"].get("run_id") or (config.get("metadata") or {}).get("run_id")
    return None if run_id is None else str(run_id)
