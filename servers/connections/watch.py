"""Watch over one live session until it is lost: pings when it is quiet or suspected, fresh tools when they change."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolweave.config.mcp import McpServerConfig
from toolweave.errors import ToolError
from toolweave.servers.connections.link import Link
from toolweave.servers.connections.pace import Pace
from toolweave.servers.connections.tool_spec import ToolSpec

if TYPE_CHECKING:
    from toolweave.servers.connections.session import McpSession


async def watch(
    link: Link,
    session: "McpSession",
    config: McpServerConfig,
    pace: Pace,
    on_tools: Callable[[tuple[ToolSpec, ...]], None],
) -> None:
    """Return when the link is lost, whoever noticed it; never because of a tool that is merely slow."""
    quiet_s = pace.ping_local_s if config.transport == "stdio" else pace.ping_remote_s
    while True:
        await link.disturbance(quiet_s)
        if link.is_lost:
            return
        busy_s = config.timeout_s if link.is_busy else 0.0
        if link.tools_changed or link.deaf:
            await _refresh(link, session, pace, max(pace.list_s, busy_s), on_tools)
        else:
            await _ping(link, session, max(pace.ping_limit_s, busy_s))


async def _ping(link: Link, session: "McpSession", limit_s: float) -> None:
    try:
        async with asyncio.timeout(limit_s):
            await link.race(session.ping())
        link.heard()
    except TimeoutError:
        link.lose(f"it did not answer a ping within {limit_s:g} s")
    except ToolError as error:
        link.lose(str(error))


async def _refresh(
    link: Link,
    session: "McpSession",
    pace: Pace,
    limit_s: float,
    on_tools: Callable[[tuple[ToolSpec, ...]], None],
) -> None:
    link.tools_changed = False
    try:
        async with asyncio.timeout(limit_s):
            specs = await link.race(session.list_tools())
    except TimeoutError:
        link.lose(f"it did not list its tools within {limit_s:g} s")
        return
    except ToolError as error:
        link.lose(str(error))
        return
    link.heard()
    on_tools(specs)
    # A server that announces a change with every list would otherwise keep us listing without end.
    await asyncio.sleep(pace.refresh_pause_s)
