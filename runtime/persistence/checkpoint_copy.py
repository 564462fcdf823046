"""Copy all checkpoints of a thread to another one, subgraphs' included, as stored."""

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

CHECKPOINTS = (
    "INSERT INTO checkpoints"
    " (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)"
    " SELECT :target, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
    " FROM checkpoints WHERE thread_id = :source"
)
WRITES = (
    "INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)"
    " SELECT :target, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value"
    " FROM writes WHERE thread_id = :source"
)


async def copy_checkpoints(saver: AsyncSqliteSaver, source: str, target: str) -> None:
    """Copy a thread's checkpoints and pending writes in one transaction; the target must have none."""
    await saver.setup()
    async with saver.lock:
        for statement in (CHECKPOINTS, WRITES):
            await saver.conn.execute(statement, {"source": source, "target": target})
        await saver.conn.commit()
