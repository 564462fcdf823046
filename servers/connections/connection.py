"""Keep one MCP server connected: one owner task opens, watches, leaves and reopens its session (mcp.md section 4)."""

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
from toolweave.servers.connections.context import CallContext, is_doubtful
from toolweave.servers.connections.oauth import TokenPlace
from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.registry import ListedTool
from toolweave.servers.connections.sessions import loading
from toolweave.servers.connections.sessions.link import Link
from toolweave.servers.connections.status import Pace, ServerState, ServerStatus

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from toolweave.servers.connections.oauth.authorization import ServerAuthorization
    from toolweave.servers.connections.sessions.session import McpSession


T = TypeVar("T")

LATE_CALLS = 3
FORCED_ROUNDS = 4
FORCED_ROUND_S = 0.5
RENEWAL = "a reconnect was asked for"


class Backoff:
    """Count what went wrong in a row and answer with the next delay.

    Delays are `pace.reconnect_s` with up to a fifth of jitter taken off. A command that ended by itself
    `pace.exits_before_rest` times in a row rests `pace.rest_s` each time after that.
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._failures = 0
        self._quick_exits = 0

    @property
    def is_resting(self) -> bool:
        """Return whether the command ended by itself so often that nothing but time or an operator helps."""
        return self._quick_exits >= self._pace.exits_before_rest

    def reset(self) -> None:
        """Forget all failures: the connection was up, or an operator asks for it."""
        self._failures = 0
        self._quick_exits = 0

    def next_delay(self, *, exited: bool) -> float:
        """Return the delay in seconds after one more failure.

        Args:
            exited: the server's own process ended, as opposed to not answering.
        """
        self._quick_exits = self._quick_exits + 1 if exited else 0
        if self.is_resting:
            return self._pace.rest_s
        step = min(self._failures, len(self._pace.reconnect_s) - 1)
        self._failures += 1
        return self._pace.reconnect_s[step] * random.uniform(0.8, 1.0)  # noqa: S311 - spreads load, guards nothing


class ServerConnection:
    """One configured server, held connected from `start` to `stop`.

    Callers never touch a session: `call` is one attempt, raced against the loss of the connection and the deadline.
    `call.carry_out` has the policies of retry and breaker. `tools` keeps the last known list while the server is down;
    only a `ready` server offers it. Everything here runs on the event loop that called `start`.

    Args:
        config: the server.
        pace: how patient to be.
        on_tools: called whenever the tool list was read anew.
        shared: for the session of a single caller, the one of everybody, whose limits and tool list it begins with.
        token_place: where the tokens of signed-in servers are kept.
    """

    def __init__(
        self,
        config: McpServerConfig,
        pace: Pace,
        on_tools: Callable[["ServerConnection"], None],
        *,
        shared: "ServerConnection | None" = None,
        token_place: TokenPlace | None = None,
    ) -> None:
        self.config = config
        label = f"{config.name} (session of a caller)" if shared else config.name
        self.redaction = Redaction(config)
        self.status = ServerStatus(config.name, _first_state(config), config.misconfigured, shown_as=label)
        self.breaker = Breaker(label, config.breaker, pace.clock)
        self.closing = asyncio.Event()
        self.tools: tuple[ListedTool, ...] = shared.tools if shared else ()
        self.is_declined = False
        self._is_callers = shared is not None
        self.pace = pace
        self.token_place: TokenPlace | None = shared.token_place if shared else token_place
        self._authorization: ServerAuthorization | None = None
        self._specs: dict[str, ListedTool] = {spec.name: spec for spec in reversed(self.tools)}
        self._on_tools = on_tools
        self._backoff = Backoff(pace)
        self._owner: asyncio.Task[None] | None = None
        self._link = Link(config.name, self.redaction)
        self._session: McpSession | None = None
        self.is_known_down = False
        """The newest attempt to connect failed: calls are then refused instead of waiting (D-5)."""
        self._failed_connects = 0
        self._hurry = asyncio.Event()
        self._connecting = False
        self._renewing = False
        limit = config.max_concurrency
        own_slots = asyncio.Semaphore(limit) if limit else contextlib.nullcontext()
        self.slots: AbstractAsyncContextManager[None] = shared.slots if shared else own_slots

    @property
    def needs_caller(self) -> bool:
        """Return whether it is called with headers of its callers only, so that this session just looks what it has."""
        return any(template.needs_caller for template in self.config.caller_headers.values())

    @property
    def _is_up(self) -> bool:
        return self._session is not None and not self._session.link.is_lost

    @property
    def is_wanted(self) -> bool:
        """Return whether the server is kept connected: it is enabled, configured well, and not being left."""
        return self._owner is not None and not self.closing.is_set()

    def spec(self, tool: str) -> ListedTool | None:
        """Return a tool by its server's own name for it; of tools with the same name the first one counts."""
        return self._specs.get(tool)

    def start(self) -> None:
        """Begin to connect; a disabled or misconfigured server is left alone."""
        if self.status.state == "connecting":
            self._owner = asyncio.create_task(self._own(), name=f"mcp:{self.config.name}")

    async def stop(self) -> None:
        """Leave the session and end the server's process: gracefully, and by force when that takes too long."""
        if self._owner is None:
            return
        self.closing.set()
        self._hurry.set()
        self.status.close()
        self._link.lose("the tool plane is closing")
        if self._session is None and self.config.command is None:
            # Connecting to a frozen server ends no sooner; a child being spawned must not be left half-way like this.
            self._owner.cancel()
        limit_s = self.pace.leave_s
        for _ in range(1 + FORCED_ROUNDS):
            _, late = await asyncio.wait({self._owner}, timeout=limit_s)
            if not late:
                return
            # Each cancellation breaks off a wait of the SDK's on its way out, the last of which kills the process.
            self._owner.cancel()
            limit_s = FORCED_ROUND_S

    async def reconnect(self) -> None:
        """Drop the session, the attempt or the back-off, connect anew and return when that worked or failed."""
        if self._owner is None or self.closing.is_set():
            return
        self._renewing = True
        self._hurry.set()
        self._backoff.reset()
        if self._authorization is not None:
            self._authorization.retry()
        self.status.set("connecting")
        self._link.lose(RENEWAL)
        await self.status.wait_for("ready", "down")

    async def ping(self) -> None:
        """Ask the server for a sign of life, within its deadline.

        Raises:
            ServerUnavailable: it is not connected, or was lost meanwhile.
            TimeoutError: the deadline passed.
        """
        if self._session is None:
            raise results.unavailable(self.config.name)
        async with asyncio.timeout(self.config.timeout_s):
            await self._session.link.race(self._session.ping())

    async def call(
        self, tool: str, arguments: dict[str, Any], context: CallContext, *, again: bool = False
    ) -> "CallToolResult":
        """Attempt one call within the server's deadline; waiting for the connection and a free slot counts (D-5).

        Args:
            tool: the server's own name for it.
            arguments: what it is given.
            context: who calls.
            again: a former attempt failed, so that a server which is down is waited for a little.

        Raises:
            CallRefused: the server is known to be down.
            ServerUnavailable: it could not be reached, or the connection broke before it answered.
            ToolTimeout: the deadline passed; the server was sent a cancellation.
            ToolProtocolError: the answer is not MCP.
        """
        link: Link | None = None
        limit_s = self.config.timeout_s
        try:
            async with asyncio.timeout(limit_s), self.slots:
                session = await (self._reconnected(tool) if again else self._connected(tool))
                async with session.turn():
                    link = session.link
                    result = await link.race(session.call(tool, arguments, context))
                spec = self.spec(tool)
                if not (is_doubtful(result) and spec is not None and spec.may_be_repeated):
                    return result
                async with session.turn():  # Alone this time, so that a question is known to be this call's (S-07).
                    return await link.race(session.call(tool, arguments, context))
        except TimeoutError as error:
            if link is None:
                raise results.never_sent(self.config.name, tool, limit_s=limit_s) from error
            link.note_overdue(max(LATE_CALLS, self.config.breaker.failures))
            raise results.too_slow(self.config.name, tool, limit_s=limit_s) from error

    async def _connected(self, tool: str) -> "McpSession":
        while self._session is None or self._session.link.is_lost:
            self._check_wanted(tool)
            if self.is_declined:
                raise results.unauthorized(self.config.name, tool)
            if self.is_known_down:
                raise results.refused(self.config.name, tool)
            await self.status.change()
        return self._session

    async def _reconnected(self, tool: str) -> "McpSession":
        """Have the owner connect now rather than later, and wait for how that goes, or `retry_connect_s`."""
        if not (self._connecting or self._backoff.is_resting or self._is_up):
            self._hurry.set()
        failures = self._failed_connects
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.pace.retry_connect_s):
                while not self._is_up:
                    self._check_wanted(tool)
                    if self._backoff.is_resting or self._failed_connects > failures:
                        break
                    await self.status.change()
        if self._session is None or self._session.link.is_lost:
            raise results.unavailable(self.config.name, tool)
        return self._session

    def _check_wanted(self, tool: str) -> None:
        if self.closing.is_set():
            raise results.closing(self.config.name, tool)
        if not self.is_wanted:
            raise results.unusable(self.config.name, tool, reason=f"it is {self.status.state}.")

    async def _own(self) -> None:
        await asyncio.to_thread(loading.load)
        async with loading.open_authorization(self.config, self.token_place, self.redaction.add) as self._authorization:
            # The flag beside the cancellation is needed: the SDK's cancel scopes can swallow one that comes as they
            # close.
            while not self.closing.is_set():
                await self._connect_once()

    async def _connect_once(self) -> None:
        """Hold one session, or fail to open it, and wait until it is time for the next."""
        self._link = Link(self.config.name, self.redaction, self._authorization)
        self._link.when_lost(self._note_failed_connect)
        self._connecting = True
        delay = await self._hold_session(self._link)
        self._connecting = False
        if self._backoff.is_resting and not (self._renewing or self.closing.is_set()):
            self._hurry.clear()  # a caller asked meanwhile, to no avail
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._hurry.wait()
        self._hurry.clear()
        self._renewing = False

    async def _hold_session(self, link: Link) -> float:
        """Open a session within `pace.connect_s`, offer it, watch it until it is lost, leave it within `pace.leave_s`.

        Returns how long to wait before the next.

        Losing `link` ends it in good order at any time. A failing transport cancels this task from inside the SDK;
        that, unlike a cancellation from outside, is an ending.
        """
        loop, pace = asyncio.get_running_loop(), self.pace
        patience = asyncio.timeout(pace.connect_s)
        ready_at = lost_at = None
        try:
            async with patience, loading.open_session(self.config, link) as session:
                try:
                    tools = await link.race(session.list_tools())
                    patience.reschedule(None)
                    ready_at = loop.time()
                    self._offer(session, tools)
                    await self._watch(session)
                finally:
                    link.lose()
                    lost_at = loop.time()
                    # Before the time it takes to leave it.
                    self._withdraw(link.why_lost or "the transport failed")
                    if not patience.expired():
                        patience.reschedule(lost_at + pace.leave_s)
        except (Exception, BaseExceptionGroup, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                # Cancelled from outside: a failure meanwhile is not reported.
                raise asyncio.CancelledError from error
        finally:
            link.lose()
            await link.drain()
        ready_s = None if ready_at is None or lost_at is None else lost_at - ready_at
        late = ready_s is None and patience.expired()
        reason = f"it did not get ready within {pace.connect_s:g} s" if late else link.why_lost
        if link.last_words and (ready_s or 0.0) < pace.steady_s:
            reason = f"{reason}; it wrote: {link.last_words}"
        self.is_declined = ready_s is None and link.declined
        return self._after(reason, ready_s, exited=(self.config.transport == "stdio" or link.exited) and not late)

    async def _watch(self, session: "McpSession") -> None:
        """Return when the session is lost, by whichever sign; never because of a tool that is merely slow.

        It is pinged when it is quiet or suspected, and lists its tools when they change.
        """
        link, pace = session.link, self.pace
        quiet_s = pace.ping_local_s if self.config.transport == "stdio" else pace.ping_remote_s
        while True:
            await link.disturbance(quiet_s)
            if link.is_lost:
                return
            busy_s = self.config.timeout_s if session.is_busy else 0.0
            if not (link.tools_changed or link.deaf):
                await _answer(link, session.ping(), max(pace.ping_limit_s, busy_s), "answer a ping")
                continue
            link.tools_changed = False
            tools = await _answer(link, session.list_tools(), max(pace.list_s, busy_s), "list its tools")
            if tools is not None:
                self._refresh(tools)
                # A server that announces a change with every list would otherwise keep us listing without end.
                await asyncio.sleep(pace.refresh_pause_s)

    def _note_failed_connect(self, link: Link) -> None:
        """Refuse calls as soon as it is known that there will be no session; its process may take long to go."""
        if link is self._link and self._connecting and not (self._renewing or self.closing.is_set()):
            self.is_declined = link.declined
            self._count_failed_connect()
            self.status.wake()

    def _count_failed_connect(self) -> None:
        self._connecting = False
        self.is_known_down = True
        self._failed_connects += 1

    def _after(self, reason: str, ready_s: float | None, *, exited: bool) -> float:
        """Record how a session ended; return how long to wait before the next.

        Args:
            reason: why it ended.
            ready_s: for how long it had been ready; None: never.
            exited: the child ended it.
        """
        if ready_s is None and self._connecting:
            self._count_failed_connect()
        lasted = (ready_s or 0.0) >= self.pace.steady_s
        if lasted:
            self._backoff.reset()
        if self.is_declined and self.needs_caller and not self.closing.is_set():
            # As ready as it can be without a caller: each of them has a session of their own.
            self.status.set("ready", f"it is open to signed-in callers only: {self.redaction.clean(reason)}")
            return self.pace.rest_s
        self._show_down(reason)
        if self.is_declined and self._is_callers:
            return self.pace.rest_s
        return self._backoff.next_delay(exited=exited and not lasted)

    def _offer(self, session: "McpSession", tools: tuple[ListedTool, ...]) -> None:
        self._session = session
        self._connecting = False
        self.is_known_down = False
        self.is_declined = False
        self.breaker.reconnected()
        self.status.set("ready")
        self._refresh(tools)

    def _refresh(self, tools: tuple[ListedTool, ...]) -> None:
        self.tools = tools
        self._specs = {spec.name: spec for spec in reversed(tools)}
        self._on_tools(self)
        self.status.wake()

    def _withdraw(self, reason: str) -> None:
        if self._session:
            self._session = None
            self._show_down(reason)

    def _show_down(self, reason: str) -> None:
        if not self.closing.is_set():
            fault = None if reason == RENEWAL else self.redaction.clean(reason)
            self.status.set("connecting" if self._renewing else "down", fault)


async def _answer(link: Link, request: Coroutine[Any, Any, T], limit_s: float, what: str) -> T | None:
    """Await the answer to a request of the owner's; the session is lost if it fails or takes too long."""
    try:
        async with asyncio.timeout(limit_s):
            answer = await link.race(request)
    except TimeoutError:
        link.lose(f"it did not {what} within {limit_s:g} s")
    except ToolError as error:
        link.lose(str(error))
    else:
        link.heard()
        return answer
    return None


def _first_state(config: McpServerConfig) -> ServerState:
    if not config.enabled:
        return "disabled"
    return "misconfigured" if config.misconfigured else "connecting"
