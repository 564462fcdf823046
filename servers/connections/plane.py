"""Hold the connections to all MCP servers of a process and offer their tools to graphs."""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.tools import BaseTool
from loguru import logger

from toolweave.config.mcp import McpServerConfig
from toolweave.errors import CallRefused, ServerUnavailable
from toolweave.servers.connections.call import execute_call
from toolweave.servers.connections.callers import CallerRegistry, lists_tools_per_caller, shared_config
from toolweave.servers.connections.connection import ServerConnection
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.oauth import TokenPlace
from toolweave.servers.connections.observability import CallMetrics, CallObserver, call_span, set_span_result
from toolweave.servers.connections.registry import ServerToolRegistry, build_tool_registry
from toolweave.servers.connections.results import connection_closing, server_unusable
from toolweave.servers.connections.sessions import loading
from toolweave.servers.connections.status import (
    DEFAULT_TIMING,
    ServerDetails,
    ServerHealth,
    ServerSummary,
    Timing,
    server_details,
    server_summary,
)
from toolweave.servers.connections.tool import McpTool, build_tools

if TYPE_CHECKING:
    from mcp.types import CallToolResult

T = TypeVar("T")
CLOSED_TEXT = "The connections to the tool servers are being closed."
LOGGED_NAMES = 100
DRAIN_TIMEOUT_S = 1.0
UNKNOWN_SERVER = "no server of that name is configured."


