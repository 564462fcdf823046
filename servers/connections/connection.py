"""Keep one MCP server connected: a supervisor task opens, monitors and reopens its session (mcp.md section 4)."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from toolweave.config.mcp import McpServerConfig
from toolweave.errors import ToolError
from toolweave.servers.connections import results
from toolweave.servers.connections.breaker import Breaker
from toolweave.servers.connections.context import CallContext, has_unclear_question
from toolweave.servers.connections.oauth import TokenLocation
from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.registry import ListedTool
from toolweave.servers.connections.sessions import loading
from toolweave.servers.connections.sessions.monitor import SessionMonitor
from toolweave.servers.connections.status import LAST_OUTPUT, ServerState, ServerStatus, Timing

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ReadResourceResult
    from pydantic import AnyUrl

    from toolweave.servers.connections.oauth.authorization import ServerAuthorization
    from toolweave.servers.connections.sessions.session import McpSession


T = TypeVar("T")

CONSECUTIVE_TIMEOUT_LIMIT = 3
FORCED_STOP_ATTEMPTS = 4
FORCED_STOP_TIMEOUT_S = 0.5
RECONNECT_REASON = "a reconnect was requested"


class Backoff:
    """Compute the delay before the next connection from the number of consecutive failures.

    The delays are `Timing.reconnect_delays_s`, reduced by up to a fifth at random. When the server's command has exited
    `max_quick_exits` times in a row, every further delay is `long_delay_s`.
    """

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._failures = 0
        self._quick_exits = 0

    @property
    def is_crash_looping(self) -> bool:
        """Return whether the server's command has exited so often that each delay is `long_delay_s`."""
        return self._quick_exits >= self._timing.max_quick_exits

    def reset(self) -> None:
        """Reset the failure counts: a session was stable, or an operator requested a reconnect."""
        self._failures = 0
        self._quick_exits = 0

    def next_delay(self, *, exited: bool) -> float:
        """Return the delay in seconds after one more failure.

        Args:
            exited: the server's process exited; False if it ran but did not respond.
        """
        self._quick_exits = self._quick_exits + 1 if exited else 0
        if self.is_crash_looping:
            return self._timing.long_delay_s
        index = min(self._failures, len(self._timing.reconnect_delays_s) - 1)
        self._failures += 1
        return self._timing.reconnect_delays_s[index] * random.uniform(0.8, 1.0)  # noqa: S311 - spreads load, guards nothing


