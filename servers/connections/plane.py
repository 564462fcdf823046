"""Hold the connections to all MCP servers of a process, offer their tools to graphs, and execute calls.

A call turns every failure into a result: an exception would crash the graph that called. It acquires one permit of the
breaker and makes up to four attempts. Each attempt is a `ServerConnection.call` with its own deadline (D-5, D-6).
"""

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from langchain_core.tools import BaseTool
from loguru import logger
from pydantic import ValidationError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_chain, wait_fixed

from toolweave import errors
from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections import observability, results
from toolweave.servers.connections.breaker import Permit
from toolweave.servers.connections.callers import CallerRegistry, lists_tools_per_caller, shared_config
from toolweave.servers.connections.connection import ServerConnection
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.oauth import TokenLocation
from toolweave.servers.connections.redaction import describe_error
from toolweave.servers.connections.registry import ServerToolRegistry, build_tool_registry, is_included
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
    from mcp.types import CallToolResult, ReadResourceResult
    from pydantic import AnyUrl, BaseModel

Result = TypeVar("Result", bound="BaseModel")
MAX_TOOL_NAME_CHARS = 128


async def execute_call(
    connection: ServerConnection,
    tool: str,
    arguments: dict[str, Any],
    context: CallContext,
    observers: Iterable[observability.CallObserver] = (),
    *,
    refusal: errors.CallRefused | None = None,
) -> "CallToolResult":
    """Call a tool, pass its record to the observers, and return its result.

    A failed call returns a result with `isError`, a text for the model and the kind of failure in `_meta`; the cause is
    written to the log only. With a `refusal`, the call fails before its first attempt.
    """
    record = observability.CallRecord(connection.config.name, tool, arguments, context, connection.redaction)
    started, permit = time.perf_counter(), None
    try:
        if refusal is not None:
            raise refusal
        permit = await _acquire_permit(connection, tool, arguments)
        record.attempts = 1
        try:
            # Nearly every call needs no retry; tenacity would add 40 µs to each.
            result = await connection.call(tool, arguments, context)
        except errors.ServerUnavailable as failure:
            if not _is_retryable(connection, tool, failure):
                raise
            async for attempt in _retry_attempts(connection, tool):
                with attempt:
                    if attempt.retry_state.attempt_number == 1:
                        raise
                    record.attempts += 1
                    result = await connection.call(tool, arguments, context, is_retry=True)
        permit.record_outcome("success")
        record.result = _redact_result(connection, tool, result)
        record.outcome = "tool_error" if result.isError else "ok"
    except errors.ToolError as failure:
        _record_failure(record, failure, connection, permit)
        kind = "transport" if record.outcome == "refused" else record.outcome
        record.result = await loading.error_result(str(failure), kind)
    finally:
        if permit is not None:
            permit.record_outcome("cancelled")
        record.duration_ms = round((time.perf_counter() - started) * 1000, 2)
        context.facts.update(server=record.server, duration_ms=record.duration_ms, attempts=record.attempts)
        for observe in (observability.log_call, *observers):
            observe(record)
    return record.result


async def _acquire_permit(connection: ServerConnection, tool: str, arguments: dict[str, Any]) -> Permit:
    """Return the breaker's permit for a call that the server's filters and the tool's schema allow.

    Raises:
        CallRefused: the tool is excluded, or the breaker refuses calls.
        InvalidArguments: the arguments do not match the tool's schema.
    """
    server = connection.config.name
    # Callers may name any tool, not only those that the plane lists.
    if not is_included(connection.config, tool):
        raise results.tool_excluded(server, tool, name=tool[:MAX_TOOL_NAME_CHARS])
    spec = connection.find_tool(tool)
    if spec and (problems := await spec.validation_errors("arguments", arguments)):
        raise errors.InvalidArguments(results.arguments_error(tool, problems), server=server, tool=tool, executed="no")
    permit = connection.breaker.acquire_permit()
    if permit is None:
        raise results.temporarily_unavailable(server, tool)
    return permit


def _is_retryable(connection: ServerConnection, tool: str, failure: BaseException) -> bool:
    """Return whether another attempt is safe: the failed one was not executed, or the tool is safe to repeat.

    A call that this client or the server refused, or that passed its deadline, is never repeated.
    """
    if not isinstance(failure, errors.ServerUnavailable) or isinstance(
        failure, errors.CallRefused | errors.RequestDeclined
    ):
        return False
    spec = connection.find_tool(tool)
    return failure.executed == "no" or (spec is not None and spec.is_safe_to_repeat)