class PlaneLoop:
    """The running event loop, to be used from any other.

    A loop that ends forgets what it was given by other threads, whose callers would wait for ever: `set_closed` lets
    nothing more in, `drain` waits for what is in.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._closed = False
        self._futures: set[Future[Any]] = set()

    @property
    def is_current(self) -> bool:
        """Return whether the caller is on this loop."""
        return asyncio.get_running_loop() is self._loop

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` here and return what it returns; a cancelled caller cancels it.

        Raises:
            ServerUnavailable: the caller is on another loop, and this one is closed.
        """
        if self.is_current:
            return await work
        with self._lock:
            if self._closed:
                work.close()
                raise ServerUnavailable(CLOSED_TEXT, server="*", executed="no")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Let no more work in from other loops."""
        with self._lock:
            self._closed = True

    async def drain(self, limit_s: float) -> None:
        """Wait, at most `limit_s`, until the work from other loops has ended; call it on this loop, once closed."""
        futures = [asyncio.wrap_future(future) for future in list(self._futures)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await asyncio.gather(*futures, return_exceptions=True)


class ToolPlane:
    """The MCP servers of one process; open it with `open_tool_plane`.

    It may be used from any event loop: work is carried to the loop the plane was opened on, because sessions live
    there (88 µs per call).
    """

    def __init__(
        self,
        servers: Sequence[McpServerConfig],
        timing: Timing,
        observers: Sequence[CallObserver] = (),
        token_place: TokenPlace | None = None,
    ) -> None:
        self._loop = PlaneLoop()
        self._timing = timing
        self._closed = False
        self._connections = {
            server.name: ServerConnection(shared_config(server), timing, self._on_tools, token_place=token_place)
            for server in servers
        }
        self._callers = CallerRegistry(self._connections, self.call)
        self.metrics = CallMetrics(self._connections)
        self._observers: tuple[CallObserver, ...] = (self.metrics, *observers)
        self._registry = ServerToolRegistry({}, {})
        self._tools: dict[str, list[McpTool]] = {}
        self._logged_tools: dict[str, tuple[datetime, list[str]]] = {}

    async def tools(
        self, servers: Sequence[str] | None = None, configurable: Mapping[str, Any] | None = None
    ) -> list[BaseTool]:
        """Return the tools of the servers that are ready now: configuration order, then name (D-2).

        A server that is still connecting for the first time is waited for, at most two seconds. The list is made
        anew from cached tools, so ask once per run: servers come and go. Unknown names have no tools.

        Args:
            servers: take only these servers; default all.
            configurable: that of the run which asks; with it come the tools that a server lists to its callers only.
        """
        if self._closed:
            return []
        await self.wait_for_servers(servers)
        ready = [each for each in self._select(servers) if each.status.state == "ready"]
        tools: Mapping[str, list[McpTool]] = self._tools
        if configurable is not None and any(lists_tools_per_caller(each) for each in ready):
            names = [each.config.name for each in ready]
            with contextlib.suppress(ServerUnavailable):  # it has closed this moment
                tools = await self._loop.run(self._callers.tools(names, configurable, self._tools))
        return [tool for connection in ready for tool in tools.get(connection.config.name, ())]

    def unavailable_tools(self) -> list[BaseTool]:
        """Return the tools of servers that are not ready now, as they were listed last: a call waits for the server."""
        lost = [each for each in self._connections.values() if each.is_active and each.status.state != "ready"]
        return [tool for connection in lost for tool in self._tools.get(connection.config.name, ())]

    async def wait_for_servers(self, servers: Sequence[str] | None = None, *, timeout_s: float | None = None) -> None:
        """Wait until each server has connected or failed to for the first time, at most `timeout_s` (default: 2)."""
        limit = self._timing.connect_wait_s if timeout_s is None else timeout_s
        with contextlib.suppress(ServerUnavailable):  # closed: there is nothing to wait for
            await self._loop.run(self._wait_for_first_connects(self._select(servers), limit))

    async def call(self, server: str, tool: str, arguments: dict[str, Any], context: CallContext) -> "CallToolResult":
        """Call a tool by its server's own name for it; a failure is a result with `isError`, never an exception."""
        if server not in self._connections:
            return await loading.failed_result(str(server_unusable(server, tool, reason=UNKNOWN_SERVER)), "transport")
        if not self._loop.is_current and not self._closed:
            with contextlib.suppress(ServerUnavailable):  # it has closed this moment
                return await self._loop.run(self.call(server, tool, arguments, context))
        if self._closed:
            return await loading.failed_result(str(connection_closing(server, tool)), "transport")
        connection, refusal = self._connections[server], None
        with (
            self.metrics.track_in_flight(server),
            call_span(connection.config, tool, context.configurable) as span,
            contextlib.ExitStack() as stack,
        ):
            try:
                connection = stack.enter_context(self._callers.sessions[server].acquire(context.configurable, tool))
            except CallRefused as error:
                refusal = error
            result = await execute_call(connection, tool, arguments, context, self._observers, refusal=refusal)
            set_span_result(span, result)
            return result

    def ready_servers(self) -> list[str]:
        """Return the names of the servers whose tools can be called now; cheaper than `health`."""
        return [name for name, each in self._connections.items() if each.status.state == "ready"]

    def health(self) -> dict[str, ServerHealth]:
        """Return the state of every server, in configuration order (T-06)."""
        return {name: self._health(name) for name in self._connections}

    def servers_refusing_calls(self) -> list[str]:
        """Return the names of the servers to which calls are refused now: OPEN breaker, or its probe in flight."""
        return [name for name, each in self._connections.items() if each.breaker.refuses_calls]

    def summaries(self) -> list[ServerSummary]:
        """Return what is known of every server in brief, in configuration order."""
        return [server_summary(each.config, self._health(name)) for name, each in self._connections.items()]

    def details(self, name: str) -> ServerDetails | None:
        """Return all about one server, without secrets; None if there is none of that name."""
        connection = self._connections.get(name)
        if connection is None:
            return None
        offer, lost = self._registry.tools_by_server.get(name, {}), connection.status.errors
        return server_details(
            connection.config, self._health(name), offer, self.metrics.for_server(name), lost, connection.redaction
        )

    async def ping(self, name: str) -> None:
        """Ask a server for a sign of life.

        Raises:
            ServerUnavailable: it is not connected, there is none of that name, or the plane is closed.
            TimeoutError: it did not answer within its time limit.
        """
        await self._loop.run(self._find_connection(name).ping())

    async def reconnect(self, name: str) -> ServerHealth:
        """Connect a server anew, now, and return how that went.

        Raises:
            ServerUnavailable: there is no server of that name, or the plane is closed.
        """
        await self._loop.run(self._reconnect(self._find_connection(name)))
        return self._health(name)

    def start(self) -> None:
        """Begin to connect to all servers, in parallel."""
        for connection in self._connections.values():
            connection.start()

    async def stop(self) -> None:
        """Leave all servers, in parallel and bounded; calls that are open fail at once, later ones are refused."""
        self._closed = True
        self._loop.close()
        await asyncio.gather(self._callers.stop(), *(connection.stop() for connection in self._connections.values()))
        await self._loop.drain(DRAIN_TIMEOUT_S)

    def _find_connection(self, name: str) -> ServerConnection:
        if name not in self._connections:
            raise server_unusable(name, reason=UNKNOWN_SERVER)
        return self._connections[name]

    async def _reconnect(self, connection: ServerConnection) -> None:
        self._callers.sessions[connection.config.name].close_idle_sessions()
        await connection.reconnect()

    def _select(self, servers: Sequence[str] | None) -> list[ServerConnection]:
        return [each for name, each in self._connections.items() if servers is None or name in servers]

    async def _wait_for_first_connects(self, connections: Sequence[ServerConnection], limit_s: float) -> None:
        first = [each for each in connections if each.status.state == "connecting" and not each.is_known_down]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await asyncio.gather(*(each.status.wait_for_state("ready", "down") for each in first))

    def _on_tools(self, connection: ServerConnection) -> None:
        """Take in a server's new tool list; its names may now collide with another server's, or free them."""
        name = connection.config.name
        listed = Counter(tool.name for tool in connection.tools)
        if repeated := sorted(tool for tool, count in listed.items() if count > 1):
            logger.bind(server=name).warning(
                "MCP server {} lists {} more than once; the first counts", name, ", ".join(repeated)
            )
        known, before = self._registry.tools_by_server, self._registry.refusals
        self._registry = build_tool_registry([(each.config, each.tools) for each in self._connections.values()])
        for refused, reason in self._registry.refusals.items():
            if before.get(refused) != reason:
                logger.bind(server=refused).error("MCP server {} is misconfigured: {}", refused, reason)
        self._tools = {
            server: self._tools[server]
            if offer == known.get(server)
            else build_tools(self._connections[server].config, offer, self.call)
            for server, offer in self._registry.tools_by_server.items()
        }
        offered = self._tools.get(name, [])
        news = (connection.status.since, [tool.name for tool in offered])
        if self._logged_tools.get(name) == news:
            return  # some servers are asked for their list every few seconds
        self._logged_tools[name] = news
        shown = ", ".join(tool.name for tool in offered[:LOGGED_NAMES]) + (", …" if len(offered) > LOGGED_NAMES else "")
        logger.bind(server=name).info("MCP server {} is ready with {} tools: {}", name, len(offered), shown)

    def _health(self, name: str) -> ServerHealth:
        connection = self._connections[name]
        status = connection.status
        refusal = self._registry.refusals.get(name)
        ready = status.state == "ready"
        health = ServerHealth(
            state="misconfigured" if ready and refusal else status.state,
            breaker=connection.breaker.state,
            tools=len(self._tools.get(name, ())) if ready else 0,
            last_error=refusal if ready and refusal else status.last_error,
            since=status.since.isoformat(),
        )
        if latency := self.metrics.latency(name):
            health["latency_ms"] = latency
        return health


@asynccontextmanager
async def open_tool_plane(
    servers: Sequence[McpServerConfig],
    *,
    timing: Timing = DEFAULT_TIMING,
    observers: Sequence[CallObserver] = (),
    token_place: TokenPlace | None = None,
) -> AsyncIterator[ToolPlane]:
    """Open the plane for `servers`, and close it with the block; every subprocess has ended then (T-09).

    It does not wait for any server: one that does not answer shows in `health` and holds up nobody (A-07). The
    `observers` are told of every call once it has ended, beside the plane's own figures. Without a `token_place`,
    servers that a person signs in to stay down.
    """
    plane = ToolPlane(servers, timing, observers, token_place)
    plane.start()
    try:
        yield plane
    finally:
        await plane.stop()
