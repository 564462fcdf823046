"""Prune threads: when somebody asks for it, and when their time to live is over (langgraph_api.md 2.2)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from loguru import logger

from toolweave.errors import Conflict, NotFound, PersistenceError
from toolweave.runtime.models import TtlStrategy
from toolweave.runtime.persistence.clock import utc_now
from toolweave.runtime.runs.engine import EmbeddedEngine


@dataclass(frozen=True, slots=True)
class Sweeps:
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
            pruned += await keep_latest(engine, thread_id)
        else:
            with suppress(NotFound):
                await engine.delete_thread(thread_id)
                pruned += 1
    return pruned


async def keep_latest(engine: EmbeddedEngine, thread_id: str) -> bool:
    """Delete an idle thread's history; says whether there is such a thread."""
    with suppress(NotFound, Conflict):
        async with engine.claimed(thread_id) as claim:
            await engine.runtime.persistence.delete_history(claim)
            return True
    return False


async def sweep_expired(engine: EmbeddedEngine, now: datetime, limit: int) -> int:
    """Delete or prune the threads whose time is over by `now` and that nothing uses; gives how many."""
    persistence = engine.runtime.persistence
    swept = 0
    for thread_id, strategy in await persistence.threads.expired(now, limit):
        # A thread that was used or deleted meanwhile is left alone.
        with suppress(NotFound, Conflict):
            async with engine.claimed(thread_id, expired_by=now, deleting=strategy == "delete") as claim:
                if strategy == "keep_latest":
                    await persistence.delete_history(claim)
                    await persistence.threads.clear_expiry(thread_id, now)
                else:
                    await engine.delete_claimed(claim)
                swept += 1
    return swept


@asynccontextmanager
async def sweeping_expired(
    engine: EmbeddedEngine, sweeps: Sweeps, clock: Callable[[], datetime] = utc_now
) -> AsyncIterator[None]:
    """Sweep at once and then in intervals, beside whatever the block does; a failure waits for the next time."""
    sweeping = asyncio.create_task(_sweep_again_and_again(engine, sweeps, clock), name="sweep-expired")
    try:
        yield
    finally:
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)


async def _sweep_again_and_again(engine: EmbeddedEngine, sweeps: Sweeps, clock: Callable[[], datetime]) -> None:
    while True:
        try:
            swept = await sweep_expired(engine, clock(), sweeps.limit)
        except PersistenceError as error:
            logger.warning("expired threads could not be cleared: {}", error)
        else:
            if swept:
                logger.info("{} threads had expired", swept)
        await asyncio.sleep(sweeps.every.total_seconds())
