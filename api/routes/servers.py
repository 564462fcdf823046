"""Show the MCP servers, their metrics and recent calls, reconnect a server and call its tools (T-06, S-11)."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate
from time import perf_counter
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, UrlConstraints

from toolweave.api.errors import json_response
from toolweave.api.langgraph_client import require_identified_caller, require_known_caller
from toolweave.api.request_bodies import StrictJsonRoute, run_until_first, wait_for_disconnect
from toolweave.runtime.caller import Caller, configurable_of_call
from toolweave.servers.connections.breaker import BreakerState
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.observability import LATENCY_BUCKETS_S, RecentCall, ServerCallMetrics
from toolweave.servers.connections.plane import ToolPlane
from toolweave.servers.connections.plane_slot import plane_slot
from toolweave.servers.connections.status import ServerDetails, ServerHealth, ServerState, ServerSummary

PREFIX = "toolweave_mcp"
BUCKET_BOUNDS = (*(str(bound) for bound in LATENCY_BUCKETS_S), "+Inf")
router = APIRouter(prefix="/servers", tags=["servers"], route_class=StrictJsonRoute)
CLIENT_CLOSED_REQUEST = 499
# More than the sum of the timeouts for closing a session and opening another.
RECONNECT_TIMEOUT_S = 30.0
NEVER_CONNECTED_STATES = frozenset({"disabled", "misconfigured"})
AUTHENTICATED = [Depends(require_known_caller)]


class PlaneMetrics(Collector):
    """Collect a tool plane's metrics; labels are only names of servers, tools and outcomes.

    `only_if_current`: for a registry of the whole process, collect from the current plane only. Two applications in one
    process would otherwise report every metric twice.
    """

    def __init__(self, plane: ToolPlane, *, only_if_current: bool = False) -> None:
        self._plane = plane
        self._only_if_current = only_if_current

    def describe(self) -> Iterable[Metric]:
        """Return no names, so that a second application can register, too."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        if not self._only_if_current or plane_slot.is_current(self._plane):
            yield from _state_metrics(self._plane.health())
            yield from _call_metrics(self._plane.metrics.all_servers())


@contextmanager
def register_metrics(plane: ToolPlane) -> Iterator[None]:
    """Register a plane's metrics in prometheus_client's default registry while the block runs."""
    collector = PlaneMetrics(plane, only_if_current=True)
    REGISTRY.register(collector)
    try:
        yield
    finally:
        REGISTRY.unregister(collector)


def _state_metrics(servers: dict[str, ServerHealth]) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        f"{PREFIX}_server_state", "1 for the current state of an MCP server.", labels=["server", "state"]
    )
    breaker = GaugeMetricFamily(
        f"{PREFIX}_breaker_state", "1 for the current state of a server's breaker.", labels=["server", "state"]
    )
    tools = GaugeMetricFamily(f"{PREFIX}_server_tools", "Tools that a server offers now.", labels=["server"])
    for name, health in servers.items():
        for each in get_args(ServerState):
            state.add_metric([name, each], health["state"] == each)
        for each in get_args(BreakerState):
            breaker.add_metric([name, each], health["breaker"] == each)
        tools.add_metric([name], health["tools"])
    yield from (state, breaker, tools)


def _call_metrics(servers: dict[str, ServerCallMetrics]) -> Iterator[Metric]:
    calls = CounterMetricFamily(f"{PREFIX}_calls", "Finished calls by outcome.", labels=["server", "tool", "outcome"])
    retries = CounterMetricFamily(f"{PREFIX}_call_retries", "Attempts after the first.", labels=["server", "tool"])
    seconds = HistogramMetricFamily(
        f"{PREFIX}_call_duration_seconds", "Duration of answered calls.", labels=["server", "tool"]
    )
    in_flight = GaugeMetricFamily(f"{PREFIX}_calls_in_flight", "Calls in flight.", labels=["server"])
    for server, figures in servers.items():
        in_flight.add_metric([server], figures.in_flight)
        for tool, tool_figures in figures.tools.items():
            for outcome, count in tool_figures.outcomes.items():
                calls.add_metric([server, tool, outcome], count)
            retries.add_metric([server, tool], tool_figures.retries)
            buckets = list(zip(BUCKET_BOUNDS, accumulate(tool_figures.buckets), strict=True))
            seconds.add_metric([server, tool], buckets, tool_figures.seconds)
    yield from (calls, retries, seconds, in_flight)


def get_plane(request: Request) -> ToolPlane:
    """Return the application's tool plane."""
    plane: ToolPlane = request.app.state.plane
    return plane


