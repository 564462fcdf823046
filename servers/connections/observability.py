"""Observe tool calls: count them, log them, show them as spans (T-03, T-06).

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

from loguru import logger
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, ProxyTracerProvider, Span, SpanKind, StatusCode, Tracer
from typing_extensions import TypedDict

from toolweave import __version__
from toolweave.config.mcp import McpServerConfig
from toolweave.files import FILE_MODE, make_folder
from toolweave.redact import CUT
from toolweave.servers.connections.context import FAILURE_KEY, TRACEPARENT, TRACESTATE, CallContext
from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.results import truncate_bytes

if TYPE_CHECKING:
    from loguru import Record
    from mcp.types import CallToolResult

Outcome = Literal["ok", "tool_error", "invalid_arguments", "refused", "transport", "timeout", "protocol", "cancelled"]
"""How a call ended. `tool_error`: the server answered with an error; `refused`: the breaker or a known-down server kept
it from leaving; the last four are the taxonomy's failures (mcp.md section 4)."""
MAX_TOOL_NAMES = 256
MAX_TOOL_NAME_CHARS = 128
OTHER_TOOLS = "(other)"
MAX_LATENCIES = 512
MAX_ERRORS = 10
LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the histogram's buckets; one more, for what took longer, follows."""
ANSWERED_OUTCOMES: frozenset[Outcome] = frozenset({"ok", "tool_error"})
NON_FAILURE_OUTCOMES: frozenset[Outcome] = frozenset({"ok", "cancelled"})
CHECK_INTERVAL_S = 1.0
LogMode = Literal["full", "ids", "off"]
LOG_FOLDER, LOG_FILE = "logs", "mcp.jsonl"
LOG_LEVEL = 1
MAX_CONTENT_BYTES = 2_048
MAX_ID_CHARS = 200
MAX_BLOCKS = 100
# JSON leaves these as they are, and some readers take them for the end of a line.
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
ROTATION_BYTES = 10_000_000
MAX_ROTATED_FILES = 5
CLOSE_TIMEOUT_S = 2.0
MAX_TRACESTATE_CHARS = 512


@dataclass(slots=True)
class CallRecord:
    """One call; `tool` is the server's own name, `reason` the operator's text of a failure, redacted."""

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
"""Called with every call once it has ended; it must be quick and must not raise."""


def log_call(record: CallRecord) -> None:
    """Write one line into the process's log: who, what, how it ended; never arguments or answers.

    The call log has every call; successful ones appear here on level DEBUG only.
    """
    fields = {name: getattr(record, name) for name in ("server", "tool", "outcome", "duration_ms")}
    logger.bind(**record.context.ids()).log(
        "WARNING" if record.reason else "DEBUG" if record.outcome == "ok" else "INFO",
        "MCP call {server}/{tool} {outcome} in {duration_ms} ms{}",
        f": {record.reason}" if record.reason else "",
        **fields,
    )


class ServerError(TypedDict):
    """Something that went wrong: a failed call, by the time it began, or a lost connection (outcome "connection")."""

    time: str
    tool: str | None
    outcome: Outcome | Literal["connection"]
    reason: str


class LatencyMs(TypedDict):
    """How long the newest successful calls of a server took, in milliseconds: half of them, and 99 of 100, at most."""

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
        """Return how many calls have ended."""
        return self.outcomes.total()

    @property
    def failures(self) -> int:
        """Return how many of them failed; one that its caller gave up did not."""
        return sum(count for outcome, count in self.outcomes.items() if outcome not in NON_FAILURE_OUTCOMES)