def _retry_attempts(connection: ServerConnection, tool: str) -> AsyncRetrying:
    """Return the retry policy of one call (D-5); its first attempt has to raise the error of the call that failed."""
    timing, server = connection.timing, connection.config.name
    # Three retries are meant for failures that occur fast. Without this limit, a server that closes the connection just
    # before each deadline would block a caller for four deadlines.
    deadline = timing.clock() + sum(timing.retry_delays_s) + connection.config.timeout_s
    is_last_attempt = stop_after_attempt(1 + len(timing.retry_delays_s))

    def log_retry(state: RetryCallState) -> None:
        logger.bind(server=server, tool=tool, attempt=state.attempt_number).info(
            "MCP call {}/{}: attempt {} failed, next in {:g} s",
            server,
            tool,
            state.attempt_number,
            state.upcoming_sleep,
        )

    def raise_exhausted(state: RetryCallState) -> NoReturn:
        last = state.outcome.exception() if state.outcome else None
        raise results.retries_exhausted(server, tool, attempts=state.attempt_number) from last

    return AsyncRetrying(
        retry=retry_if_exception(partial(_is_retryable, connection, tool)),
        stop=lambda state: is_last_attempt(state) or timing.clock() >= deadline,
        wait=wait_chain(*map(wait_fixed, timing.retry_delays_s)),
        sleep=partial(_sleep_unless_closing, connection),
        before_sleep=log_retry,
        retry_error_callback=raise_exhausted,
    )


async def _sleep_unless_closing(connection: ServerConnection, seconds: float) -> None:
    """Sleep for `seconds`, or until the connection starts to close."""
    tasks = {asyncio.ensure_future(connection.timing.sleep(seconds)), asyncio.ensure_future(connection.closing.wait())}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _redact_result(connection: ServerConnection, tool: str, result: Result) -> Result:
    try:
        return connection.redaction.redact_message(result)
    except ValidationError as error:
        raise results.bad_response(connection.config.name, tool) from error


def _record_failure(
    record: observability.CallRecord, failure: errors.ToolError, connection: ServerConnection, permit: Permit | None
) -> None:
    """Write the failure into the record, and into the permit if the server caused it."""
    record.outcome, record.reason = failure.outcome, _failure_reason(failure, connection)
    if record.outcome == "refused" and record.attempts:
        record.attempts -= 1  # a refused attempt was never sent
        record.outcome = "transport" if record.attempts else "refused"
    # Arguments that were not sent, and a connection that this process closes, are no failures of the server.
    if permit is not None and connection.is_active and not isinstance(failure, errors.InvalidArguments):
        permit.record_outcome("exhausted" if isinstance(failure, errors.RetriesExhausted) else "failure", record.reason)


def _failure_reason(failure: errors.ToolError, connection: ServerConnection) -> str:
    """Return the root cause of a failure for the log, without secrets."""
    if isinstance(failure, errors.InvalidArguments):
        return "its arguments do not fit"  # the failure's own text quotes them
    cause: BaseException = failure
    while cause.__cause__ is not None:
        cause = cause.__cause__
    # At a deadline, asyncio raises CancelledError inside the call first.
    is_own_error = isinstance(cause, errors.ToolError | TimeoutError | asyncio.CancelledError)
    return connection.redaction.sanitize(str(failure) if is_own_error else describe_error(cause))


T = TypeVar("T")
CLOSED_TEXT = "The connections to the tool servers are being closed."
LOGGED_NAMES = 100
DRAIN_TIMEOUT_S = 1.0
UNKNOWN_SERVER = "no server of that name is configured."


