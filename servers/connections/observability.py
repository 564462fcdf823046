"""Metrics, log and trace spans of tool calls (T-03, T-06).

Each call is one `CallRecord`; observers receive it when the call has ended. `CallMetrics` counts calls per server and
tool. Beyond `MAX_TOOL_NAMES` names of one server, calls are counted as one tool, so that a server cannot grow memory.

`open_call_log` writes one JSON line per call to `<data-dir>/logs/mcp.jsonl`. It is a loguru sink with its own level
below all others, so that no other sink shows these records. A line is written before the call returns to its caller:
a killed process has logged all calls that had ended.

Without an OpenTelemetry SDK no span is recorded; the trace of the incoming request is still passed on.
"""

import asyncio
import json
import os
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit
from uuid import uuid4

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables.config import var_child_runnable_config
from loguru import logger
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, ProxyTracerProvider, Span, SpanKind, StatusCode, Tracer
from typing_extensions import TypedDict

from toolweave import __version__
from toolweave.config.mcp import McpServerConfig
from toolweave.files import FILE_MODE, make_folder
from toolweave.redact import CUT_MARK
from toolweave.servers.connections.context import FAILURE_KEY, TRACEPARENT, TRACESTATE, CallContext
from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.results import truncate_bytes

if TYPE_CHECKING:
    from loguru import Record
    from mcp.types import CallToolResult

Outcome = Literal["ok", "tool_error", "invalid_arguments", "refused", "transport", "timeout", "protocol", "cancelled"]
"""How a call ended. `tool_error`: the server returned an error result. `refused`: the call was not sent, because the
breaker refused it or the server was known to be down. The last four are the failures of mcp.md section 4."""
MAX_TOOL_NAMES = 256
MAX_TOOL_NAME_CHARS = 128
OTHER_TOOLS = "(other)"
MAX_LATENCIES = 512
MAX_ERRORS = 10
MAX_RECENT_CALLS = 500
LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the histogram's buckets; one more bucket counts slower calls."""
ANSWERED_OUTCOMES: frozenset[Outcome] = frozenset({"ok", "tool_error"})
NON_FAILURE_OUTCOMES: frozenset[Outcome] = frozenset({"ok", "cancelled"})
CHECK_INTERVAL_S = 1.0
LogMode = Literal["full", "ids", "off"]
LOG_FOLDER, LOG_FILE = "logs", "mcp.jsonl"
LOG_LEVEL = 1
MAX_CONTENT_BYTES = 2_048
MAX_ID_CHARS = 200
MAX_BLOCKS = 100
# JSON does not escape these characters, but some readers treat them as line ends.
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
ROTATION_BYTES = 10_000_000
MAX_ROTATED_FILES = 5
CLOSE_TIMEOUT_S = 2.0
MAX_TRACESTATE_CHARS = 512


@dataclass(slots=True)
class CallRecord:
    """One call; `tool` is the name in the server's own list, `reason` the redacted cause of a failure for operators."""

    server: str
    tool: str
    arguments: dict[str, Any]
    context: CallContext
    redaction: Redaction
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    duration_ms: float = 0.0
    attempts: int = 0
    outcome: Outcome = "cancelled"
    reason: str = ""
    result: "CallToolResult | None" = None


CallObserver = Callable[[CallRecord], object]
"""Called with the record of every call that has ended; must be fast and must not raise."""


def log_call(record: CallRecord) -> None:
    """Log one line per call: ids, tool and outcome, never arguments or results.

    Successful calls are logged at level DEBUG; the call log has every call.
    """
    fields = {name: getattr(record, name) for name in ("server", "tool", "outcome", "duration_ms")}
    logger.bind(**record.context.ids()).log(
        "WARNING" if record.reason else "DEBUG" if record.outcome == "ok" else "INFO",
        "MCP call {server}/{tool} {outcome} in {duration_ms} ms{}",
        f": {record.reason}" if record.reason else "",
        **fields,
    )


class ServerError(TypedDict):
    """A failed call, with its start as `time`, or a lost connection (outcome "connection")."""

    time: str
    tool: str | None
    outcome: Outcome | Literal["connection"]
    reason: str


class RecentCall(TypedDict):
    """A call that has ended, without arguments and results; `caller` is the user, `reason` the cause of a failure."""

    time: str
    tool: str
    outcome: Outcome
    reason: str
    duration_ms: float
    retries: int
    thread_id: str | None
    run_id: str | None
    caller: str | None


