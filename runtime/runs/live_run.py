"""Hold what a process knows of the runs that it executes, and of those it has been asked for."""

import asyncio
from dataclasses import dataclass, field

from toolweave.errors import NotFound
from toolweave.runtime.models import CancelAction, Run
from toolweave.runtime.runs.execution import Execution
from toolweave.runtime.runs.progress import RunProgress
from toolweave.runtime.streaming.channel import Channel, Subscription


@dataclass(slots=True)
class LiveRun:
    """A run that has not ended, as this process knows it; whoever deletes it sets `deleted`."""

    run: Run
    channel: Channel
    ended: "asyncio.Future[bytes | None]"
    graph: "asyncio.Task[Execution] | None" = None
    cancel: CancelAction | None = None
    why_cancelled: str | None = None
    deleted: bool = False
    progress: RunProgress = field(default_factory=RunProgress)


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A created run, its end and, when asked for, its events from the very first."""

    run: Run
    ended: "asyncio.Future[bytes | None]"
    events: Subscription | None = None

    async def result(self) -> bytes:
        """Wait as `EmbeddedEngine.wait` does, for a run that may have ended, and be gone, by now."""
        return await body_of(self.ended)


async def body_of(ended: "asyncio.Future[bytes | None]") -> bytes:
    """Wait for a run's end; gives the JSON that waiters get. Raises NotFound for a run that is gone."""
    body = await asyncio.shield(ended)
    if body is None:
        raise NotFound("Run not found")
    return body
