"""Hold the state of one server and wake whoever waits for another one."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, NotRequired

from loguru import logger
from typing_extensions import TypedDict

from toolweave.servers.connections.breaker import BreakerState
from toolweave.servers.connections.observation import Latency

ServerState = Literal["connecting", "ready", "down", "misconfigured", "disabled"]


class LatencyMs(TypedDict):
    """How long the newest successful calls of a server took, in milliseconds: half of them, and 99 of 100, at most."""

    p50: float
    p99: float


class ServerHealth(TypedDict):
    """What /health says of one server; `tools` counts what it offers right now, `since` is when `state` began.

    `connecting` is the first attempt only: a server that was lost is `down` until it is back. `breaker` says whether
    calls to it are let through. `latency_ms` is there once a call has succeeded.
    """

    state: ServerState
    breaker: BreakerState
    tools: int
    last_error: str | None
    since: str
    latency_ms: NotRequired[LatencyMs]


def latency_ms(latency: Latency) -> LatencyMs:
    """Write a latency as /health shows it."""
    return LatencyMs(p50=latency.p50, p99=latency.p99)


KEPT_ERRORS = 10


class ServerStatus:
    """The state of one server, since when, and the last errors; every change is logged."""

    def __init__(
        self, server: str, state: ServerState, last_error: str | None = None, *, shown_as: str | None = None
    ) -> None:
        self._log = logger.bind(server=server)
        self._server = shown_as or server
        self.state: ServerState = state
        self.last_error = last_error
        self.errors: deque[tuple[datetime, str]] = deque(maxlen=KEPT_ERRORS)
        self.since = datetime.now(UTC)
        self._changed = asyncio.Event()

    def set(self, state: ServerState, last_error: str | None = None) -> None:
        """Enter `state`; without a new error the last one stays to be read."""
        news = (state, last_error) != (self.state, self.last_error)
        if state != self.state:
            self.since = datetime.now(UTC)
        self.state = state
        self.last_error = last_error or self.last_error
        if news and last_error:
            self.errors.append((datetime.now(UTC), last_error))
        if news and state == "down":
            self._log.warning("MCP server {} is down: {}", self._server, self.last_error)
        self.wake()

    def close(self) -> None:
        """Enter `down` because it is wanted, which is no news."""
        self.state = "down"
        self.since = datetime.now(UTC)
        self.wake()

    async def change(self) -> None:
        """Return at the next `set` or `wake`."""
        await self._changed.wait()

    async def wait_for(self, *states: ServerState) -> None:
        """Return once the state is one of `states`."""
        while self.state not in states:
            await self.change()

    def wake(self) -> None:
        """Tell whoever waits for a `change` that there is one, such as new tools."""
        self._changed.set()
        self._changed = asyncio.Event()


@dataclass(frozen=True, slots=True)
class Pace:
    """Hold the plane's waiting times, in seconds; tests pass shorter ones.

    A dead stdio child is noticed by its end of file, so its ping only finds a child that hangs; a remote server is
    noticed by the ping itself (T-06: a dead one within 3 s). A ping that finds calls in flight waits as long as a
    call may: a server that is merely busy is not restarted. `reconnect_s` repeats its last delay (D-6).
    `retry_s` are the pauses before the second and each later attempt of a call, each of which then waits up to
    `retry_connect_s` for a connection: exhausted retries end after 7 s and little more (D-5). `clock` is what
    breakers and retries go by, `sleep` makes the pauses.
    """

    connect_s: float = 15.0
    list_s: float = 5.0
    leave_s: float = 6.0
    first_wait_s: float = 2.0
    ping_local_s: float = 5.0
    ping_remote_s: float = 2.0
    ping_limit_s: float = 2.0
    refresh_pause_s: float = 0.25
    reconnect_s: tuple[float, ...] = (0.25, 0.5, 1.0)
    steady_s: float = 1.0
    exits_before_rest: int = 5
    rest_s: float = 30.0
    caller_idle_s: float = 300.0
    caller_sessions: int = 64
    retry_s: tuple[float, ...] = (1.0, 2.0, 4.0)
    retry_connect_s: float = 0.5
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


PACE = Pace()
