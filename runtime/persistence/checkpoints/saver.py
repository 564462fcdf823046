"""What the checkpointers of both databases share: claims, and an exact rollback of runs (langgraph_api.md 5.8, 5.9)."""

import json
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from copy import copy
from typing import Any, NamedTuple, Self
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import ERROR

from toolweave.errors import ClaimLost
from toolweave.json_values import LARGE_BYTES, pause_gc
from toolweave.runtime.persistence.checkpoints import rows as sql
from toolweave.runtime.persistence.checkpoints.rows import ThreadStorage
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


class TaskWrites(NamedTuple):
    """Pending writes of a task: rows of index, channel, type and bytes."""

    task_id: str
    task_path: str
    rows: list[tuple[int, str, str, bytes]]
    # A task's results are stored once; its error, interrupt and resume values are replaced.
    replaceable: bool


class NewCheckpoint(NamedTuple):
    """A checkpoint to save, with its metadata as JSON text."""

    checkpoint: Checkpoint
    metadata: str
    versions: ChannelVersions


class CheckpointSerializer(JsonPlusSerializer):
    """LangGraph's serializer, with faster decoding of large checkpoints."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode a large value without garbage collection."""
        if len(data[1]) < LARGE_BYTES:
            return super().loads_typed(data)
        with pause_gc():
            return super().loads_typed(data)


