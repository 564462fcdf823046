"""Keep checkpoints in SQLite so that a run can be taken back exactly (langgraph_api.md 5.8, 5.9)."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import aiosqlite
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

# One row per pending write that a checkpoint had before another run first wrote there, and one without a task
# that says that all of them are here.
CREATE_KEPT_WRITES = """
CREATE TABLE IF NOT EXISTS kept_writes (
    run_id TEXT NOT NULL, thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL, checkpoint_id TEXT NOT NULL,
    task_id TEXT, task_path TEXT, idx INTEGER, channel TEXT, type TEXT, value BLOB
)
"""
INDEX_KEPT_WRITES = "CREATE INDEX IF NOT EXISTS ix_kept_writes ON kept_writes (thread_id, run_id)"

# One statement, so that it happens whole; once per run and checkpoint.
KEEP_WRITES = """
INSERT INTO kept_writes
SELECT :run_id, :thread_id, :checkpoint_ns, :checkpoint_id, * FROM (
    SELECT NULL, NULL, NULL, NULL, NULL, NULL
    UNION ALL
    SELECT task_id, task_path, idx, channel, type, value FROM writes
    WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND checkpoint_id = :checkpoint_id
)
WHERE NOT EXISTS (
    SELECT 1 FROM kept_writes
    WHERE thread_id = :thread_id AND run_id = :run_id
    AND checkpoint_ns = :checkpoint_ns AND checkpoint_id = :checkpoint_id
)
"""

# A checkpoint's metadata is JSON in bytes.
DELETE_OWN_WRITES = """
DELETE FROM writes WHERE thread_id = :thread_id AND (checkpoint_ns, checkpoint_id) IN (
    SELECT checkpoint_ns, checkpoint_id FROM checkpoints
    WHERE thread_id = :thread_id AND json_extract(CAST(metadata AS TEXT), '$.run_id') = :run_id
)
"""
DELETE_OWN_CHECKPOINTS = """
DELETE FROM checkpoints
WHERE thread_id = :thread_id AND json_extract(CAST(metadata AS TEXT), '$.run_id') = :run_id
"""
DELETE_REPLACED_WRITES = """
DELETE FROM writes WHERE thread_id = :thread_id AND (checkpoint_ns, checkpoint_id) IN (
    SELECT checkpoint_ns, checkpoint_id FROM kept_writes WHERE thread_id = :thread_id AND run_id = :run_id
)
"""
RESTORE_KEPT_WRITES = """
INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)
SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value FROM kept_writes
WHERE thread_id = :thread_id AND run_id = :run_id AND task_id IS NOT NULL
AND (checkpoint_ns, checkpoint_id) IN (
    SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = :thread_id
)
"""
FORGET_KEPT_WRITES = "DELETE FROM kept_writes WHERE thread_id = :thread_id AND run_id = :run_id"
TAKE_BACK = (
    DELETE_OWN_WRITES,
    DELETE_OWN_CHECKPOINTS,
    DELETE_REPLACED_WRITES,
    RESTORE_KEPT_WRITES,
    FORGET_KEPT_WRITES,
)
# Runs that have loaded an earlier run's checkpoint and not written there yet; far more than run at a time.
REMEMBERED = 4096


class RunAwareSaver(AsyncSqliteSaver):
    """LangGraph's saver, which also keeps what a run replaces in an earlier run's checkpoint.

    A run that resumes an interrupted thread writes its answers and results onto the checkpoint where an earlier run
    stopped. Deleting only the later run's checkpoints would leave them there: the next run would take a rolled-back
    approval for given. So the writes that were there are kept aside first, once per run and checkpoint.
    """

    def __init__(self, connection: aiosqlite.Connection) -> None:
        super().__init__(connection)
        # Thread, namespace and run to the earlier run's checkpoint that the run has loaded, to go on from there.
        self._loaded: OrderedDict[tuple[str, str, str], str] = OrderedDict()

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Load a checkpoint, and note when a run loads an earlier run's."""
        found = await super().aget_tuple(config)
        run_id = _run_of(config)
        if found is not None and run_id is not None and found.metadata.get("run_id") != run_id:
            where = found.config["configurable"]
            self._loaded[where["thread_id"], where["checkpoint_ns"], run_id] = where["checkpoint_id"]
            if len(self._loaded) > REMEMBERED:
                self._loaded.popitem(last=False)
        return found

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save pending writes of a checkpoint; those of an earlier run are kept aside first."""
        where = config["configurable"]
        run_id = _run_of(config)
        if run_id is not None:
            key = (where["thread_id"], where["checkpoint_ns"], run_id)
            if self._loaded.get(key) == where["checkpoint_id"]:
                del self._loaded[key]
                await self._keep_writes(*key, where["checkpoint_id"])
        await super().aput_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete all that is kept of a thread."""
        await super().adelete_thread(thread_id)
        async with self.lock:
            await self.conn.execute("DELETE FROM kept_writes WHERE thread_id = ?", (thread_id,))
            await self.conn.commit()

    async def take_back(self, thread_id: str, run_id: str) -> None:
        """Delete a run's checkpoints, subgraphs' included, and restore what it replaced in earlier ones."""
        # A cancelled caller must not leave half of it in the connection's open transaction.
        await asyncio.shield(asyncio.ensure_future(self._take_back(thread_id, run_id)))

    async def _take_back(self, thread_id: str, run_id: str) -> None:
        async with self.lock:
            for statement in TAKE_BACK:
                await self.conn.execute(statement, {"thread_id": thread_id, "run_id": run_id})
            await self.conn.commit()

    async def _keep_writes(self, thread_id: str, checkpoint_ns: str, run_id: str, checkpoint_id: str) -> None:
        place = {"thread_id": thread_id, "checkpoint_ns": checkpoint_ns, "checkpoint_id": checkpoint_id}
        async with self.lock:
            await self.conn.execute(KEEP_WRITES, {**place, "run_id": run_id})
            await self.conn.commit()


async def open_saver(connection: aiosqlite.Connection) -> RunAwareSaver:
    """Make the saver and its tables."""
    saver = RunAwareSaver(connection)
    await saver.setup()
    await connection.execute(CREATE_KEPT_WRITES)
    await connection.execute(INDEX_KEPT_WRITES)
    await connection.commit()
    return saver


def _run_of(config: RunnableConfig) -> str | None:
    run_id = config["configurable"].get("run_id") or (config.get("metadata") or {}).get("run_id")
    return None if run_id is None else str(run_id)
