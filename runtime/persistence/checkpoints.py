"""Delete checkpoints of a run or a thread from the saver's database, subgraphs' included."""

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

# The saver keeps each checkpoint's metadata as JSON bytes; the run's id is in it, in subgraphs' too.
RUN_CHECKPOINTS = (
    "SELECT checkpoint_ns, checkpoint_id FROM checkpoints "
    "WHERE thread_id = :thread_id AND json_extract(CAST(metadata AS TEXT), '$.run_id') = :run_id"
)
DELETE_WRITES = (
    f"DELETE FROM writes WHERE thread_id = :thread_id AND (checkpoint_ns, checkpoint_id) IN ({RUN_CHECKPOINTS})"  # noqa: S608
)
DELETE_CHECKPOINTS = (
    f"DELETE FROM checkpoints WHERE thread_id = :thread_id AND (checkpoint_ns, checkpoint_id) IN ({RUN_CHECKPOINTS})"  # noqa: S608
)


async def delete_run_checkpoints(saver: AsyncSqliteSaver, thread_id: str, run_id: str) -> None:
    """Delete what a run has checkpointed on a thread, in one transaction: its thread's state is as before it."""
    await saver.setup()
    parameters = {"thread_id": thread_id, "run_id": run_id}
    async with saver.lock:
        await saver.conn.execute(DELETE_WRITES, parameters)
        await saver.conn.execute(DELETE_CHECKPOINTS, parameters)
        await saver.conn.commit()
