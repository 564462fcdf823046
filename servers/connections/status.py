"""The state of one MCP server, the plane's timing, and the server details that operators read (T-06)."""

import asyncio
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NotRequired
from urllib.parse import urlsplit

from loguru import logger
from typing_extensions import TypedDict

from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_entry import Transport
from toolweave.servers.connections.breaker import BreakerState
from toolweave.servers.connections.observability import LatencyMs, ServerCallMetrics, ServerError, ToolCallMetrics
from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.registry import ListedTool, ToolsByName, requires_approval

ServerState = Literal["connecting", "ready", "down", "misconfigured", "disabled"]

MAX_SHOWN_ERRORS = 10
MAX_DESCRIPTION_CHARS = 2_000
LOG_AGAIN_AFTER = timedelta(minutes=1)
"""A server that was ready for so long logs a fault again that it has logged before."""
FAULT_HINTS = (
    (re.compile("working directory .* was not found"), "Correct its `cwd`."),
    (re.compile("was not found"), "Install this program, or correct `command`."),
    (re.compile("may not be executed"), "Make this file executable, or correct `command`."),
    (re.compile("HTTP 40[13]"), 'Correct its `headers`, or write "auth": "oauth" and use `toolweave servers login`.'),
    (re.compile("HTTP 404"), "Correct the path of its `url`."),
    (re.compile("ConnectError|ConnectTimeout"), "Start this server, or correct the host and port of its `url`."),
    (re.compile("was not ready within"), "Start its command in a terminal to see what it waits for."),
)
"""Reasons for which a server is down, and what to do; the first that fits counts."""
UNTRUSTED = re.compile(
    "certificate.verify|self.signed.cert|issuer.cert|leaf.signature|unknown authority", re.IGNORECASE
)
TRUST_HINT = "Set SSL_CERT_FILE (for Node.js NODE_EXTRA_CA_CERTS) to a file with the certificate of its authority."
LAST_OUTPUT = "; its last output: "
"""What follows in a reason is the server's own text."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The plane's timeouts, intervals and delays in seconds, and its limits; tests pass shorter times.

    Pings detect a dead remote server (T-06: within 3 s) and a local one that hangs; a local one that exits is detected
    by the end of its output. While calls are in flight, a ping waits as long as a call, so that a busy server is not
    restarted. The last of `reconnect_delays_s` repeats (D-6). A session of at least `stable_s` resets the delays. After
    `max_quick_exits`, or while credentials are rejected, the delay is `long_delay_s`.

    `retry_delays_s` are the delays before the second and later attempts of a call. Each of these attempts waits up to
    `retry_connect_timeout_s` for a connection, so that retries end after little more than 7 s (D-5). Breakers and
    retries use `clock`, the delays between attempts `sleep`.
    """

    connect_timeout_s: float = 15.0
    list_timeout_s: float = 5.0
    close_timeout_s: float = 6.0
    connect_wait_s: float = 2.0
    local_ping_interval_s: float = 5.0
    remote_ping_interval_s: float = 2.0
    ping_timeout_s: float = 2.0
    relist_delay_s: float = 0.25
    reconnect_delays_s: tuple[float, ...] = (0.25, 0.5, 1.0)
    stable_s: float = 1.0
    max_quick_exits: int = 5
    long_delay_s: float = 30.0
    caller_idle_timeout_s: float = 300.0
    max_caller_sessions: int = 64
    retry_delays_s: tuple[float, ...] = (1.0, 2.0, 4.0)
    retry_connect_timeout_s: float = 0.5
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


DEFAULT_TIMING = Timing()


def fault_hint(reason: str) -> str | None:
    """Return what to do about a server that is down for this reason; None if the reason does not show it."""
    if UNTRUSTED.search(reason):
        return TRUST_HINT
    own_text = reason.partition(LAST_OUTPUT)[0]
    hint = next((hint for pattern, hint in FAULT_HINTS if pattern.search(own_text)), None)
    return None if "servers login" in reason else hint


class ServerStatus:
    """The current state of one server, its start time and the last errors; logs each reason to be down once."""

    def __init__(self, server: str, state: ServerState, last_error: str | None, label: str) -> None:
        self._log = logger.bind(server=server)
        self._server = label
        self.state: ServerState = state
        self.last_error = last_error
        self.errors: deque[ServerError] = deque(maxlen=MAX_SHOWN_ERRORS)
        self.since = datetime.now(UTC)
        self.must_log_ready = True
        """Whether the log must show that the server is ready: its last line about it shows something else."""
        self._logged_faults: deque[str] = deque(maxlen=MAX_SHOWN_ERRORS)
        self._changed = asyncio.Event()

    def set_state(self, state: ServerState, last_error: str | None = None) -> None:
        """Enter `state`; without a new error, `last_error` stays."""
        is_new = (state, last_error) != (self.state, self.last_error)
        if state == "connecting" or self._has_recovered():
            self._logged_faults.clear()
            self.must_log_ready = True
        if state != self.state:
            self.since = datetime.now(UTC)
        self.state = state
        self.last_error = last_error or self.last_error
        if is_new and last_error:
            now = datetime.now(UTC).isoformat()
            self.errors.append(ServerError(time=now, tool=None, outcome="connection", reason=last_error))
        if is_new and state == "down":
            self._log_fault(self.last_error or "")
        self.notify_waiters()

    def set_closed(self) -> None:
        """Enter `down` without an error, because the connection is closed on purpose."""
        self.state = "down"
        self.since = datetime.now(UTC)
        self.notify_waiters()

    def is_failing(self) -> bool:
        """Return whether the server had a fault, and has not been ready for `LOG_AGAIN_AFTER` since."""
        return bool(self._logged_faults) and not self._has_recovered()

    def _has_recovered(self) -> bool:
        return self.state == "ready" and datetime.now(UTC) - self.since > LOG_AGAIN_AFTER

    def _log_fault(self, reason: str) -> None:
        """Log a reason at the first attempt that fails for it; times and ids in it make no difference."""
        fault = re.sub(r"(?<!HTTP )\b[\w-]*\d[\w-]*", "", reason)
        if fault in self._logged_faults:
            return
        self._logged_faults.append(fault)
        self.must_log_ready = True
        hint = fault_hint(reason)
        self._log.warning("MCP server {} is down: {}{}", self._server, reason, f". {hint}" if hint else "")

    async def wait_for_change(self) -> None:
        """Return at the next `set_state` or `notify_waiters`."""
        await self._changed.wait()

    async def wait_for_state(self, *states: ServerState) -> None:
        """Return once the state is one of `states`."""
        while self.state not in states:
            await self.wait_for_change()

    def notify_waiters(self) -> None:
        """Wake all callers of `wait_for_change`, for example after a new tool list."""
        self._changed.set()
        self._changed = asyncio.Event()


