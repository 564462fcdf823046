"""Hold one session from its opening to its end, all in one task, and say how it ended (D-1)."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections import loading
from toolweave.servers.connections.link import Link
from toolweave.servers.connections.pace import Pace
from toolweave.servers.connections.tool_spec import ToolSpec
from toolweave.servers.connections.watch import watch

if TYPE_CHECKING:
    from toolweave.servers.connections.session import McpSession


@dataclass(frozen=True, slots=True)
class Ending:
    """How a session ended: why, for how long it had been ready (None: never), and whether the child ended it.

    `declined`: the server is there, and did not open it for whoever asks.
    """

    reason: str
    ready_s: float | None
    exited: bool
    declined: bool = False


class Seat(Protocol):
    """Where a session is offered to callers while it lives."""

    def take(self, session: "McpSession", tools: tuple[ToolSpec, ...]) -> None:
        """Offer a session that is ready."""

    def refresh(self, tools: tuple[ToolSpec, ...]) -> None:
        """Replace the tool list."""

    def vacate(self, reason: str) -> None:
        """Withdraw the session; leaving it may take seconds after this."""


async def hold_session(link: Link, config: McpServerConfig, pace: Pace, seat: Seat) -> Ending:
    """Open a session within `pace.connect_s`, seat it, watch it until it is lost, and leave it within `pace.leave_s`.

    Losing `link` ends it in good order at any time. A failing transport cancels this task from inside the SDK; that,
    unlike a cancellation from outside, is an ending.
    """
    loop = asyncio.get_running_loop()
    patience = asyncio.timeout(pace.connect_s)
    ready_at = lost_at = None
    try:
        async with patience, loading.open_session(config, link) as session:
            try:
                tools = await link.race(session.list_tools())
                patience.reschedule(None)
                ready_at = loop.time()
                seat.take(session, tools)
                await watch(link, session, config, pace, seat.refresh)
            finally:
                link.lose()
                lost_at = loop.time()
                seat.vacate(link.why_lost or "the transport failed")
                if not patience.expired():
                    patience.reschedule(lost_at + pace.leave_s)
    except (Exception, BaseExceptionGroup, asyncio.CancelledError) as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # What failed meanwhile is no news to whoever has cancelled, and nobody would collect it.
            raise asyncio.CancelledError from error
    finally:
        link.lose()
        await link.drain()
    ready_s = None if ready_at is None or lost_at is None else lost_at - ready_at
    late = ready_s is None and patience.expired()
    reason = f"it did not get ready within {pace.connect_s:g} s" if late else link.why_lost
    if link.last_words and (ready_s or 0.0) < pace.steady_s:
        reason = f"{reason}; it wrote: {link.last_words}"
    return Ending(
        reason=reason,
        ready_s=ready_s,
        exited=(config.transport == "stdio" or link.exited) and not late,
        declined=ready_s is None and link.declined,
    )
