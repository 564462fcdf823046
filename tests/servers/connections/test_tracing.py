"""Each call is a span, and its trace is sent to the server; without an SDK the trace of the run is sent."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from opentelemetry import baggage, context, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

from tests.servers.connections.peers import BOUND_S, MISBEHAVING, misbehaving, plane_of, text_of
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.plane import ToolPlane

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane() -> AsyncIterator[ToolPlane]:
    async with plane_of(misbehaving()) as opened:
        yield opened


async def meta_of(plane: ToolPlane, **configurable: Any) -> dict[str, Any]:
    async with asyncio.timeout(BOUND_S):
        result = await plane.call("peer", "meta", {}, CallContext.from_configurable(configurable, "call-1"))
    meta: dict[str, Any] = json.loads(text_of(result))
    return meta


async def test_a_call_outside_of_a_trace_sends_no_trace(plane: ToolPlane) -> None:
    assert {"traceparent", "tracestate", "baggage"}.isdisjoint(await meta_of(plane))


async def test_the_trace_of_a_run_is_sent_without_an_overlong_tracestate(plane: ToolPlane) -> None:
    meta = await meta_of(plane, traceparent=TRACEPARENT, tracestate="vendor=1")
    assert (meta["traceparent"], meta["tracestate"]) == (TRACEPARENT, "vendor=1")
    assert "tracestate" not in await meta_of(plane, traceparent=TRACEPARENT, tracestate=f"vendor={'x' * 600}")


@pytest.mark.parametrize(
    "given", ["", "00-0-0-01", TRACEPARENT.upper(), f"00-{'0' * 32}-{SPAN_ID}-01", f"{TRACEPARENT}\r\nx", 7, None]
)
async def test_an_invalid_traceparent_is_ignored(plane: ToolPlane, given: object) -> None:
    assert "traceparent" not in await meta_of(plane, traceparent=given, tracestate="vendor=1")


def current_trace() -> NonRecordingSpan:
    known = SpanContext(int(TRACE_ID, 16), int(SPAN_ID, 16), is_remote=False, trace_flags=TraceFlags(1))
    return NonRecordingSpan(known)


async def test_the_current_span_has_precedence_and_baggage_is_not_sent(plane: ToolPlane) -> None:
    token = context.attach(baggage.set_baggage("customer", "secret"))
    try:
        with use_span(current_trace()):
            meta = await meta_of(plane, traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
    finally:
        context.detach(token)
    assert meta["traceparent"] == TRACEPARENT
    assert "baggage" not in meta


async def test_the_trace_of_a_caller_on_another_loop_is_sent(plane: ToolPlane) -> None:
    async def elsewhere() -> dict[str, Any]:
        with use_span(current_trace()):
            return await meta_of(plane)

    meta = await asyncio.to_thread(asyncio.run, elsewhere())
    assert meta["traceparent"] == TRACEPARENT
    assert not trace.get_current_span().get_span_context().is_valid


SCRIPT = """
import asyncio, json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.plane import open_tool_plane

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

async def main():
    config = McpServerConfig(name="peer", transport="stdio", command=sys.executable, args=(sys.argv[1],))
    async with open_tool_plane([config]) as plane:
        await plane.wait_for_servers(timeout_s=60)
        with trace.get_tracer("test").start_as_current_span("agent") as agent:
            result = await plane.call("peer", "meta", {"title": "secret-text"}, CallContext())
        await plane.call("peer", "fail", {}, CallContext())
        await plane.call("peer", "wrong_shape", {}, CallContext())
        given = {"traceparent": "00-" + "c" * 32 + "-" + "d" * 16 + "-01"}
        await plane.call("peer", "echo", {}, CallContext(configurable=given))
    spans = [json.loads(span.to_json()) for span in exporter.get_finished_spans()]
    print(json.dumps({"spans": spans, "meta": json.loads(result.content[0].text)}))

asyncio.run(main())
"""


def test_with_an_sdk_each_call_is_a_client_span_whose_id_is_sent_to_the_server() -> None:
    command = [sys.executable, "-c", SCRIPT, MISBEHAVING]
    run = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    output = json.loads(run.stdout)
    called, agent, failed, broken, traced = output["spans"]
    trace_id, agent_id = agent["context"]["trace_id"], agent["context"]["span_id"]
    assert (called["name"], called["kind"], called["parent_id"]) == ("tools/call meta", "SpanKind.CLIENT", agent_id)
    called_id = called["context"]["span_id"]
    assert output["meta"]["traceparent"].startswith(f"00-{trace_id}-{called_id}-".replace("0x", ""))
    assert called["attributes"] == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "meta",
        "toolweave.server": "peer",
        "network.transport": "pipe",
    }
    assert "secret-text" not in run.stdout.replace(json.dumps(output["meta"]), "")
    assert (traced["context"]["trace_id"], traced["parent_id"]) == ("0x" + "c" * 32, "0x" + "d" * 16)
    assert [failed["attributes"]["error.type"], broken["attributes"]["error.type"]] == ["tool_error", "protocol"]
    statuses = [span["status"]["status_code"] for span in (called, traced, failed, broken)]
    assert statuses == ["UNSET", "UNSET", "ERROR", "ERROR"]