class ServerHealth(TypedDict):
    """One server in /health; `tools` is the number of tools it offers now, `since` the start of `state`.

    `connecting` is the first attempt only: a lost server is `down` until it is ready again. `latency_ms` is present
    after the first successful call.
    """

    state: ServerState
    breaker: BreakerState
    tools: int
    last_error: str | None
    since: str
    latency_ms: NotRequired[LatencyMs]


class ServerSummary(ServerHealth):
    """One server in the list of all servers."""

    name: str
    transport: Transport
    enabled: bool


class ToolDetails(TypedDict):
    """One offered tool; `name` is its name for models, `own_name` and `_meta` are those of the server's list."""

    name: str
    own_name: str
    description: str | None
    input_schema: dict[str, Any]
    annotations: dict[str, Any]
    _meta: dict[str, Any] | None
    requires_approval: bool
    calls: int
    failures: int


class Filters(TypedDict):
    """The globs on tool names in the server's list that select the offered tools."""

    include: list[str]
    exclude: list[str]


class BreakerDetails(TypedDict):
    """The number of consecutive failed calls that opens the breaker, and for how many seconds."""

    failures: int
    recovery_s: float


class ServerDetails(ServerSummary):
    """All details of one server, without secrets; `offers` are its tools as last listed, `errors` the newest first.

    `failed_connects` is the number of failed attempts to connect, of which the log shows the first for each reason.
    """

    target: str
    prefix: str
    filters: Filters
    timeout_s: float
    max_concurrency: int | None
    breaker_rules: BreakerDetails
    calls: int
    failures: int
    retries: int
    in_flight: int
    failed_connects: int
    offers: list[ToolDetails]
    errors: list[ServerError]


def server_summary(config: McpServerConfig, health: ServerHealth) -> ServerSummary:
    """Return a server's name, transport and health."""
    return ServerSummary(name=config.name, transport=config.transport, enabled=config.enabled, **health)


def server_details(
    config: McpServerConfig,
    health: ServerHealth,
    tools: ToolsByName,
    metrics: ServerCallMetrics,
    errors: Iterable[ServerError],
    failed_connects: int,
    redaction: Redaction,
) -> ServerDetails:
    """Return all details of a server for its operator."""
    counted = metrics.tools.values()
    return ServerDetails(
        **server_summary(config, health),
        target=server_target(config, redaction),
        prefix=f"{config.name}_" if config.prefix is None else config.prefix,
        filters=Filters(include=list(config.include), exclude=list(config.exclude)),
        timeout_s=config.timeout_s,
        max_concurrency=config.max_concurrency,
        breaker_rules=BreakerDetails(failures=config.breaker.failures, recovery_s=config.breaker.recovery_s),
        calls=sum(tool.calls for tool in counted),
        failures=sum(tool.failures for tool in counted),
        retries=sum(tool.retries for tool in counted),
        in_flight=metrics.in_flight,
        failed_connects=failed_connects,
        offers=[_details(config, name, spec, metrics.tools) for name, spec in tools.items()],
        errors=sorted([*metrics.errors, *errors], key=lambda error: error["time"], reverse=True)[:MAX_SHOWN_ERRORS],
    )


def server_target(config: McpServerConfig, redaction: Redaction) -> str:
    """Return a server's command or host, without arguments, paths and queries, which may hold secrets."""
    if config.builtin is not None:
        return f"{config.builtin}, in this process"
    if config.url is None:
        return redaction.sanitize(config.command or "")
    url = urlsplit(config.url)
    host = url.netloc.rpartition("@")[2]
    return redaction.sanitize(f"{url.scheme}://{host}")


def _details(config: McpServerConfig, name: str, spec: ListedTool, calls: Mapping[str, ToolCallMetrics]) -> ToolDetails:
    counted = calls.get(spec.name) or ToolCallMetrics()
    return ToolDetails(
        name=name,
        own_name=spec.name,
        description=spec.description and spec.description[:MAX_DESCRIPTION_CHARS],
        input_schema=spec.input_schema,
        annotations=spec.annotations,
        _meta=spec.meta,
        requires_approval=requires_approval(config, spec),
        calls=counted.calls,
        failures=counted.failures,
    )
