"""Do blocking work beside the event loop, so that cancelling the call ends the work, too."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from toolweave.servers.core.files.budget import Budget

Result = TypeVar("Result")


async def on_a_thread(work: Callable[[], Result], budget: Budget) -> Result:
    """Run `work`, which asks `budget` as it goes on; when the call is cancelled, the work ends before the call does."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        budget.cancel()
        await asyncio.wait({running})
        # Nobody will hear how it failed.
        _ = running.cancelled() or running.exception()
        raise
