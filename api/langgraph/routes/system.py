"""Endpoints of the server itself: health, metrics and description."""

from langgraph.version import __version__ as langgraph_version
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from toolweave.api.langgraph.answers import json_answer
from toolweave.api.langgraph.auth import rules
from toolweave.api.langgraph.endpoints import Endpoints
from toolweave.api.langgraph.json_schema import FLAG, one_of
from toolweave.api.langgraph.metrics import ServerMetrics
from toolweave.api.langgraph.requests import QueryParam, read_json
from toolweave.api.langgraph.services import get_services
from toolweave.api.langgraph_client import SERVER_APP_KEY

# The version of the LangGraph API that is implemented: clients such as Studio choose features by it.
API_VERSION = "0.16.7"

endpoints = Endpoints("System")
# Requested by clients, but always 404; not in the OpenAPI document, as on the official server.
unpublished = Endpoints("System")
_CHECK_DB = QueryParam("check_db", FLAG)
_FORMAT = QueryParam("format", one_of("prometheus", "json"))


@endpoints("GET /", None, answer="Ok", errors=(422, 503), query=(_CHECK_DB,))
@endpoints("GET /ok", None, answer="Ok", errors=(422, 503), query=(_CHECK_DB,))
async def get_ok(request: Request) -> Response:
    """Report that the server is up.

    With `check_db`, also check that its database is writable (503 if not).
    """
    if _CHECK_DB.read(request):
        await get_services(request).persistence.app.require_writable()
    return json_answer({"ok": True, "services": {}})


@endpoints("GET /metrics", None, answer="Metrics", media_type="text/plain", switch="disable_meta", query=(_FORMAT,))
async def get_metrics(request: Request) -> Response:
    """Get the server's metrics.

    In the text format of Prometheus, or as JSON.
    """
    server_metrics: ServerMetrics = request.scope[SERVER_APP_KEY].state.metrics
    engine = get_services(request).engine
    load = await engine.load()
    if _FORMAT.read(request) == "json":
        return json_answer(server_metrics.as_json(engine, load))
    # Starlette's media types would add a second charset.
    return Response(server_metrics.prometheus_text(load), headers={"content-type": CONTENT_TYPE_LATEST})


@endpoints("GET /info", None, switch="disable_meta", answer="Info", errors=())
async def get_info(request: Request) -> Response:
    """Describe the server.

    Clients read the API version and the available features.
    """
    paths = {getattr(route, "path", "") for route in request.scope[SERVER_APP_KEY].routes}
    return json_answer(
        {
            "version": API_VERSION,
            "langgraph_py_version": langgraph_version,
            "flags": {
                "assistants": True,
                "crons": "/runs/crons" in paths,
                **dict.fromkeys(
                    ("langsmith", "langsmith_tracing_replicas", "langsmith_tracing_session_on_runs"), False
                ),
                **dict.fromkeys(("strict_resume", "stream_namespaces"), True),
            },
            "host": {
                "kind": "self-hosted",
                **dict.fromkeys(("project_id", "host_revision_id", "revision_id", "tenant_id"), None),
            },
        }
    )


@unpublished("POST /ui/{graph}", rules.read_interface, switch="disable_ui")
async def get_ui(request: Request) -> Response:
    """Load a user interface.

    There are none; clients display the text of the 404.
    """
    await read_json(request)
    return PlainTextResponse(f"UI not found for graph '{request.path_params['graph'][:200]}'", 404)
