"""Run work beside a block of code, once or again and again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager

from loguru import logger

from toolweave.errors import PersistenceError


async def clearing(clear: Callable[[], Awaitable[int]], seconds: float, done: str, failed: str) -> None:
    """Clear something at once and then in intervals; log the count as `done`, and the database's error as `failed`."""
    while True:
        try:
            cleared = await clear()
        except PersistenceError as error:
            logger.warning(failed, error)
        else:
            if cleared:
                logger.info(done, cleared)
        await asyncio.sleep(seconds)


@asynccontextmanager
async def in_background(work: Coroutine[None, None, None], name: str) -> AsyncIterator[None]:
    """Run work in a task of this name, and cancel it when the block ends."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
