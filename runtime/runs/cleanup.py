"""Prune threads on request and when their time to live is over (langgraph_api.md 2.2), and clear what a crash left."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from loguru import logger
from sqlalchemy import select

from toolweave.errors import Conflict, NotFound, PersistenceError
from toolweave.runtime.background import background_task, clear_regularly
from toolweave.runtime.codec import utc_now
from toolweave.runtime.models import TtlStrategy
from toolweave.runtime.persistence.data_folder import Persistence
from toolweave.runtime.persistence.schema import threads
from toolweave.runtime.runs.engine import EmbeddedEngine


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """How often expired threads are looked for, and how many at most are dealt with at a time."""

    every: timedelta = timedelta(minutes=5)
    limit: int = 1000


async def prune_threads(engine: EmbeddedEngine, thread_ids: Sequence[str], strategy: TtlStrategy) -> int:
    """Delete threads, or all their checkpoints but the newest of each namespace; gives how many there were.

    Unknown ids do not count. `delete` ends what runs on a thread, as deleting it alone does; `keep_latest` leaves a
    busy thread alone, and does not count it: its run may yet be rolled back to what would be pruned.
    """
    pruned = 0
    for thread_id in dict.fromkeys(thread_ids):
        if strategy == "keep_latest":
            pruned += await prune_to_latest(engine, thread_id)
        else:
            with suppress(NotFound):
                await engine.delete_thread(thread_id)
                pruned += 1
    return pruned


async def prune_to_latest(engine: EmbeddedEngine, thread_id: str) -> bool:
    """Delete an idle thread's history; says whether there is such a thread."""
    with suppress(NotFound, Conflict):
        async with engine.claim_thread(thread_id) as claim:
            await engine.runtime.persistence.delete_history(claim)
            return True
    return False


async def sweep_expired(engine: EmbeddedEngine, now: datetime, limit: int) -> int:
    """Delete or prune the threads whose time is over by `now` and that nothing uses; gives how many."""
    persistence = engine.runtime.persistence
    swept = 0
    for thread_id, strategy in await persistence.threads.list_expired(now, limit):
        # A thread that was used or deleted meanwhile is left alone.
        with suppress(NotFound, Conflict):
            async with engine.claim_thread(thread_id, expired_by=now, deleting=strategy == "delete") as claim:
                if strategy == "keep_latest":
                    await persistence.delete_history(claim)
                    await persistence.threads.clear_expiry(thread_id, now)
                else:
                    await engine.delete_claimed_thread(claim)
                swept += 1
    return swept


def run_expiry_sweep(
    engine: EmbeddedEngine, sweeps: SweepOptions, clock: Callable[[], datetime] = utc_now
) -> AbstractAsyncContextManager[None]:
    """Sweep at once and then in intervals, beside whatever the block does; a failure waits for the next time."""
    text = "{} threads had expired", "expired threads could not be cleared: {}"
    sweep = clear_regularly(lambda: sweep_expired(engine, clock(), sweeps.limit), sweeps.every.total_seconds(), *text)
    return background_task(sweep, "sweep-expired")


async def delete_orphans(persistence: Persistence) -> int:
    """Delete the checkpoints and kept tool results of threads that have no row in app.db; gives how many times.

    Call it before anything runs. A failure of the database waits for the next start.
    """
    checkpointer, store, query = persistence.checkpointer, persistence.store, select(threads.c.thread_id)
    try:
        known = await persistence.app.read(lambda connection: set(connection.execute(query).scalars()))
        checkpointed = await checkpointer.thread_ids() - known
        stored = await store.thread_ids() - known
        await asyncio.gather(*map(checkpointer.adelete_thread, checkpointed), *map(store.delete_thread_items, stored))
    except PersistenceError as error:
        logger.warning("what deleted threads had could not be cleared: {}", error)
        return 0
    cleared = len(checkpointed) + len(stored)
    if cleared:
        logger.info("cleared what a crash had left of {} deleted threads", cleared)
    return cleared
