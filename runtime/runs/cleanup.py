"""Prune threads on request and after their time to live (langgraph_api.md 2.2), and delete what a crash left behind."""

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
from toolweave.runtime.runs.engine import RunEngine


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """How often expired threads are searched, and how many are handled per sweep."""

    every: timedelta = timedelta(minutes=5)
    limit: int = 1000


async def prune_threads(engine: RunEngine, thread_ids: Sequence[str], strategy: TtlStrategy) -> int:
    """Delete threads, or all their checkpoints but the newest of each namespace; return how many threads.

    Unknown ids do not count. `delete` cancels the runs of a thread first. `keep_latest` skips a busy thread and does
    not count it, because its run may still be rolled back to a checkpoint that would be pruned.
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


async def prune_to_latest(engine: RunEngine, thread_id: str) -> bool:
    """Delete an idle thread's history; return False if there is no such idle thread."""
    with suppress(NotFound, Conflict):
        async with engine.claim_thread(thread_id) as claim:
            await engine.runtime.persistence.delete_history(claim)
            return True
    return False


async def sweep_expired(engine: RunEngine, now: datetime, limit: int) -> int:
    """Delete or prune the unused threads that have expired by `now`; return how many."""
    persistence = engine.runtime.persistence
    swept = 0
    for thread_id, strategy in await persistence.threads.list_expired(now, limit):
        # Skip a thread that was used or deleted meanwhile.
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
    engine: RunEngine, sweeps: SweepOptions, clock: Callable[[], datetime] = utc_now
) -> AbstractAsyncContextManager[None]:
    """Sweep expired threads at intervals inside the block; after a failure the next sweep retries."""
    text = "{} threads had expired", "expired threads could not be cleared: {}"
    sweep = clear_regularly(lambda: sweep_expired(engine, clock(), sweeps.limit), sweeps.every.total_seconds(), *text)
    return background_task(sweep, "sweep-expired")


async def delete_orphans(persistence: Persistence) -> int:
    """Delete checkpoints and tool results whose thread has no row in app.db; return the number of these threads.

    Call it before any run executes. After a database failure the next start retries.
    """
    checkpointer, store, query = persistence.checkpointer, persistence.store, select(threads.c.thread_id)
    try:
        checkpointed, stored = await checkpointer.thread_ids(), await store.thread_ids()
        # Read last: another process may create threads and their checkpoints meanwhile.
        existing = await persistence.app.read(lambda connection: set(connection.execute(query).scalars()))
        checkpointed, stored = checkpointed - existing, stored - existing
        await asyncio.gather(*map(checkpointer.adelete_thread, checkpointed), *map(store.delete_thread_items, stored))
    except PersistenceError as error:
        logger.warning("the data of deleted threads could not be deleted: {}", error)
        return 0
    cleared = len(checkpointed | stored)
    if cleared:
        logger.info("deleted the data that a crash had left of {} deleted threads", cleared)
    return cleared
