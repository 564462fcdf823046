"""Provide tool catalogues to graphs: the tool plane's, a task's own MCP servers', registered tools (A-05, A-07)."""

import asyncio
import os
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from langchain_core.tools import BaseTool
from langgraph.config import get_config
from loguru import logger

from toolweave.config.mcp import McpServerConfig
from toolweave.config.settings import Settings, load_settings
from toolweave.errors import ConfigError, ServerUnavailable
from toolweave.graphs.background_loop import background_loop
from toolweave.nodes.http_tools.api_calls import ApiCalls, ApiTool, http_tools
from toolweave.nodes.tool_catalog import ToolCatalog, ToolRegistry, registered_tools, unavailable_tools
from toolweave.servers.connections.oauth import token_location
from toolweave.servers.connections.observability import CallObserver, open_call_log
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane
from toolweave.servers.connections.plane_slot import plane_slot
from toolweave.tool_config import ToolConfig


def current_configurable() -> Mapping[str, Any]:
    """Return the `configurable` of the current run; empty outside of graphs."""
    try:
        return get_config().get("configurable") or {}
    except RuntimeError:
        return {}


class PlaneTools:
    """The tool catalogue of one tool plane.

    The first call of `tools` waits at most two seconds for servers that connect for the first time. Later calls return
    the tools of ready servers at once: a hung server must not slow down every turn of every run.
    """

    def __init__(self, plane: ToolPlane) -> None:
        self.plane = plane
        self._first_wait_over = False

    async def tools(self) -> Sequence[BaseTool]:
        """Return the tools of all servers that can be called now (A-07)."""
        if not self._first_wait_over:
            await self.plane.wait_for_servers()
            self._first_wait_over = True
        return await self.plane.tools(self.plane.ready_servers(), current_configurable())

    async def unavailable_tools(self) -> Sequence[BaseTool]:
        """Return the tools of servers that were lost and are reconnecting (D-5)."""
        return self.plane.unavailable_tools()


class CurrentPlaneTools:
    """The tool catalogue of the process's current tool plane; waits while the plane is opening."""

    def __init__(self) -> None:
        self._plane_tools: PlaneTools | None = None

    async def tools(self) -> Sequence[BaseTool]:
        """Return the tools of all servers that can be called now (A-07).

        Raises:
            ServerUnavailable: the plane did not open in time.
        """
        return await (await self._current_catalog()).tools()

    async def unavailable_tools(self) -> Sequence[BaseTool]:
        """Return the tools of servers that were lost and are reconnecting (D-5).

        Raises:
            ServerUnavailable: the plane did not open in time.
        """
        return await (await self._current_catalog()).unavailable_tools()

    async def _current_catalog(self) -> PlaneTools:
        plane = await plane_slot.get_plane()
        if self._plane_tools is None or self._plane_tools.plane is not plane:
            self._plane_tools = PlaneTools(plane)
        return self._plane_tools


ToolsOpener = Callable[[Sequence[McpServerConfig]], AbstractAsyncContextManager[PlaneTools]]
"""Connects to the MCP servers of a task, for as long as its context is open."""
FIRST_TOOL_TIMEOUT_S = 15.0
"""How long a run without any tool waits for one: servers whose programs are downloaded at their start are slow."""


@asynccontextmanager
async def open_task_tools(
    servers: Sequence[McpServerConfig], observers: Sequence[CallObserver] = ()
) -> AsyncIterator[PlaneTools]:
    """Connect to `servers` while the block runs; it starts when a tool is available.

    A warning names the servers that have not answered by then; their tools join later (A-07).

    Raises:
        ServerUnavailable: no server offers a tool; the text says why for each.
    """
    # The settings of this process name the place of OAuth tokens.
    place = token_location(load_settings()) if any(server.auth for server in servers) else None
    async with open_tool_plane(servers, observers=observers, token_place=place) as plane:
        available = PlaneTools(plane)
        await _wait_for_first_tools(available)
        yield available


class ServerTools:
    """The tools of MCP servers that belong to one graph (U-05).

    The first use connects to the servers, on the background loop: the graph's callers may have short event loops, or
    none. They are disconnected when nothing refers to this object any more, and when the process exits.
    """

    def __init__(self, servers: Sequence[McpServerConfig]) -> None:
        self._servers = tuple(servers)
        self._lock = threading.Lock()
        self._opened: Future[PlaneTools] | None = None
        self._pid: int | None = None

    async def tools(self) -> Sequence[BaseTool]:
        """Return the tools of all servers that can be called now (A-07).

        Raises:
            ServerUnavailable: no server offers a tool; the next use tries again.
        """
        return await (await self._plane_tools()).tools()

    async def unavailable_tools(self) -> Sequence[BaseTool]:
        """Return the tools of servers that were lost and are reconnecting (D-5)."""
        return await (await self._plane_tools()).unavailable_tools()

    async def _plane_tools(self) -> PlaneTools:
        with self._lock:
            # A forked process has its parent's object, but not the loop with the connections.
            opened, pid = self._opened, os.getpid()
            if opened is None or self._pid != pid or (opened.done() and opened.exception()):
                opened = self._opened = Future()
                self._pid = pid
                close = background_loop.start(_hold_open(self._servers, opened))
                # At exit the loop itself ends its work.
                weakref.finalize(self, close).atexit = False
        # A caller that is cancelled must not cancel the others.
        return await asyncio.shield(asyncio.wrap_future(opened))


