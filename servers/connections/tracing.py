"""Show each tool call as a span, and tell the server which trace it belongs to (T-03).

Without an OpenTelemetry SDK the spans are nothing, and a trace that a request came with is passed on all the same.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from opentelemetry import propagate, trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import INVALID_SPAN, ProxyTracerProvider, Span, SpanKind, StatusCode, Tracer

from toolweave import __version__
from toolweave.config.mcp import McpServerConfig

if TYPE_CHECKING:
    from mcp.types import CallToolResult

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
LONGEST_TRACESTATE = 512
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
FAILURE_KEY = "toolweave/failure"


def trace_fields() -> dict[str, str]:
    """Return `traceparent` and `tracestate` of the current span, for a request that leaves now; none without a trace.

    Baggage is not passed on: it is meant for the application's own services.
    """
    if not trace.get_current_span().get_span_context().is_valid:
        return {}
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return {name: carrier[name] for name in (TRACEPARENT, TRACESTATE) if name in carrier}


@contextmanager
def call_span(config: McpServerConfig, tool: str, configurable: Mapping[str, Any]) -> Iterator[Span]:
    """Make one tool call the current span: below the caller's, else below the trace the run was asked for with."""
    parent = None if trace.get_current_span().get_span_context().is_valid else _given_trace(configurable)
    if isinstance(trace.get_tracer_provider(), ProxyTracerProvider):
        # Nobody has set up an SDK: spans that are nothing would still cost 20 µs.
        with nullcontext() if parent is None else _within(parent):
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
            span.set_attributes(_target(config))
        yield span


def show_result(span: Span, result: "CallToolResult") -> None:
    """Note on its span how a call ended; neither arguments nor answers."""
    if result.isError and span.is_recording():
        kind = (result.meta or {}).get(FAILURE_KEY)
        span.set_attribute("error.type", str(kind or "tool_error"))
        span.set_status(StatusCode.ERROR)


@contextmanager
def _within(outer: Context) -> Iterator[None]:
    token = attach(outer)
    try:
        yield
    finally:
        detach(token)


@cache
def _tracer() -> Tracer:
    return trace.get_tracer("toolweave", __version__)


def _target(config: McpServerConfig) -> dict[str, str | int]:
    if config.transport == "stdio":
        return {"network.transport": "pipe"}
    if config.transport == "in_process":
        return {}
    url = urlsplit(config.url or "")
    port = url.port or (443 if url.scheme == "https" else 80)
    return {"network.transport": "tcp", "server.address": url.hostname or "", "server.port": port}


def _given_trace(configurable: Mapping[str, Any]) -> Context | None:
    parent, state = configurable.get(TRACEPARENT), configurable.get(TRACESTATE)
    if not isinstance(parent, str) or not _TRACEPARENT.fullmatch(parent):
        return None
    carrier = {TRACEPARENT: parent}
    if isinstance(state, str) and len(state) <= LONGEST_TRACESTATE:
        carrier[TRACESTATE] = state
    return propagate.extract(carrier)
