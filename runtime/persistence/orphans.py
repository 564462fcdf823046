"""Clear checkpoints.db of threads that are gone: a crash can come between deleting a thread and its checkpoints."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from loguru import logger
from sqlalchemy import Connection, select

from toolweave.errors import PersistenceError
from toolweave.runtime.persistence.opening import Persistence
from toolweave.runtime.persistence.tables import threads

BATCH = 200


async def sweep_orphans(persistence: Persistence, *, batch: int = BATCH) -> int:
    """Delete the checkpoints of threads that have no row in app.db; gives the number of such threads.

    Checkpoints are looked up before their threads, and a thread's row is always there before its checkpoints are:
    one that has no row by then has lost it.
    """
    swept, after = 0, ""
    while found := await persistence.checkpointer.threads_after(after, batch):
        after = max(found)
        known = await persistence.app.read(partial(_existing, thread_ids=tuple(found)))
        orphans = {thread_id: last for thread_id, last in found.items() if thread_id not in known}
        if orphans:
            await persistence.checkpointer.delete_up_to(orphans)
            swept += len(orphans)
    return swept


@asynccontextmanager
async def sweeping_orphans(persistence: Persistence) -> AsyncIterator[None]:
    """Sweep once, beside whatever the block does."""
    sweeping = asyncio.create_task(_sweep_and_say(persistence), name="sweep-orphans")
    try:
        yield
    finally:
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)


async def _sweep_and_say(persistence: Persistence) -> None:
    try:
        swept = await sweep_orphans(persistence)
    except PersistenceError as error:
        logger.warning("checkpoints of deleted threads could not be cleared: {}", error)
        return
    if swept:
        logger.info("cleared the checkpoints of {} threads that a crash had left without their rows", swept)


def _existing(connection: Connection, thread_ids: tuple[str, ...]) -> set[str]:
    query = select(threads.c.thread_id).where(threads.c.thread_id.in_(thread_ids))
    return {row.thread_id for row in connection.execute(query)}
