"""Show the MCP servers to their operator, and connect one anew (T-06)."""

import asyncio
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from toolweave.api.plane_metrics import PlaneMetrics
from toolweave.api.routes.callers import known_to_the_api
from toolweave.runtime.codec import dumps
from toolweave.servers.connections.plane import ToolPlane
from toolweave.servers.connections.status import ServerDetails, ServerHealth, ServerSummary

router = APIRouter(prefix="/servers", tags=["servers"])

# Leaving a session and opening another are bounded each; this is the sum, and some.
RECONNECT_LIMIT_S = 30.0
NEVER_CONNECTED = frozenset({"disabled", "misconfigured"})
UNKNOWN: dict[int | str, dict[str, Any]] = {
    404: {"description": "There is no server of that name; the answer lists those that there are."}
}


def the_plane(request: Request) -> ToolPlane:
    """Give the application's tool plane."""
    plane: ToolPlane = request.app.state.plane
    return plane


Plane = Annotated[ToolPlane, Depends(the_plane)]
GUARDED = [Depends(known_to_the_api)]


@router.get("", response_model=list[ServerSummary], dependencies=GUARDED)
async def list_servers(plane: Plane) -> Response:
    """List all configured MCP servers and how they are, in the order of mcp.jsonc."""
    return _json(plane.summaries())


# Before the one with a name: mcp.jsonc lets no server be called "metrics".
@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(plane: Plane) -> Response:
    """Give the figures of all MCP servers and their tools in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(PlaneMetrics(plane))
    return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST})


@router.get("/{name}", response_model=ServerDetails, responses=UNKNOWN, dependencies=GUARDED)
async def show_server(name: str, plane: Plane) -> Response:
    """Show one MCP server: target, limits, tools with their schemas, calls and last errors; never a secret."""
    details = plane.details(name)
    if details is None:
        raise _unknown(name, plane)
    return _json(details)


@router.post(
    "/{name}/reconnect",
    response_model=ServerHealth,
    dependencies=GUARDED,
    responses={**UNKNOWN, 409: {"description": "The server is disabled or misconfigured."}},
)
async def reconnect(name: str, plane: Plane) -> Response:
    """Connect an MCP server anew, now, even one that rests after it failed too often; gives how it is then."""
    before = plane.health().get(name)
    if before is None:
        raise _unknown(name, plane)
    if before["state"] in NEVER_CONNECTED:
        why = f": {before['last_error']}" if before["last_error"] else "."
        raise HTTPException(409, f"The MCP server {name!r} is {before['state']}{why}")
    with suppress(TimeoutError):
        async with asyncio.timeout(RECONNECT_LIMIT_S):
            await plane.reconnect(name)
    return _json(plane.health()[name])


def _unknown(name: str, plane: ToolPlane) -> HTTPException:
    known = ", ".join(plane.health()) or "none"
    return HTTPException(404, f"There is no MCP server named {name[:100]!r}. Configured: {known}.")


def _json(answer: object) -> Response:
    # Schemas and texts are the servers' own: they may hold what FastAPI's encoder refuses.
    return Response(dumps(answer), media_type="application/json")