class LatencyMs(TypedDict):
    """The median and 99th percentile of a server's newest successful calls, in milliseconds."""

    p50: float
    p99: float


@dataclass(slots=True)
class ToolCallMetrics:
    """The calls of one tool since the start; `buckets` and `seconds` are the histogram and sum of answered calls."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    retries: int = 0
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BUCKETS_S) + 1))

    @property
    def calls(self) -> int:
        """Return the number of calls that have ended."""
        return self.outcomes.total()

    @property
    def failures(self) -> int:
        """Return the number of failed calls; a call that its caller cancelled is not one."""
        return sum(count for outcome, count in self.outcomes.items() if outcome not in NON_FAILURE_OUTCOMES)


@dataclass(slots=True)
class ServerCallMetrics:
    """The calls of one server by tool name, its calls in flight and its newest errors."""

    tools: dict[str, ToolCallMetrics] = field(default_factory=dict)
    in_flight: int = 0
    errors: deque[ServerError] = field(default_factory=lambda: deque(maxlen=MAX_ERRORS))
    _latencies: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_LATENCIES))

    def latency(self) -> LatencyMs | None:
        """Return the latency of the newest successful calls; None before the first one."""
        ordered = sorted(self._latencies)
        if not ordered:
            return None
        return LatencyMs(p50=ordered[(len(ordered) - 1) // 2], p99=ordered[(len(ordered) * 99 - 1) // 100])

    def add_call(self, record: CallRecord) -> None:
        """Count a call that has ended."""
        name = record.tool[:MAX_TOOL_NAME_CHARS]
        tool = self.tools.get(name)
        if tool is None:
            name = name if len(self.tools) < MAX_TOOL_NAMES else OTHER_TOOLS
            tool = self.tools.setdefault(name, ToolCallMetrics())
        tool.outcomes[record.outcome] += 1
        tool.retries += max(record.attempts - 1, 0)
        if record.outcome in ANSWERED_OUTCOMES:
            seconds = record.duration_ms / 1000
            tool.seconds += seconds
            tool.buckets[bisect_left(LATENCY_BUCKETS_S, seconds)] += 1
        if record.outcome == "ok":
            self._latencies.append(record.duration_ms)
        elif record.outcome != "cancelled":
            time = record.started.isoformat()
            self.errors.append(ServerError(time=time, tool=name, outcome=record.outcome, reason=record.reason))


class CallMetrics:
    """The metrics of all servers of one plane; any thread may read them at any time."""

    def __init__(self, servers: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._servers = {name: ServerCallMetrics() for name in servers}
        self._recent: dict[str, deque[RecentCall]] = {name: deque(maxlen=MAX_RECENT_CALLS) for name in self._servers}

    def __call__(self, record: CallRecord) -> None:
        """Count a call that has ended."""
        call = RecentCall(
            time=record.started.isoformat(),
            tool=record.tool[:MAX_TOOL_NAME_CHARS],
            outcome=record.outcome,
            reason=record.reason,
            duration_ms=record.duration_ms,
            retries=max(record.attempts - 1, 0),
            thread_id=record.context.thread_id,
            run_id=record.context.run_id,
            caller=record.context.user_id,
        )
        with self._lock:
            self._servers[record.server].add_call(record)
            self._recent[record.server].append(call)

    def recent_calls(self, server: str, caller: str | None) -> list[RecentCall]:
        """Return the latest calls of one server, the newest first: all, or those of one caller."""
        with self._lock:
            calls = list(self._recent[server])
        return [call for call in reversed(calls) if caller is None or call["caller"] == caller]

    @contextmanager
    def track_in_flight(self, server: str) -> Iterator[None]:
        """Count one call as in flight while the block runs."""
        with self._lock:
            self._servers[server].in_flight += 1
        try:
            yield
        finally:
            with self._lock:
                self._servers[server].in_flight -= 1

    def for_server(self, server: str) -> ServerCallMetrics:
        """Return a copy of the metrics of one server."""
        with self._lock:
            return deepcopy(self._servers[server])

    def latency(self, server: str) -> LatencyMs | None:
        """Return the latency of a server's newest successful calls; None before the first one."""
        with self._lock:
            return self._servers[server].latency()

    def all_servers(self) -> dict[str, ServerCallMetrics]:
        """Return a copy of the metrics of every server, in configuration order."""
        with self._lock:
            return deepcopy(self._servers)