class RunAwareSaver(BaseCheckpointSaver[str], ABC):
    """A saver that accepts writes to a thread under its claim only, and that can roll runs back.

    A run that resumes an interrupted thread adds its resume values and results to the checkpoint where an earlier run
    stopped. A rollback that only deleted the later run's checkpoints would leave them there, and the next run would see
    a rolled-back approval. So the previous writes are backed up first, once per run and checkpoint.
    """

    # SQL statements that copy a thread.
    copy_statements: tuple[str, ...] = sql.COPY_THREAD

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, serde=CheckpointSerializer())
        # Awaited with the run's id before each save.
        self.on_before_save: Callable[[str], Awaitable[None]] = _no_wait
        # (Thread, namespace, run) to the earlier run's checkpoint from which the run continues.
        self._loaded_checkpoints: OrderedDict[tuple[str, str, str], str] = OrderedDict()
        self._blocked_claims: set[ThreadClaim] = set()
        self._deferred: list[tuple[RunnableConfig, Sequence[tuple[str, Any]], str, str]] | None = None
        self._tasks: Collection[str] | None = None

    def accept_claim(self, claim: ThreadClaim) -> None:
        """Accept writes to a thread under this claim, which the database stores (R-01)."""
        self._blocked_claims.discard(claim)

    def block_writes(self, claim: ThreadClaim) -> None:
        """Reject checkpoints under this claim of a cancelled graph; the claim still holds its thread."""
        self._blocked_claims.add(claim)

    def remove_claim(self, claim: ThreadClaim) -> None:
        """Forget a claim that does not hold its thread any more."""
        self._blocked_claims.discard(claim)

    @abstractmethod
    async def require_claim(self, claim: ThreadClaim) -> None:
        """Raise ClaimLost unless this claim holds its thread."""

    @abstractmethod
    async def wait_for_writes(self) -> None:
        """Wait until all writes that have begun are stored; reads do not see them before."""

    def saver_for_update(self) -> Self:
        """Return a saver that stores the writes of one state update together with the update's checkpoint.

        LangGraph saves an update's writes before it applies them. If a reducer then raised, they would stay on the
        checkpoint, and the thread's state could not be read any more.
        """
        return self._copy(_deferred=[])

    def saver_of_tasks(self, tasks: Collection[str]) -> Self:
        """Return a saver that reads checkpoints with the pending writes of these tasks only."""
        return self._copy(_tasks=tasks)

    async def store_writes(self) -> None:
        """Save the deferred writes."""
        while self._deferred:
            await self._store_writes(*self._deferred.pop(0))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Load a thread's newest checkpoint, or the one in the config, with its pending writes."""
        key = key_of(config)
        found = await self._load(config, key)
        if found is None:
            return None
        self._record_load(config, key, found)
        if self._tasks is not None:
            return found._replace(pending_writes=[w for w in found.pending_writes or () if w[0] in self._tasks])
        return found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint, after the deferred writes."""
        await self.store_writes()
        key = key_of(config)
        stored_metadata = json.dumps(_stored_metadata(config, metadata), ensure_ascii=False)
        await self._save(config, key, NewCheckpoint(checkpoint, stored_metadata, new_versions))
        return config_for(key, checkpoint["id"])

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save or defer pending writes of a checkpoint; back up those of an earlier run first."""
        if self._deferred is not None:
            self._deferred.append((config, writes, task_id, task_path))
        else:
            await self._store_writes(config, writes, task_id, task_path)

    async def fail_task(self, claim: ThreadClaim, config: RunnableConfig, task_id: str, error: BaseException) -> None:
        """Replace the writes of a checkpoint's task by an error; delete those of a Command. Raises ClaimLost."""
        kind, encoded = self.serde.dumps_typed(error)
        failure = {"idx": WRITES_IDX_MAP[ERROR], "channel": ERROR, "type": kind, "encoded": encoded}
        statements = sql.FAIL_TASK if task_id != NULL_TASK_ID else sql.FAIL_TASK[1:]
        await self._execute(claim, *statements, **key_of(config)._asdict(), task_id=task_id, **failure)

    async def delete_checkpoint(self, claim: ThreadClaim, config: RunnableConfig) -> None:
        """Delete one checkpoint with its pending writes. Raises ClaimLost."""
        await self._execute(claim, *sql.DELETE_CHECKPOINT, **key_of(config)._asdict())

    async def adelete_thread(self, thread_id: str, claim: ThreadClaim | None = None) -> None:
        """Delete all rows of a thread. Raises ClaimLost."""
        await self._execute(claim, *sql.DELETE_THREAD, thread_id=str(thread_id))

    async def acopy_thread(
        self, source_thread_id: str, target_thread_id: str, claim: ThreadClaim | None = None
    ) -> None:
        """Copy all checkpoints and pending writes of a thread to another one that has none. Raises ClaimLost."""
        names = {"source": source_thread_id, "target": target_thread_id}
        await self._execute(claim, *self.copy_statements, **names, thread_id=target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all checkpoints of threads (`delete`), or all but the newest of each namespace (`keep_latest`)."""
        for thread_id in thread_ids:
            if strategy == "delete":
                await self.adelete_thread(thread_id)
            else:
                await self.prune_older(thread_id)

    @abstractmethod
    async def prune_older(self, thread_id: str, claim: ThreadClaim | None = None) -> None:
        """Delete checkpoints older than the newest of each namespace that are not needed to read that one.

        Raises:
            ClaimLost: another claim holds the thread.
        """

    @abstractmethod
    async def measure_storage(self, thread_id: str) -> ThreadStorage:
        """Return the storage of a thread."""

    @abstractmethod
    async def thread_ids(self) -> set[str]:
        """Return the ids of threads that have checkpoints or writes."""

    async def roll_back_run(self, claim: ThreadClaim, run_id: str) -> None:
        """Delete a run's checkpoints, including subgraphs', and restore the writes before it. Raises ClaimLost."""
        await self._execute(claim, *sql.ROLL_BACK_RUN, thread_id=claim.thread_id, run_id=run_id)

    async def has_interrupted_again(self, thread_id: str, run_id: str) -> bool:
        """Return whether a task used the resume value of this run for an earlier interrupt and interrupted again."""
        return await self._has_row(sql.INTERRUPTED_AGAIN, thread_id, run_id)

    async def wrote_only_command(self, thread_id: str, run_id: str) -> bool:
        """Return whether a run only stored its Command's writes, on an earlier run's checkpoint."""
        return await self._has_row(sql.WROTE_ONLY_COMMAND, thread_id, run_id)

    def _copy(self, **attributes: object) -> Self:
        saver = copy(self)
        vars(saver).update(attributes)
        return saver

    async def _has_row(self, query: str, thread_id: str, run_id: str) -> bool:
        values = {"thread_id": thread_id, "run_id": run_id, "for_all_tasks": NULL_TASK_ID}
        return await self._fetch_row(query, values) is not None

    @abstractmethod
    async def _load(self, config: RunnableConfig, key: CheckpointKey) -> CheckpointTuple | None:
        """Load a checkpoint with its pending writes."""

    @abstractmethod
    async def _save(self, config: RunnableConfig, key: CheckpointKey, new: NewCheckpoint) -> None:
        """Save a checkpoint whose parent has this key. Raises ClaimLost."""

    @abstractmethod
    async def _save_writes(self, config: RunnableConfig, key: CheckpointKey, writes: TaskWrites) -> None:
        """Save pending writes; back up those of an earlier run first. Raises ClaimLost."""

    @abstractmethod
    async def _fetch_row(self, query: str, values: dict[str, Any]) -> Any | None:
        """Return the first row of a query."""

    @abstractmethod
    async def _execute(self, claim: ThreadClaim | None, *statements: str, **values: object) -> None:
        """Execute statements in one transaction, under a claim on the thread. Raises ClaimLost."""

    async def _store_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> None:
        replaceable = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        rows = [
            (WRITES_IDX_MAP.get(channel, index), channel, *self.serde.dumps_typed(value))
            for index, (channel, value) in enumerate(writes)
        ]
        await self._notify_before_save(config)
        await self._save_writes(config, key_of(config), TaskWrites(task_id, task_path, rows, replaceable))

    async def _notify_before_save(self, config: RunnableConfig) -> None:
        run_id = _run_id_of(config)
        if run_id is not None:
            await self.on_before_save(run_id)

    def _claim_of_write(self, config: RunnableConfig, key: CheckpointKey) -> ThreadClaim | None:
        """Return a write's claim on its own thread; a node may invoke a graph on another thread."""
        claim: ThreadClaim | None = config["configurable"].get(CLAIM_KEY)
        if claim is None or claim.thread_id != key.thread_id:
            return None
        if claim in self._blocked_claims:
            raise ClaimLost(key.thread_id)
        return claim

    def _record_load(self, config: RunnableConfig, key: CheckpointKey, found: CheckpointTuple) -> None:
        run_id = _run_id_of(config)
        if run_id is not None and found.metadata.get("run_id") != run_id:
            self._loaded_checkpoints[key.thread_id, key.checkpoint_ns, run_id] = found.checkpoint["id"]
            if len(self._loaded_checkpoints) > MAX_LOADED_CHECKPOINTS:
                self._loaded_checkpoints.popitem(last=False)

    def _run_to_back_up_for(self, config: RunnableConfig, key: CheckpointKey) -> str | None:
        """Return the run's id if it has not written to this checkpoint of an earlier run yet, else None."""
        run_id = _run_id_of(config)
        if run_id is None:
            return None
        loaded = self._loaded_checkpoints.get((key.thread_id, key.checkpoint_ns, run_id))
        return run_id if loaded is not None and loaded == key.checkpoint_id else None


def is_foreign(config: RunnableConfig, key: CheckpointKey) -> bool:
    """Return whether a node writes to another thread than that of its run."""
    claim: ThreadClaim | None = config["configurable"].get(CLAIM_KEY)
    return claim is not None and claim.thread_id != key.thread_id


async def _no_wait(_run_id: str) -> None:
    """Return at once."""


def key_of(config: RunnableConfig) -> CheckpointKey:
    """Return the key of the checkpoint that a config names."""
    ids = config["configurable"]
    return CheckpointKey(str(ids["thread_id"]), ids.get("checkpoint_ns", ""), get_checkpoint_id(config))


def config_for(key: CheckpointKey, checkpoint_id: str) -> RunnableConfig:
    """Return the config of a checkpoint in the thread and namespace of a key."""
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
