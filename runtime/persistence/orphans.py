"""Clear checkpoints.db and store.db of threads that are gone: a crash can come between deleting a thread and these."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol, TypeVar

from loguru import logger
from sqlalchemy import Connection, select

from toolweave.errors import PersistenceError
from toolweave.runtime.persistence.opening import Persistence
from toolweave.runtime.persistence.tables import threads

BATCH = 200
Last = TypeVar("Last")


async def sweep_orphans(persistence: Persistence, *, batch: int = BATCH) -> int:
    """Delete the checkpoints and kept tool results of threads that have no row in app.db; gives how many times.

    They are looked up before their threads, and a thread's row is always there before what it has: one that has no
    row by then has lost it.
    """
    return await _sweep(persistence, persistence.checkpointer, batch) + await _sweep(
        persistence, persistence.store, batch
    )


class KeepsForThreads(Protocol[Last]):
    """A place that keeps something for threads."""

    async def threads_after(self, after: str, most: int) -> dict[str, Last]:
        """Name the next threads for which it keeps something, each with how far that goes."""
        ...

    async def delete_up_to(self, last: Mapping[str, Last], /) -> None:
        """Delete what it keeps for threads up to there."""
        ...


async def _sweep(persistence: Persistence, place: KeepsForThreads[Last], batch: int) -> int:
    swept, after = 0, ""
    while found := await place.threads_after(after, batch):
        *_, after = found
        known = await persistence.app.read(partial(_existing, thread_ids=tuple(found)))
        orphans = {thread_id: last for thread_id, last in found.items() if thread_id not in known}
        if orphans:
            await place.delete_up_to(orphans)
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
        logger.warning("what deleted threads had could not be cleared: {}", error)
        return
    if swept:
        logger.info("cleared what a crash had left of {} deleted threads", swept)


def _existing(connection: Connection, thread_ids: tuple[str, ...]) -> set[str]:
    query = select(threads.c.thread_id).where(threads.c.thread_id.in_(thread_ids))
    return {row.thread_id for row in connection.execute(query)}