async def _hold_open(servers: Sequence[McpServerConfig], opened: Future[PlaneTools]) -> None:
    """Connect to the servers, pass their tools or the error to `opened`, and stay connected until cancelled."""
    try:
        async with open_task_tools(servers) as available:
            opened.set_result(available)
            await asyncio.Event().wait()
    except BaseException as error:
        if opened.done():
            raise
        opened.set_exception(error)


def logged_tools_opener(settings: Settings) -> ToolsOpener:
    """Return a ToolsOpener that logs each call in the data folder of the settings (T-03)."""

    @asynccontextmanager
    async def open_logged(servers: Sequence[McpServerConfig]) -> AsyncIterator[PlaneTools]:
        async with (
            open_call_log(settings.data_dir, settings.mcp_log) as observers,
            open_task_tools(servers, observers) as available,
        ):
            yield available

    return open_logged


def describe_servers(plane: ToolPlane) -> list[str]:
    """Return a text per enabled server: its state and last error."""
    return [
        f"{name} is {health['state']}" + (f" ({health['last_error']})" if health["last_error"] else "")
        for name, health in plane.health().items()
        if health["state"] != "disabled"
    ]


async def _wait_for_first_tools(available: PlaneTools) -> None:
    plane = available.plane
    deadline = time.monotonic() + FIRST_TOOL_TIMEOUT_S
    while not await available.tools() and time.monotonic() < deadline:
        if not any(health["state"] == "connecting" for health in plane.health().values()):
            break
        await plane.wait_for_servers(timeout_s=0.5)
    ready = {f"{name} is ready" for name in plane.ready_servers()}
    missing = [state for state in describe_servers(plane) if state not in ready]
    if not await available.tools():
        reasons = "; ".join(missing) or "None is enabled, or they answered without tools"
        raise ServerUnavailable(f"No MCP server offers a tool. {reasons}.", server=", ".join(plane.health()))
    if missing:
        logger.warning("the agent works without some MCP servers: {}", "; ".join(missing))


TOOL_IDS = "tool_ids"
MAX_TOOL_IDS = 1_000
MAX_CACHED_TOOLS = 5_000


class CatalogWithRegisteredTools:
    """The tools of another catalogue, plus the registered tools whose ids the run or its assistant requests.

    The registry is read at every turn, so a changed tool takes effect from the next turn on.
    """

    def __init__(self, catalog: ToolCatalog, registry: ToolRegistry, calls: ApiCalls) -> None:
        self._catalog = catalog
        self._registry = registry
        self._calls = calls
        self._cached_tools: dict[str, ApiTool] = {}
        self._warned_names: set[str] = set()

    async def tools(self) -> Sequence[BaseTool]:
        """Return the tools that can be called now.

        Raises:
            ConfigError: `tool_ids` is not a list of ids.
            UnknownTools: nothing is registered under some of the ids.
            PersistenceError: the registry cannot be read now.
        """
        others = await self._catalog.tools()
        requested = requested_tool_ids()
        if not requested:
            return others
        found = await registered_tools(self._registry, requested)
        used_names = {tool.name for tool in others}
        self._warn_once(used_names.intersection(requested))
        configs = [config for tool_id, config in found.items() if tool_id not in used_names]
        return [*others, *self._build_tools(configs)]

    async def unavailable_tools(self) -> Sequence[BaseTool]:
        """Return the other catalogue's unavailable tools (D-5)."""
        return await unavailable_tools(self._catalog)

    def _build_tools(self, configs: Sequence[ToolConfig]) -> list[ApiTool]:
        """Return a tool per configuration; equal ones return the same object, because tool lists are indexed once."""
        if len(self._cached_tools) > MAX_CACHED_TOOLS:
            self._cached_tools.clear()
        tools = self._cached_tools
        new = [config for config in configs if config.tool_id not in tools or tools[config.tool_id].operation != config]
        tools |= {tool.name: tool for tool in http_tools(new, self._calls)}
        return [tools[config.tool_id] for config in configs]

    def _warn_once(self, names: set[str]) -> None:
        for name in sorted(names - self._warned_names):
            logger.warning("the registered tool {} is left out: a server's tool has that name", name)
        self._warned_names |= names


def requested_tool_ids() -> tuple[str, ...]:
    """Return the tool ids in the `configurable` of the current run; none outside of graphs.

    Raises:
        ConfigError: they are not a list of ids.
    """
    requested = current_configurable().get(TOOL_IDS) or ()
    is_valid = isinstance(requested, list | tuple) and all(isinstance(tool_id, str) for tool_id in requested)
    if not is_valid or len(requested) > MAX_TOOL_IDS:
        raise ConfigError(f"{TOOL_IDS} in the run's configurable must be a list of at most {MAX_TOOL_IDS} tool ids.")
    return tuple(dict.fromkeys(requested))
