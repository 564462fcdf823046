"""Report the health of the process, its model and its MCP servers (T-06)."""

import asyncio
from typing import Annotated, Literal, NotRequired

import httpx
from fastapi import APIRouter, Depends, Request, Response
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import LangGraphError
from loguru import logger
from typing_extensions import TypedDict

from toolweave.api.langgraph_client import api_client
from toolweave.nodes.model_endpoint import model_label
from toolweave.servers.connections.plane import ToolPlane
from toolweave.servers.connections.status import ServerHealth

router = APIRouter(tags=["health"])

HEALTHY_STATES = frozenset({"ready", "disabled"})
NO_TOOLS = "No MCP tools available"
DATABASE_TIMEOUT_S = 1.5


class Health(TypedDict):
    """The health of the process; `detail` describes what is degraded."""

    status: Literal["ok", "degraded"]
    model: str
    servers: dict[str, ServerHealth]
    detail: NotRequired[str]


class Liveness(TypedDict):
    """The process responds."""

    status: Literal["ok"]


class Readiness(TypedDict):
    """Whether requests can be served; `detail` is the reason if not."""

    status: Literal["ready", "unavailable"]
    detail: NotRequired[str]


@router.get("/health")
async def health(request: Request) -> Health:
    """Return the status of the process: `degraded` while an enabled server is not ready or its breaker refuses calls.

    The HTTP status is always 200 (T-06).
    """
    plane: ToolPlane = request.app.state.plane
    servers = plane.health()
    refusing = plane.servers_refusing_calls()
    unhealthy = []
    for name, server in servers.items():
        faults: list[str] = [server["state"]] if server["state"] not in HEALTHY_STATES else []
        faults += [f"breaker {server['breaker']}"] if name in refusing else []
        if faults:
            unhealthy.append(f"{name} ({', '.join(faults)})")
    has_no_tools = not any(server["tools"] for server in servers.values())
    result = Health(
        status="degraded" if unhealthy or has_no_tools else "ok",
        model=model_label(request.app.state.settings),
        servers=servers,
    )
    not_ready = f"MCP servers not ready: {', '.join(unhealthy)}"
    if has_no_tools:
        result["detail"] = f"{NO_TOOLS}. {not_ready}" if refusing else NO_TOOLS
    elif unhealthy:
        result["detail"] = not_ready
    return result


@router.get("/health/live")
async def live() -> Liveness:
    """Return ok; an orchestrator restarts a process that does not respond."""
    return Liveness(status="ok")


@router.get("/health/ready", responses={503: {"model": Readiness}})
async def ready(response: Response, client: Annotated[LangGraphClient, Depends(api_client)]) -> Readiness:
    """Return whether requests can be served: 503 only without persistence, in any state of the MCP servers."""
    try:
        async with client, asyncio.timeout(DATABASE_TIMEOUT_S):
            await client.http.get("/ok", params={"check_db": "1"})
    except (httpx.HTTPError, LangGraphError, TimeoutError) as error:
        logger.warning("not ready: the database behind the LangGraph API does not answer: {!r}", error)
        response.status_code = 503
        return Readiness(status="unavailable", detail="The database does not answer.")
    return Readiness(status="ready")