class PlaneLoop:
    """Run coroutines on the event loop that created this object, from any event loop.

    A loop that ends drops the work that other threads submitted, and their callers would wait forever. `close` rejects
    new work, `drain` waits for submitted work.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._closed = False
        self._futures: set[Future[Any]] = set()

    @property
    def is_current(self) -> bool:
        """Return whether the caller runs on this loop."""
        return asyncio.get_running_loop() is self._loop

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on this loop and return its result; cancelling the caller cancels it.

        Raises:
            ServerUnavailable: the caller runs on another loop, and `close` was called.
        """
        if self.is_current:
            return await work
        with self._lock:
            if self._closed:
                work.close()
                raise errors.ServerUnavailable(CLOSED_TEXT, server="*", executed="no")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Reject new work from other loops."""
        with self._lock:
            self._closed = True

    async def drain(self, timeout_s: float) -> None:
        """Wait at most `timeout_s` for the work from other loops; call it on this loop, after `close`."""
        futures = [asyncio.wrap_future(future) for future in list(self._futures)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*futures, return_exceptions=True)


class ToolPlane:
    """The connections to all MCP servers of one process; open it with `open_tool_plane`.

    Any event loop may use it: the plane runs calls on the loop that opened it, because sessions belong to that loop
    (88 µs per call).
    """

    def __init__(
        self,
        servers: Sequence[McpServerConfig],
        timing: Timing,
        observers: Sequence[observability.CallObserver] = (),
        token_place: TokenLocation | None = None,
    ) -> None:
        self._loop = PlaneLoop()
        self._timing = timing
        self._closed = False
        self._connections = {
            server.name: ServerConnection(shared_config(server), timing, self._on_tools, token_place=token_place)
            for server in servers
        }
        self._callers = CallerRegistry(self._connections, self.call)
        self.metrics = observability.CallMetrics(self._connections)
        self._observers: tuple[observability.CallObserver, ...] = (self.metrics, *observers)
        self._registry = ServerToolRegistry({}, {})
        self._tools: dict[str, list[McpTool]] = {}
        self._logged_tools: dict[str, list[str]] = {}

    async def tools(
        self, servers: Sequence[str] | None = None, configurable: Mapping[str, Any] | None = None
    ) -> list[BaseTool]:
        """Return the tools of the servers that are ready now, in configuration order, then by name (D-2).

        Servers that are connecting for the first time get up to two seconds. Servers become ready and unavailable at
        any time: call this once per run.

        Args:
            servers: the names of the servers; default all. Unknown names have no tools.
            configurable: the run's `configurable`; required for tools that servers list to callers only.
        """
        if self._closed:
            return []
        await self.wait_for_servers(servers)
        ready = [each for each in self._select(servers) if each.status.state == "ready"]
        tools: Mapping[str, list[McpTool]] = self._tools
        if configurable is not None and any(lists_tools_per_caller(each) for each in ready):
            names = [each.config.name for each in ready]
            with contextlib.suppress(errors.ServerUnavailable):  # the plane was closed meanwhile
                tools = await self._loop.run(self._callers.tools(names, configurable, self._tools))
        return [tool for connection in ready for tool in tools.get(connection.config.name, ())]

    def unavailable_tools(self) -> list[BaseTool]:
        """Return the last known tools of the servers that are not ready now."""
        absent = [each for each in self._connections.values() if each.is_active and each.status.state != "ready"]
        return [tool for connection in absent for tool in self._tools.get(connection.config.name, ())]

    async def wait_for_servers(self, servers: Sequence[str] | None = None, *, timeout_s: float | None = None) -> None:
        """Wait for the first attempt to connect to each server, at most `timeout_s` (default: `connect_wait_s`)."""
        limit = self._timing.connect_wait_s if timeout_s is None else timeout_s
        with contextlib.suppress(errors.ServerUnavailable):  # the plane is closed
            await self._loop.run(self._wait_for_first_connects(self._select(servers), limit))

    async def call(self, server: str, tool: str, arguments: dict[str, Any], context: CallContext) -> "CallToolResult":
        """Call a tool by its name in the server's own list; a failed call returns a result with `isError`."""
        if server not in self._connections:
            return await loading.error_result(
                str(results.server_unusable(server, tool, reason=UNKNOWN_SERVER)), "transport"
            )
        if not self._loop.is_current and not self._closed:
            with contextlib.suppress(errors.ServerUnavailable):  # the plane was closed meanwhile
                return await self._loop.run(self.call(server, tool, arguments, context))
        if self._closed:
            return await loading.error_result(str(results.connection_closing(server, tool)), "transport")
        connection, refusal = self._connections[server], None
        with (
            self.metrics.track_in_flight(server),
            observability.call_span(connection.config, tool, context.configurable) as span,
            contextlib.ExitStack() as stack,
        ):
            try:
                connection = stack.enter_context(self._callers.sessions[server].acquire(context.configurable, tool))
            except errors.CallRefused as error:
                refusal = error
            result = await execute_call(connection, tool, arguments, context, self._observers, refusal=refusal)
            observability.set_span_result(span, result)
            return result

    async def read_resource(self, server: str, uri: "AnyUrl", configurable: Mapping[str, Any]) -> "ReadResourceResult":
        """Read a resource of a server as the caller in `configurable`.

        Raises:
            ToolError: the server is unknown or down, did not answer in time, or sent no usable resource.
        """
        self._find_connection(server)
        return await self._loop.run(self._read_resource(server, uri, configurable))

    async def _read_resource(self, server: str, uri: "AnyUrl", configurable: Mapping[str, Any]) -> "ReadResourceResult":
        with self._callers.sessions[server].acquire(configurable) as connection:
            return _redact_result(connection, str(uri), await connection.read_resource(uri))

    def ready_servers(self) -> list[str]:
        """Return the names of the servers that are ready for calls; cheaper than `health`."""
        return [name for name, each in self._connections.items() if each.status.state == "ready"]

    def health(self) -> dict[str, ServerHealth]:
        """Return the state of every server, in configuration order (T-06)."""
        return {name: self._health(name) for name in self._connections}

    def servers_refusing_calls(self) -> list[str]:
        """Return the names of the servers whose breaker refuses calls now: it is OPEN, or its probe is in flight."""
        return [name for name, each in self._connections.items() if each.breaker.refuses_calls]

    def summaries(self) -> list[ServerSummary]:
        """Return a summary of every server, in configuration order."""
        return [server_summary(each.config, self._health(name)) for name, each in self._connections.items()]

    def details(self, name: str) -> ServerDetails | None:
        """Return all details of one server, without secrets; None if the name is unknown."""
        connection = self._connections.get(name)
        if connection is None:
            return None
        tools, errors = self._registry.tools_by_server.get(name, {}), connection.status.errors
        return server_details(
            connection.config,
            self._health(name),
            tools,
            self.metrics.for_server(name),
            errors,
            connection.failed_connects,
            connection.redaction,
        )

    async def reconnect(self, name: str) -> ServerHealth:
        """Reconnect a server now and return its health after that.

        Raises:
            ServerUnavailable: the server is unknown, or the plane is closed.
        """
        await self._loop.run(self._reconnect(self._find_connection(name)))
        return self._health(name)

    def start(self) -> None:
        """Start to connect to all servers in parallel."""
        for connection in self._connections.values():
            connection.start()

    async def stop(self) -> None:
        """Close all connections in parallel, within a time limit; active calls fail, later calls are refused."""
        self._closed = True
        self._loop.close()
        await asyncio.gather(self._callers.stop(), *(connection.stop() for connection in self._connections.values()))
        await self._loop.drain(DRAIN_TIMEOUT_S)

    def _find_connection(self, name: str) -> ServerConnection:
        if name not in self._connections:
            raise results.server_unusable(name, reason=UNKNOWN_SERVER)
        return self._connections[name]

    async def _reconnect(self, connection: ServerConnection) -> None:
        self._callers.sessions[connection.config.name].close_idle_sessions()
        await connection.reconnect()

    def _select(self, servers: Sequence[str] | None) -> list[ServerConnection]:
        return [each for name, each in self._connections.items() if servers is None or name in servers]

    async def _wait_for_first_connects(self, connections: Sequence[ServerConnection], timeout_s: float) -> None:
        first = [each for each in connections if each.status.state == "connecting" and not each.is_known_down]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(each.status.wait_for_state("ready", "down") for each in first))

    def _on_tools(self, connection: ServerConnection) -> None:
        """Rebuild the offered tools after a server's new list: its names may collide with those of other servers."""
        name = connection.config.name
        listed = Counter(tool.name for tool in connection.tools)
        if repeated := sorted(tool for tool, count in listed.items() if count > 1):
            logger.bind(server=name).warning(
                "MCP server {} lists {} more than once; only the first is used", name, ", ".join(repeated)
            )
        old_tools, old_refusals = self._registry.tools_by_server, self._registry.refusals
        self._registry = build_tool_registry([(each.config, each.tools) for each in self._connections.values()])
        for server, reason in self._registry.refusals.items():
            if old_refusals.get(server) != reason:
                logger.bind(server=server).error("MCP server {} is misconfigured: {}", server, reason)
        self._tools = {
            server: self._tools[server]
            if tools == old_tools.get(server)
            else build_tools(self._connections[server].config, tools, self.call)
            for server, tools in self._registry.tools_by_server.items()
        }
        offered = self._tools.get(name, [])
        logged, status = [tool.name for tool in offered], connection.status
        if self._logged_tools.get(name) == logged and not status.must_log_ready:
            return  # some servers report a change every few seconds
        self._logged_tools[name], status.must_log_ready = logged, False
        names = ", ".join(tool.name for tool in offered[:LOGGED_NAMES]) + (", …" if len(offered) > LOGGED_NAMES else "")
        logger.bind(server=name).info("MCP server {} is ready with {} tools: {}", name, len(offered), names)

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
    observers: Sequence[observability.CallObserver] = (),
    token_place: TokenLocation | None = None,
) -> AsyncIterator[ToolPlane]:
    """Yield a plane for `servers`; when the block ends, close it and end every subprocess (T-09).

    Opening does not wait for servers: a server that does not respond delays nothing and is shown in `health` (A-07).
    The `observers` receive the record of every call that has ended. Without a `token_place`, servers that require a
    user's sign-in stay down.
    """
    plane = ToolPlane(servers, timing, observers, token_place)
    plane.start()
    try:
        yield plane
    finally:
        await plane.stop()