@dataclass(slots=True)
class ServerCallMetrics:
    """The calls of one server by the tools' own names, and how many are under way."""

    tools: dict[str, ToolCallMetrics] = field(default_factory=dict)
    in_flight: int = 0
    errors: deque[ServerError] = field(default_factory=lambda: deque(maxlen=MAX_ERRORS))
    _latencies: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_LATENCIES))

    def latency(self) -> LatencyMs | None:
        """Return the latency of the newest successful calls; None before the first."""
        ordered = sorted(self._latencies)
        if not ordered:
            return None
        return LatencyMs(p50=ordered[(len(ordered) - 1) // 2], p99=ordered[(len(ordered) * 99 - 1) // 100])

    def add_call(self, record: CallRecord) -> None:
        """Take in a call that has ended."""
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
    """The figures of all servers of one plane; may be read from any thread while calls go on."""

    def __init__(self, servers: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._servers = {name: ServerCallMetrics() for name in servers}

    def __call__(self, record: CallRecord) -> None:
        """Take in a call that has ended."""
        with self._lock:
            self._servers[record.server].add_call(record)

    @contextmanager
    def track_in_flight(self, server: str) -> Iterator[None]:
        """Count one call as under way while the block runs."""
        with self._lock:
            self._servers[server].in_flight += 1
        try:
            yield
        finally:
            with self._lock:
                self._servers[server].in_flight -= 1

    def for_server(self, server: str) -> ServerCallMetrics:
        """Return the figures of one server at this moment."""
        with self._lock:
            return deepcopy(self._servers[server])

    def latency(self, server: str) -> LatencyMs | None:
        """Return how long the newest successful calls of a server took; None before the first."""
        with self._lock:
            return self._servers[server].latency()

    def all_servers(self) -> dict[str, ServerCallMetrics]:
        """Return the figures of every server at this moment, in configuration order."""
        with self._lock:
            return deepcopy(self._servers)


@asynccontextmanager
async def open_call_log(data_dir: Path, mode: LogMode) -> AsyncIterator[tuple[CallObserver, ...]]:
    """Give what writes the log while the block runs; nothing with the mode "off".

    The mode "ids" leaves arguments and answers out. A file that cannot be written is warned about once and tried again
    later: calls go on without it.
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
    """The log of one tool plane; several planes and processes may write to one file.

    A full file becomes `mcp.jsonl.1`, what was that `mcp.jsonl.2`, and so on. Every line is one system call, which
    does not block. What may block is done on a thread, from time to time: the file is opened, begun anew when it is
    full, and made again if it was moved away.
    """

    def __init__(self, path: Path, *, with_contents: bool) -> None:
        self._path = path
        self._with_contents = with_contents
        self._plane_id = uuid4().hex[:12]
        self._warned = False
        self._file: int | None = None
        self._problem = "it is not open"
        self._line_prefix = b""
        self._checked_at = 0.0
        self._check: asyncio.Task[None] | None = None
        self._sink = logger.add(
            self._write,
            level=LOG_LEVEL,
            format="{message}",
            filter=self._is_own_record,
            serialize=True,
            # Else a failed write would only appear on stderr.
            catch=False,
            backtrace=False,
            diagnose=False,
        )

    def __call__(self, record: CallRecord) -> None:
        """Write a call that has ended."""
        fields = self._record_fields(record)
        if time.monotonic() - self._checked_at >= CHECK_INTERVAL_S and (self._check is None or self._check.done()):
            self._check = asyncio.create_task(self.ensure_file())
        try:
            logger.bind(plane=self._plane_id, **fields).log(
                LOG_LEVEL, "MCP call {}/{} {}", record.server, record.tool, record.outcome
            )
        except OSError as error:
            if not self._warned:
                self._warned = True
                logger.warning("MCP calls cannot be written to {}: {}; they go on", self._path, error)

    async def ensure_file(self) -> None:
        """Have the right file open; what hinders that is said with the next line."""
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
        """Write no more."""
        if self._check is not None:
            await asyncio.wait([self._check], timeout=CLOSE_TIMEOUT_S)
        # It may be gone: an application may have removed all sinks.
        with suppress(ValueError):
            logger.remove(self._sink)
        self._close_file()

    def _write(self, line: str) -> None:
        if self._file is None:
            raise OSError(self._problem)
        data = self._line_prefix + line.encode("utf-8", "backslashreplace")
        # On a full disk half a line may have been written: the next is one of its own.
        self._line_prefix = b"" if os.write(self._file, data) == len(data) else b"\n"

    def _open_file(self) -> int:
        with suppress(FileNotFoundError):
            there = self._path.stat()
            if there.st_size > ROTATION_BYTES:
                numbered = [self._path.with_name(f"{self._path.name}.{n}") for n in range(1, MAX_ROTATED_FILES + 1)]
                for newer, older in reversed(list(pairwise([self._path, *numbered]))):
                    with suppress(FileNotFoundError):
                        newer.replace(older)
            elif self._file is not None and os.path.samestat(os.fstat(self._file), there):
                return self._file
        make_folder(self._path.parent)
        # A file is never waited for; those who look for what blocks an event loop go by the flag.
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
            given: str | None = getattr(record.context, name)
            fields[name] = given and given[:MAX_ID_CHARS]
        if self._with_contents:
            fields["arguments"] = shorten(json.dumps(redaction.redact(record.arguments), ensure_ascii=False))
            fields["response"] = None if record.result is None else shorten(response_text(record.result, redaction))
        return fields


def response_text(result: "CallToolResult", redaction: Redaction) -> str:
    """Return the beginning of an answer as text, without secrets: texts as they are, other blocks by their type."""
    texts: list[str] = []
    room = MAX_CONTENT_BYTES
    for block in result.content[:MAX_BLOCKS]:
        if room <= 0:
            break
        text = getattr(block, "text", None) or getattr(getattr(block, "resource", None), "text", None)
        texts.append(redaction.redact(text) if isinstance(text, str) else f"[{block.type}]")
        room -= len(texts[-1])
    if not texts and result.structuredContent is not None:
        return json.dumps(redaction.redact(result.structuredContent), ensure_ascii=False)
    return "\n".join(texts if len(texts) == len(result.content) else [*texts, CUT])


def shorten(text: str) -> str:
    """Cut a text to `MAX_CONTENT_BYTES` bytes of UTF-8, with a sign that it is cut."""
    return truncate_bytes(text, MAX_CONTENT_BYTES).translate(_LINE_ENDS)


@contextmanager
def call_span(config: McpServerConfig, tool: str, configurable: Mapping[str, Any]) -> Iterator[Span]:
    """Make one tool call the current span: below the caller's, else below that of the run's request."""
    parent = None if trace.get_current_span().get_span_context().is_valid else _request_trace(configurable)
    if isinstance(trace.get_tracer_provider(), ProxyTracerProvider):
        # Without an SDK, spans that record nothing would still cost 20 µs.
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
    """Note on its span how a call ended; neither arguments nor answers."""
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


def _request_trace(configurable: Mapping[str, Any]) -> Context | None:
    parent, state = configurable.get(TRACEPARENT), configurable.get(TRACESTATE)
    if not isinstance(parent, str):
        return None
    carrier = {TRACEPARENT: parent}
    if isinstance(state, str) and len(state) <= MAX_TRACESTATE_CHARS:
        carrier[TRACESTATE] = state
    return propagate.extract(carrier)
