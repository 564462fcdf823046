"""Report how the process is: the model it uses and every MCP server it knows (T-06)."""

from typing import Any

from fastapi import APIRouter, Request

from toolweave.nodes.chat_models import model_label

router = APIRouter(tags=["health"])

WELL = frozenset({"ready", "disabled"})


@router.get("/health")
async def health(request: Request) -> dict[str, Any]:
    """Give the status of the process; always 200, `degraded` while a server that should be there is not."""
    servers: dict[str, dict[str, Any]] = request.app.state.plane.health()
    unwell = [name for name, server in servers.items() if server["state"] not in WELL]
    toolless = not any(server["tools"] for server in servers.values())
    answer: dict[str, Any] = {
        "status": "degraded" if unwell or toolless else "ok",
        "model": model_label(request.app.state.settings),
        "servers": servers,
    }
    if toolless:
        answer["detail"] = "No MCP tools available"
    elif unwell:
        answer["detail"] = f"MCP servers not ready: {', '.join(unwell)}"
    return answer