@asynccontextmanager
async def open_call_log(data_dir: Path, mode: LogMode) -> AsyncIterator[tuple[CallObserver, ...]]:
    """Yield the observer that writes the call log; no observer with the mode "off".

    The mode "ids" omits arguments and results. If the file cannot be written, one warning is logged, calls continue,
    and later calls try to open it again.
    """
    if mode == "off":
        yield ()
        return
    log = CallLog(data_dir / LOG_FOLDER / LOG_FILE, with_contents=mode == "full")
    await log.ensure_file()
    try:
        yield (log,)
    finally:
        await log.close()


class CallLog:
    """The call log of one tool plane; several planes and processes may write to one file.

    A full `mcp.jsonl` is renamed to `mcp.jsonl.1`, that one to `mcp.jsonl.2`, and so on. Each line is one write, which
    does not block. A thread opens the file, rotates it when it is full, and creates it again if it was moved away, at
    most once per `CHECK_INTERVAL_S`.
    """

    def __init__(self, path: Path, *, with_contents: bool) -> None:
        self._path = path
        self._with_contents = with_contents
        self._plane_id = uuid4().hex[:12]
        self._has_warned = False
        self._file: int | None = None
        self._problem = "it is not open"
        self._line_prefix = b""
        self._checked_at = 0.0
        self._check: asyncio.Task[None] | None = None
        # The log of the package may be off; this file is asked for.
        logger.enable(__name__)
        self._sink = logger.add(
            self._write,
            level=LOG_LEVEL,
            format="{message}",
            filter=self._is_own_record,
            serialize=True,
            # Otherwise loguru would report a failed write on stderr only.
            catch=False,
            backtrace=False,
            diagnose=False,
        )

    def __call__(self, record: CallRecord) -> None:
        """Write the record of a call that has ended."""
        fields = self._record_fields(record)
        if time.monotonic() - self._checked_at >= CHECK_INTERVAL_S and (self._check is None or self._check.done()):
            self._check = asyncio.create_task(self.ensure_file())
        try:
            logger.bind(plane=self._plane_id, **fields).log(
                LOG_LEVEL, "MCP call {}/{} {}", record.server, record.tool, record.outcome
            )
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                logger.warning("MCP calls cannot be written to {}: {}; calls continue", self._path, error)

    async def ensure_file(self) -> None:
        """Open or rotate the file if needed; the next write reports an error."""
        self._checked_at = time.monotonic()
        try:
            file = await asyncio.to_thread(self._open_file)
        except OSError as error:
            self._problem = str(error)
            return
        if file != self._file:
            self._close_file()
            self._file = file

    async def close(self) -> None:
        """Close the file; later records are ignored."""
        if self._check is not None:
            await asyncio.wait([self._check], timeout=CLOSE_TIMEOUT_S)
        # An application may have removed all sinks.
        with suppress(ValueError):
            logger.remove(self._sink)
        self._close_file()

    def _write(self, line: str) -> None:
        if self._file is None:
            raise OSError(self._problem)
        data = self._line_prefix + line.encode("utf-8", "backslashreplace")
        # A full disk may have cut the line: the next write starts on a new line.
        self._line_prefix = b"" if os.write(self._file, data) == len(data) else b"\n"

    def _open_file(self) -> int:
        with suppress(FileNotFoundError):
            stat = self._path.stat()
            if stat.st_size > ROTATION_BYTES:
                numbered = [self._path.with_name(f"{self._path.name}.{n}") for n in range(1, MAX_ROTATED_FILES + 1)]
                for newer, older in reversed(list(pairwise([self._path, *numbered]))):
                    with suppress(FileNotFoundError):
                        newer.replace(older)
            elif self._file is not None and os.path.samestat(os.fstat(self._file), stat):
                return self._file
        make_folder(self._path.parent)
        # The flag has no effect on regular files, but detectors of blocking calls accept writes to files with it.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        return os.open(self._path, flags, FILE_MODE)

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _is_own_record(self, record: "Record") -> bool:
        return record["level"].no == LOG_LEVEL and record["extra"].get("plane") is self._plane_id

    def _record_fields(self, record: CallRecord) -> dict[str, Any]:
        redaction = record.redaction
        fields: dict[str, Any] = {"timestamp": record.started.isoformat()}
        for name in ("server", "tool", "outcome", "reason", "attempts", "duration_ms"):
            fields[name] = getattr(record, name)
        for name in ("thread_id", "run_id", "user_id", "correlation_id", "tool_call_id"):
            value: str | None = getattr(record.context, name)
            fields[name] = value and value[:MAX_ID_CHARS]
        if self._with_contents:
            fields["arguments"] = shorten(json.dumps(redaction.redact(record.arguments), ensure_ascii=False))
            fields["response"] = None if record.result is None else shorten(response_text(record.result, redaction))
        return fields


