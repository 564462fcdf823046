"""Open the MCP servers of one task: they are there for as long as it takes, and no other task has them (A-05, A-07)."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from loguru import logger

from toolweave.config.mcp import McpServerConfig
from toolweave.config.settings import Settings, load_settings
from toolweave.errors import ServerUnavailable
from toolweave.graphs.plane_tools import PlaneTools
from toolweave.servers.connections.oauth.place import TokenPlace, token_place
from toolweave.servers.connections.observation import CallObserver, open_call_log
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane

OpenTools = Callable[[Sequence[McpServerConfig]], AbstractAsyncContextManager[PlaneTools]]
"""What connects to the servers of a task for as long as it takes."""

FIRST_TOOL_PATIENCE_S = 15.0
"""How long a run without any tool waits for its first one: programs that are fetched when started take their time."""


@asynccontextmanager
async def open_task_tools(
    servers: Sequence[McpServerConfig], observers: Sequence[CallObserver] = ()
) -> AsyncIterator[PlaneTools]:
    """Connect to the servers, and leave them with the block; it begins when there is something to work with.

    Servers that have not answered by then are named in a warning, and their tools join later (A-07).

    Raises:
        ServerUnavailable: no server offers a tool; says why of each.
    """
    async with open_tool_plane(servers, observers=observers, token_place=_token_place(servers)) as plane:
        available = PlaneTools(plane)
        await _first_tools(available)
        yield available


def logged_task_tools(settings: Settings) -> OpenTools:
    """Give what opens a task's servers and logs each call in the data folder of the settings (T-03)."""

    @asynccontextmanager
    async def opened(servers: Sequence[McpServerConfig]) -> AsyncIterator[PlaneTools]:
        async with (
            open_call_log(settings.data_dir, settings.mcp_log) as observers,
            open_task_tools(servers, observers) as available,
        ):
            yield available

    return opened


def server_states(plane: ToolPlane) -> list[str]:
    """Say of each enabled server how it is, and why."""
    return [
        f"{name} is {health['state']}" + (f" ({health['last_error']})" if health["last_error"] else "")
        for name, health in plane.health().items()
        if health["state"] != "disabled"
    ]


def absent_servers(plane: ToolPlane) -> list[str]:
    """Say of each server that is not there how it is, and why."""
    ready = {f"{name} is ready" for name in plane.ready()}
    return [said for said in server_states(plane) if said not in ready]


async def _first_tools(available: PlaneTools) -> None:
    plane = available.plane
    patience = time.monotonic() + FIRST_TOOL_PATIENCE_S
    while not await available.tools() and _connecting(plane) and time.monotonic() < patience:
        await plane.settle(timeout_s=0.5)
    absent = absent_servers(plane)
    if not await available.tools():
        listed = "; ".join(absent) or "None is enabled, or they answered without tools"
        raise ServerUnavailable(f"No MCP server offers a tool. {listed}.", server=", ".join(plane.health()))
    if absent:
        logger.warning("the agent works without some MCP servers: {}", "; ".join(absent))


def _connecting(plane: ToolPlane) -> bool:
    return any(health["state"] == "connecting" for health in plane.health().values())


def _token_place(servers: Sequence[McpServerConfig]) -> TokenPlace | None:
    """Find the tokens of servers that a person has signed in to where the settings of this process say."""
    return token_place(load_settings()) if any(server.auth for server in servers) else None
