"""Endpoints of the server itself: /ok and /info."""

from langgraph.version import __version__ as langgraph_version
from starlette.requests import Request
from starlette.responses import Response

from toolweave.api.langgraph.answers import json_answer
from toolweave.api.langgraph.endpoint import Endpoint, Query
from toolweave.api.langgraph.request_values import query_flag
from toolweave.api.langgraph.schemas.fields import BOOLEAN
from toolweave.api.langgraph.served import served

# The version of the LangGraph API spoken here: clients such as Studio switch features by it.
API_VERSION = "0.16.7"


async def ok(request: Request) -> Response:
    """Say that the server answers; with check_db, that its database does too."""
    if query_flag(request, "check_db"):
        await served(request).persistence.threads.count()
    return json_answer({"ok": True, "services": {}})


async def info(request: Request) -> Response:
    """Tell clients which API they talk to and which of its parts are there."""
    paths = {getattr(route, "path", "") for route in request.app.routes}
    return json_answer(
        {
            "version": API_VERSION,
            "langgraph_py_version": langgraph_version,
            "flags": {
                "assistants": True,
                "crons": "/runs/crons" in paths,
                "langsmith": False,
                "langsmith_tracing_replicas": False,
                "langsmith_tracing_session_on_runs": False,
            },
            "host": {
                "kind": "self-hosted",
                "project_id": None,
                "host_revision_id": None,
                "revision_id": None,
                "tenant_id": None,
            },
        }
    )


_CHECK_DB = (Query("check_db", BOOLEAN),)

ENDPOINTS = (
    Endpoint("GET", "/ok", ok, "Say that the server is up", "System", answer="Ok", query=_CHECK_DB),
    Endpoint("GET", "/", ok, "Say that the server is up", "System", answer="Ok", query=_CHECK_DB),
    Endpoint("GET", "/info", info, "Describe the server", "System", answer="Info", errors=()),
)