def response_text(result: "CallToolResult", redaction: Redaction) -> str:
    """Return the start of a result as text without secrets; blocks other than text are shown as their type."""
    texts: list[str] = []
    chars_left = MAX_CONTENT_BYTES
    for block in result.content[:MAX_BLOCKS]:
        if chars_left <= 0:
            break
        text = getattr(block, "text", None) or getattr(getattr(block, "resource", None), "text", None)
        texts.append(redaction.redact(text) if isinstance(text, str) else f"[{block.type}]")
        chars_left -= len(texts[-1])
    if not texts and result.structuredContent is not None:
        return json.dumps(redaction.redact(result.structuredContent), ensure_ascii=False)
    return "\n".join(texts if len(texts) == len(result.content) else [*texts, CUT_MARK])


def shorten(text: str) -> str:
    """Cut a text to `MAX_CONTENT_BYTES` of UTF-8, marked with an ellipsis."""
    return truncate_bytes(text, MAX_CONTENT_BYTES).translate(_LINE_ENDS)


@contextmanager
def call_span(config: McpServerConfig, tool: str, configurable: Mapping[str, Any]) -> Iterator[Span]:
    """Make a span for one tool call the current one; its parent is the caller's span or that of the run's request."""
    parent = _langchain_parent()
    if parent is None and not trace.get_current_span().get_span_context().is_valid:
        parent = _request_trace(configurable)
    if isinstance(trace.get_tracer_provider(), ProxyTracerProvider):
        # Without an SDK, a span records nothing but would still cost 20 µs.
        with nullcontext() if parent is None else trace.use_span(trace.get_current_span(parent)):
            yield INVALID_SPAN
        return
    attributes = {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "toolweave.server": config.name,
    }
    with _tracer().start_as_current_span(
        f"tools/call {tool}", context=parent, kind=SpanKind.CLIENT, attributes=attributes
    ) as span:
        if span.is_recording():
            span.set_attributes(_network_attributes(config))
        yield span


def set_span_result(span: Span, result: "CallToolResult") -> None:
    """Write the outcome of a call into its span, without arguments and results."""
    if result.isError and span.is_recording():
        kind = (result.meta or {}).get(FAILURE_KEY)
        span.set_attribute("error.type", str(kind or "tool_error"))
        span.set_status(StatusCode.ERROR)


@cache
def _tracer() -> Tracer:
    return trace.get_tracer("toolweave", __version__)


def _network_attributes(config: McpServerConfig) -> dict[str, str | int]:
    if config.transport == "stdio":
        return {"network.transport": "pipe"}
    if config.transport == "in_process":
        return {}
    url = urlsplit(config.url or "")
    port = url.port or (443 if url.scheme == "https" else 80)
    return {"network.transport": "tcp", "server.address": url.hostname or "", "server.port": port}


def _langchain_parent() -> Context | None:
    """Return the context of the LangChain tool or node that makes the call, if a callback of it records spans."""
    callbacks = (var_child_runnable_config.get() or {}).get("callbacks")
    if not isinstance(callbacks, BaseCallbackManager) or callbacks.parent_run_id is None:
        return None
    finders = (getattr(handler, "get_span", None) for handler in callbacks.handlers)
    span = next((span for find in finders if find and (span := find(callbacks.parent_run_id))), None)
    return None if span is None else trace.set_span_in_context(span)


def _request_trace(configurable: Mapping[str, Any]) -> Context | None:
    parent, state = configurable.get(TRACEPARENT), configurable.get(TRACESTATE)
    if not isinstance(parent, str):
        return None
    carrier = {TRACEPARENT: parent}
    if isinstance(state, str) and len(state) <= MAX_TRACESTATE_CHARS:
        carrier[TRACESTATE] = state
    return propagate.extract(carrier)