class ServerConnection:
    """The connection to one configured server, kept open from `start` to `stop`.

    Sessions are private: `call` makes one attempt, which ends at its deadline or when the connection is lost.
    `call.execute_call` applies retries and the breaker. While the server is down, `tools` is the last known list; the
    plane offers the tools of `ready` servers only. All methods run on the event loop that called `start`.

    Args:
        config: the server's configuration.
        timing: timeouts, intervals and delays.
        on_tools: called when the tool list was received.
        shared: for a caller's session, the shared connection: this one uses its call slots and starts with its tools.
        token_place: the storage of OAuth tokens.
    """

    def __init__(
        self,
        config: McpServerConfig,
        timing: Timing,
        on_tools: Callable[["ServerConnection"], None],
        *,
        shared: "ServerConnection | None" = None,
        token_place: TokenLocation | None = None,
    ) -> None:
        self.config = config
        label = f"{config.name} (session of a caller)" if shared else config.name
        self.redaction = Redaction(config)
        self.status = ServerStatus(config.name, _initial_state(config), config.misconfigured, label)
        self.breaker = Breaker(label, config.breaker, timing.clock)
        self.closing = asyncio.Event()
        self.tools: tuple[ListedTool, ...] = shared.tools if shared else ()
        self.is_unauthorized = False
        self._is_caller_session = shared is not None
        self.timing = timing
        self.token_place: TokenLocation | None = shared.token_place if shared else token_place
        self._authorization: ServerAuthorization | None = None
        self._tools_by_name: dict[str, ListedTool] = {spec.name: spec for spec in reversed(self.tools)}
        self._on_tools = on_tools
        self._backoff = Backoff(timing)
        self._supervisor: asyncio.Task[None] | None = None
        self._monitor = SessionMonitor(config.name, self.redaction)
        self._session: McpSession | None = None
        self.is_known_down = False
        """Whether the newest attempt to connect failed; calls are then refused immediately (D-5)."""
        self.failed_connects = 0
        self._connect_now = asyncio.Event()
        self._is_connecting = False
        self._is_reconnecting = False
        limit = config.max_concurrency
        own_call_slots = asyncio.Semaphore(limit) if limit else contextlib.nullcontext()
        self.call_slots: AbstractAsyncContextManager[None] = shared.call_slots if shared else own_call_slots

    @property
    def needs_caller(self) -> bool:
        """Return whether calls need headers of a caller, so that the shared session only lists the tools."""
        return any(template.needs_caller for template in self.config.caller_headers.values())

    @property
    def _is_connected(self) -> bool:
        return self._session is not None and not self._session.monitor.is_lost

    @property
    def is_active(self) -> bool:
        """Return whether this connection is started and not stopped; the server may be down. Never true if disabled."""
        return self._supervisor is not None and not self.closing.is_set()

    def find_tool(self, tool: str) -> ListedTool | None:
        """Return the tool with this name in the server's list, the first of several; None if there is none."""
        return self._tools_by_name.get(tool)

    def start(self) -> None:
        """Start to connect, unless the server is disabled or misconfigured."""
        if self.status.state == "connecting":
            self._is_connecting = True
            self._supervisor = asyncio.create_task(self._supervise(), name=f"mcp:{self.config.name}")

    async def stop(self) -> None:
        """Close the session and end the server's process; by force if that takes longer than `close_timeout_s`."""
        if self._supervisor is None:
            return
        self.closing.set()
        self._connect_now.set()
        self.status.set_closed()
        self._monitor.mark_lost("the tool plane is closing")
        if self._is_connecting and self.config.command is None:
            # Only cancellation ends a connect to a frozen server. For a command it could leave the process running.
            self._supervisor.cancel()
        limit_s = self.timing.close_timeout_s
        for _ in range(1 + FORCED_STOP_ATTEMPTS):
            _, pending = await asyncio.wait({self._supervisor}, timeout=limit_s)
            if not pending:
                return
            # Each cancellation ends one wait of the SDK's shutdown; after the last wait it kills the process.
            self._supervisor.cancel()
            limit_s = FORCED_STOP_TIMEOUT_S

    async def reconnect(self) -> None:
        """Close the session, attempt or delay in progress, connect again, and return when that succeeded or failed."""
        if self._supervisor is None or self.closing.is_set():
            return
        self._is_reconnecting = True
        self._connect_now.set()
        self._backoff.reset()
        if self._authorization is not None:
            self._authorization.discard_cached_token()
        self.status.set_state("connecting")
        self._monitor.mark_lost(RECONNECT_REASON)
        await self.status.wait_for_state("ready", "down")

    async def call(
        self, tool: str, arguments: dict[str, Any], context: CallContext, *, is_retry: bool = False
    ) -> "CallToolResult":
        """Make one attempt of a call within `timeout_s`, including the wait for a connection and a free slot (D-5).

        Args:
            tool: the tool's name in the server's own list.
            arguments: the arguments of the call.
            context: the caller and options of the call.
            is_retry: an earlier attempt failed; a server that is down gets `retry_connect_timeout_s` to reconnect.

        Raises:
            CallRefused: the server is known to be down.
            ServerUnavailable: the server could not be reached, or the connection was lost before it responded.
            ToolTimeout: the deadline passed; the server was sent a cancellation.
            ToolProtocolError: the response is not valid MCP.
        """
        monitor: SessionMonitor | None = None
        limit_s = self.config.timeout_s
        try:
            async with asyncio.timeout(limit_s), self.call_slots:
                session = await (self._wait_for_reconnect(tool) if is_retry else self._wait_for_session(tool))
                async with session.call_slot():
                    monitor = session.monitor
                    result = await monitor.run_until_lost(session.call_tool(tool, arguments, context))
                spec = self.find_tool(tool)
                if not (has_unclear_question(result) and spec is not None and spec.is_safe_to_repeat):
                    return result
                async with session.call_slot():  # Now the only open call: all questions belong to it (S-07).
                    return await monitor.run_until_lost(session.call_tool(tool, arguments, context))
        except TimeoutError as error:
            if monitor is None:
                raise results.send_timeout(self.config.name, tool, limit_s=limit_s) from error
            monitor.record_overdue_call(max(CONSECUTIVE_TIMEOUT_LIMIT, self.config.breaker.failures))
            raise results.call_timeout(self.config.name, tool, limit_s=limit_s) from error

    async def read_resource(self, uri: "AnyUrl") -> "ReadResourceResult":
        """Read a resource within `timeout_s`, including the wait for a connection and a free slot.

        Raises:
            ToolError: the server is down, did not answer in time, or sent no usable resource.
        """
        limit_s = self.config.timeout_s
        try:
            async with asyncio.timeout(limit_s), self.call_slots:
                session = await self._wait_for_session(str(uri))
                return await session.monitor.run_until_lost(session.read_resource(uri))
        except TimeoutError as error:
            raise results.read_timeout(self.config.name, str(uri), limit_s=limit_s) from error

    async def _wait_for_session(self, tool: str) -> "McpSession":
        while self._session is None or self._session.monitor.is_lost:
            self._check_active(tool)
            if self.is_unauthorized:
                raise results.credentials_rejected(self.config.name, tool)
            if self.is_known_down:
                raise results.temporarily_unavailable(self.config.name, tool)
            await self.status.wait_for_change()
        return self._session

    async def _wait_for_reconnect(self, tool: str) -> "McpSession":
        """Make the supervisor connect now; wait for the result at most `retry_connect_timeout_s`."""
        if not (self._is_connecting or self._backoff.is_crash_looping or self._is_connected):
            self._connect_now.set()
        failures = self.failed_connects
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.timing.retry_connect_timeout_s):
                while not self._is_connected:
                    self._check_active(tool)
                    if self._backoff.is_crash_looping or self.failed_connects > failures:
                        break
                    await self.status.wait_for_change()
        if self._session is None or self._session.monitor.is_lost:
            raise results.unavailable(self.config.name, tool)
        return self._session

    def _check_active(self, tool: str) -> None:
        if self.closing.is_set():
            raise results.connection_closing(self.config.name, tool)
        if not self.is_active:
            raise results.server_unusable(self.config.name, tool, reason=f"it is {self.status.state}.")

    async def _supervise(self) -> None:
        await asyncio.to_thread(loading.load_mcp)
        async with loading.open_authorization(self.config, self.token_place, self.redaction.add) as self._authorization:
            # Cancellation alone is not enough: the SDK's cancel scopes can swallow one that arrives while they close.
            while not self.closing.is_set():
                await self._connect_once()

    async def _connect_once(self) -> None:
        """Run one session, or fail to open it, and wait for the delay before the next one."""
        self._monitor = SessionMonitor(self.config.name, self.redaction, self._authorization, self.status.is_failing)
        self._monitor.on_lost(self._on_failed_connect)
        self._is_connecting = True
        delay = await self._run_session(self._monitor)
        self._is_connecting = False
        if self._backoff.is_crash_looping and not (self._is_reconnecting or self.closing.is_set()):
            self._connect_now.clear()  # ignore reconnects that callers requested: the command exits each time
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._connect_now.wait()
        self._connect_now.clear()
        self._is_reconnecting = False

    async def _run_session(self, monitor: SessionMonitor) -> float:
        """Open a session, monitor it until it is lost, close it, and return the delay before the next one in seconds.

        Opening takes at most `connect_timeout_s`, closing at most `close_timeout_s`. Losing `link` closes the session
        in order at any time. A transport that fails cancels this task from inside the SDK: that ends the session only,
        unlike a cancellation from outside.
        """
        loop, timing = asyncio.get_running_loop(), self.timing
        time_limit = asyncio.timeout(timing.connect_timeout_s)
        ready_at = lost_at = None
        try:
            async with time_limit, loading.open_session(self.config, monitor) as session:
                try:
                    tools = await monitor.run_until_lost(session.list_tools())
                    time_limit.reschedule(None)
                    ready_at = loop.time()
                    self._on_session_ready(session, tools)
                    await self._monitor_session(session)
                finally:
                    monitor.mark_lost()
                    lost_at = loop.time()
                    # Before closing, which takes time.
                    self._drop_session(monitor.loss_reason or "the transport failed")
                    if not time_limit.expired():
                        time_limit.reschedule(lost_at + timing.close_timeout_s)
        except (Exception, BaseExceptionGroup, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                # Cancelled from outside: an error during the shutdown is not reported.
                raise asyncio.CancelledError from error
        finally:
            monitor.mark_lost()
            await monitor.cancel_tasks()
        ready_s = None if ready_at is None or lost_at is None else lost_at - ready_at
        timed_out = ready_s is None and time_limit.expired()
        reason = f"it was not ready within {timing.connect_timeout_s:g} s" if timed_out else monitor.loss_reason
        if monitor.stderr_tail and (ready_s or 0.0) < timing.stable_s:
            reason = f"{reason}{LAST_OUTPUT}{monitor.stderr_tail}"
        self.is_unauthorized = ready_s is None and monitor.is_rejected
        return self._on_end(
            reason, ready_s, exited=(self.config.transport == "stdio" or monitor.exited) and not timed_out
        )

    async def _monitor_session(self, session: "McpSession") -> None:
        """Ping the server and refresh its tools until the session is lost; a slow tool alone does not end it.

        A ping is sent when no message arrived for the ping interval, or when the session may be broken. The tools are
        listed again when they change.
        """
        monitor, timing = session.monitor, self.timing
        quiet_s = timing.local_ping_interval_s if self.config.transport == "stdio" else timing.remote_ping_interval_s
        while True:
            await monitor.wait_for_event(quiet_s)
            if monitor.is_lost:
                return
            busy_s = self.config.timeout_s if session.is_busy else 0.0
            if not (monitor.tools_changed or monitor.must_poll_tools):
                await _try_request(monitor, session.ping(), max(timing.ping_timeout_s, busy_s), "answer a ping")
                continue
            monitor.tools_changed = False
            tools = await _try_request(
                monitor, session.list_tools(), max(timing.list_timeout_s, busy_s), "list its tools"
            )
            if tools is not None:
                self._update_tools(tools)
                # A server that reports a change after every list would otherwise cause an endless loop.
                await asyncio.sleep(timing.relist_delay_s)

    def _on_failed_connect(self, monitor: SessionMonitor) -> None:
        """Refuse calls as soon as the attempt has failed; the server's process may take long to exit."""
        if monitor is self._monitor and self._is_connecting and not (self._is_reconnecting or self.closing.is_set()):
            self.is_unauthorized = monitor.is_rejected
            self._count_failed_connect()
            self.status.notify_waiters()

    def _count_failed_connect(self) -> None:
        self._is_connecting = False
        self.is_known_down = True
        self.failed_connects += 1

    def _on_end(self, reason: str, ready_s: float | None, *, exited: bool) -> float:
        """Record the end of a session; return the delay before the next one in seconds.

        Args:
            reason: why the session ended.
            ready_s: for how many seconds it was ready; None if it never was.
            exited: the server's process exited.
        """
        if ready_s is None and self._is_connecting:
            self._count_failed_connect()
        was_stable = (ready_s or 0.0) >= self.timing.stable_s
        if was_stable:
            self._backoff.reset()
        if self.is_unauthorized and self.needs_caller and not self.closing.is_set():
            # Without a caller the server rejects the shared session; each caller has its own.
            self.status.set_state("ready", f"it accepts signed-in callers only: {self.redaction.sanitize(reason)}")
            return self.timing.long_delay_s
        self._set_down(reason)
        if self.is_unauthorized and self._is_caller_session:
            return self.timing.long_delay_s
        return self._backoff.next_delay(exited=exited and not was_stable)

    def _on_session_ready(self, session: "McpSession", tools: tuple[ListedTool, ...]) -> None:
        self._session = session
        self._is_connecting = False
        self.is_known_down = False
        session.monitor.is_ready = True
        self.is_unauthorized = False
        self.breaker.on_reconnect()
        self.status.set_state("ready")
        self._update_tools(tools)

    def _update_tools(self, tools: tuple[ListedTool, ...]) -> None:
        self.tools = tools
        self._tools_by_name = {spec.name: spec for spec in reversed(tools)}
        self._on_tools(self)
        self.status.notify_waiters()

    def _drop_session(self, reason: str) -> None:
        if self._session:
            self._session = None
            self._set_down(reason)

    def _set_down(self, reason: str) -> None:
        if not self.closing.is_set():
            error = None if reason == RECONNECT_REASON else self.redaction.sanitize(reason)
            self.status.set_state("connecting" if self._is_reconnecting else "down", error)


async def _try_request(
    monitor: SessionMonitor, request: Coroutine[Any, Any, T], limit_s: float, action: str
) -> T | None:
    """Return the response to a request of the supervisor, or None: a failure or timeout ends the session."""
    try:
        async with asyncio.timeout(limit_s):
            answer = await monitor.run_until_lost(request)
    except TimeoutError:
        monitor.mark_lost(f"it did not {action} within {limit_s:g} s")
    except ToolError as error:
        monitor.mark_lost(str(error))
    else:
        monitor.record_response()
        return answer
    return None


def _initial_state(config: McpServerConfig) -> ServerState:
    if not config.enabled:
        return "disabled"
    return "misconfigured" if config.misconfigured else "connecting"
