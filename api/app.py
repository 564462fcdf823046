"""Create the FastAPI application of our own routes, which langgraph.json names as http.app.

It runs inside our server, inside the official server, or alone. Its lifespan opens the tool plane and the tool
registry. Its routes call the LangGraph API as a client (api/langgraph_client.py).
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.routing import Route

from toolweave import __version__
from toolweave.api.core_server import MCP_PATH, MOUNT_PATH, CoreServerMount
from toolweave.api.errors import answer_error, answer_invalid_body
from toolweave.api.langgraph_client import KnownCallerMiddleware
from toolweave.api.request_bodies import MIB, BodyLimit, BodyLimiter
from toolweave.api.routes import chat, health, openapi_import, servers, tools, workflow
from toolweave.api.routes.servers import register_metrics
from toolweave.api.routes.tools import open_app_registry
from toolweave.config.settings import Settings, load_settings
from toolweave.errors import ToolweaveError
from toolweave.nodes.model_endpoint import warn_if_offline
from toolweave.servers.connections.plane_slot import open_configured_plane, plane_slot

ROUTERS = (chat.router, health.router, servers.router, workflow.router, openapi_import.router, tools.router)
IMPORT_PATHS = re.compile("^/tools/import(/openapi)?$")
IMPORT_LIMIT = BodyLimit(16 * MIB, openapi_import.MAX_DOCUMENT_VALUES)
CORE_PATH = re.compile(f"^{MOUNT_PATH}{MCP_PATH}/?$")
# The MCP SDK itself refuses bodies over 4 MiB.
CORE_LIMIT = BodyLimit(32 * MIB)


def create_app(settings: Settings | None = None) -> FastAPI:
    """Create the application; it reads settings and opens connections only when its lifespan starts."""
    core = CoreServerMount()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        plane_slot.expect_plane()
        app.state.settings = settings or load_settings()
        warn_if_offline(app.state.settings)
        async with core.serve(app.state.settings), open_configured_plane(app.state.settings) as plane:
            app.state.plane = plane
            plane_slot.set_plane(plane)
            try:
                async with open_app_registry(app.state.settings) as app.state.registry:
                    with register_metrics(plane):
                        yield
            finally:
                plane_slot.clear_plane(plane)

    app = FastAPI(title="Toolweave", version=__version__, lifespan=lifespan)
    app.add_exception_handler(RequestValidationError, answer_invalid_body)
    app.add_exception_handler(ToolweaveError, answer_error)
    paths = tuple(route.path_regex for each in ROUTERS for route in each.routes if isinstance(route, Route))
    app.add_middleware(
        BodyLimiter, limits={IMPORT_PATHS: IMPORT_LIMIT, CORE_PATH: CORE_LIMIT, **dict.fromkeys(paths, BodyLimit(MIB))}
    )
    # Outside the body limit: unknown callers must not learn the limits.
    app.add_middleware(KnownCallerMiddleware, paths=paths)
    for router in ROUTERS:
        app.include_router(router)
    # Mounted last: our own routes under the same path take precedence.
    app.mount(MOUNT_PATH, core)
    return app


app = create_app()