Plane = Annotated[ToolPlane, Depends(get_plane)]
IdentifiedCaller = Annotated[Caller, Depends(require_identified_caller)]


class CallBody(BaseModel):
    """A call of a tool by its name in the server's own list."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    tool: str = Field(min_length=1, max_length=500)
    arguments: dict[str, Any] = Field(default_factory=dict)


class ToolCallResult(BaseModel):
    """The result in the form of MCP's `CallToolResult`, also of a failed call, and how long the call took."""

    result: dict[str, Any]
    duration_ms: float


class ReadBody(BaseModel):
    """The page of an MCP App, as the `_meta.ui.resourceUri` of its tool names it."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    uri: Annotated[AnyUrl, UrlConstraints(allowed_schemes=["ui"], max_length=2_000)]


class ReadResult(BaseModel):
    """The contents in the form of MCP's `ReadResourceResult`."""

    contents: list[dict[str, Any]]


@router.get("", response_model=list[ServerSummary], dependencies=AUTHENTICATED)
async def list_servers(plane: Plane) -> Response:
    """List all configured MCP servers with their states, in the order of mcp.jsonc."""
    return json_response(plane.summaries())


# Before the route with a name: mcp.jsonc allows no server with the name "metrics".
@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(plane: Plane) -> Response:
    """Return the metrics of all MCP servers and their tools in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(PlaneMetrics(plane))
    return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST})


@router.get("/{name}", response_model=ServerDetails, responses={404: {}}, dependencies=AUTHENTICATED)
async def show_server(name: str, plane: Plane) -> Response:
    """Show one MCP server: target, limits, tools with their schemas, calls and last errors; never a secret."""
    details = plane.details(name)
    if details is None:
        raise _unknown_server(name, plane)
    return json_response(details)


@router.post("/{name}/reconnect", response_model=ServerHealth, dependencies=AUTHENTICATED, responses={404: {}, 409: {}})
async def reconnect(name: str, plane: Plane) -> Response:
    """Reconnect an MCP server now, even during the pause after repeated failures; return its state afterwards."""
    health = plane.health().get(name)
    if health is None:
        raise _unknown_server(name, plane)
    if health["state"] in NEVER_CONNECTED_STATES:
        reason = f": {health['last_error']}" if health["last_error"] else "."
        raise HTTPException(409, f"The MCP server {name!r} is {health['state']}{reason}")
    with suppress(TimeoutError):
        async with asyncio.timeout(RECONNECT_TIMEOUT_S):
            await plane.reconnect(name)
    return json_response(plane.health()[name])


@router.post("/{name}/call", response_model=ToolCallResult, responses={403: {}, 404: {}})
async def call_tool(name: str, body: CallBody, request: Request, plane: Plane, caller: IdentifiedCaller) -> Response:
    """Call a tool of an MCP server as its caller; the call ends when its client disconnects.

    The request itself is the approval of a tool that needs one. A question of the server is declined (`_meta` has it).
    """
    if name not in plane.health():
        raise _unknown_server(name, plane)
    context = CallContext.from_configurable(configurable_of_call(caller), None)
    started, call = perf_counter(), plane.call(name, body.tool, body.arguments, context)
    async with run_until_first(call, wait_for_disconnect(request.receive)) as (working, _):
        if not working.done():
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        result = working.result().model_dump(mode="json", by_alias=True, exclude_none=True)
    return json_response({"result": result, "duration_ms": round((perf_counter() - started) * 1000, 2)})


@router.post("/{name}/resources/read", response_model=ReadResult, responses={403: {}, 404: {}, 502: {}})
async def read_resource(name: str, body: ReadBody, plane: Plane, caller: IdentifiedCaller) -> Response:
    """Read a `ui://` resource of an MCP server as its caller, at most 5 million characters (MCP Apps)."""
    if name not in plane.health():
        raise _unknown_server(name, plane)
    result = await plane.read_resource(name, body.uri, configurable_of_call(caller))
    return json_response(result.model_dump(mode="json", by_alias=True, exclude_none=True))


@router.get("/{name}/calls", response_model=list[RecentCall], responses={403: {}, 404: {}})
async def recent_calls(name: str, plane: Plane, caller: IdentifiedCaller) -> Response:
    """List the latest calls of an MCP server, the newest first; with authentication those of the caller only."""
    if name not in plane.health():
        raise _unknown_server(name, plane)
    return json_response(plane.metrics.recent_calls(name, caller.user.identity if caller.user else None))


def _unknown_server(name: str, plane: ToolPlane) -> HTTPException:
    known = ", ".join(plane.health()) or "none"
    return HTTPException(404, f"There is no MCP server named {name[:100]!r}. Configured: {known}.")
