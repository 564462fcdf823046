"""Create the application of the LangGraph-compatible server for one langgraph.json."""

import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from loguru import logger
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolweave.api.errors import EXCEPTION_HANDLERS, OUTERMOST_HANDLERS, detail_response
from toolweave.api.http_guard import AccessRules, HttpGuard
from toolweave.api.langgraph.answers import json_answer
from toolweave.api.langgraph.auth.authentication import Authentication, load_auth
from toolweave.api.langgraph.custom_app import (
    CustomRoutes,
    custom_lifespan,
    custom_openapi,
    load_custom_app,
    ordered_middleware,
)
from toolweave.api.langgraph.endpoints import (
    DOCS_HEADERS,
    Endpoint,
    add_security,
    authorized_endpoints,
    docs_page,
    enabled_endpoints,
    group_by_path,
    openapi_document,
)
from toolweave.api.langgraph.metrics import MeasureRequests, ServerMetrics
from toolweave.api.langgraph.routes import a2a, assistants, crons, mcp, protocol, runs, store, system, threads
from toolweave.api.langgraph.routes.crons import fire_callback
from toolweave.api.langgraph.routes.protocol_socket import websocket_routes
from toolweave.api.langgraph.services import open_services
from toolweave.api.langgraph.webhooks import sending_webhooks
from toolweave.api.langgraph_client import MOUNT_PREFIX_KEY, SERVER_APP_KEY
from toolweave.api.request_ids import RequestIds
from toolweave.config.langgraph_json import LangGraphJson
from toolweave.config.settings import Settings
from toolweave.errors import ToolweaveError
from toolweave.runtime.background import watch_event_loop
from toolweave.runtime.crons import run_cron_scheduler
from toolweave.runtime.models import JsonObject
from toolweave.studio.site import STUDIO_PATHS, studio_routes


class LifespanErrorMiddleware:
    """ASGI middleware that reports a failed start or stop of the lifespan with a readable message."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass requests on; replace the traceback that the router sends after a failed start or stop."""
        if scope["type"] != "lifespan":
            # Under its own key: scope["app"] may become the application of http.app.
            scope[SERVER_APP_KEY] = scope["app"]
            await self._app(scope, receive, send)
            return
        failed: list[Message] = []

        async def hold_failures(message: Message) -> None:
            if message["type"].endswith(".failed"):
                failed.append(message)
            else:
                await send(message)

        try:
            await self._app(scope, receive, hold_failures)
        except Exception as error:  # noqa: BLE001 - the top-level handler of the lifespan
            kind = failed[0]["type"] if failed else "lifespan.startup.failed"
            await send({"type": kind, "message": _failure_text(error)})


def _failure_text(error: Exception) -> str:
    if isinstance(error, ToolweaveError):
        return str(error)
    logger.opt(exception=error).debug("the lifespan failed")
    return f"{type(error).__name__}: {error} (the traceback is in the log at level DEBUG)"


# Health checks call this path without the prefix.
UNPREFIXED_PATH = "/ok"


class MountPrefix:
    """ASGI middleware that moves the prefix into the root path and answers 404 to paths outside of it."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request below the prefix."""
        if scope["type"] not in ("http", "websocket") or scope["path"] == UNPREFIXED_PATH:
            await self._app(scope, receive, send)
            return
        path, prefix = scope["path"], self._prefix
        if path == prefix or path.startswith(f"{prefix}/"):
            scope["root_path"] = scope.get("root_path", "") + prefix
            scope[MOUNT_PREFIX_KEY] = prefix
            await self._app(scope, receive, send)
        else:
            await detail_response(404, "Not Found")(scope, receive, send)


ENDPOINTS: tuple[Endpoint, ...] = (
    *system.endpoints,
    *assistants.endpoints,
    *crons.endpoints,
    *threads.endpoints,
    *runs.endpoints,
    *protocol.endpoints,
    *runs.stateless,
    *store.endpoints,
    *mcp.endpoints,
    *a2a.endpoints,
)
# Open to all callers, like the studio's files and endpoints without a rule, as in the official server.
DOCUMENTATION_PATHS = ("/openapi.json", "/docs", "/docs/{file}")
PAGE_PATHS = frozenset((*DOCUMENTATION_PATHS, *STUDIO_PATHS))


def create_langgraph_app(config: LangGraphJson, settings: Settings, *, executes_runs: bool = True) -> Starlette:
    """Create the server's application: the API and http.app of langgraph.json, whose module is imported now.

    The data folder and the graphs (`app.state.services`) open when the lifespan starts; that of http.app runs inside.
    On PostgreSQL other processes execute the runs unless this one `executes_runs`.

    Raises:
        ConfigError: http.app or auth.path cannot be loaded.
    """
    prepare_imports(config)
    custom, auth = load_custom_app(config), load_auth(config)
    slots = settings.max_concurrent_runs if executes_runs else 0
    metrics = ServerMetrics(workers=slots)
    rules = AccessRules.from_settings(settings, config.http.cors)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[Mapping[str, Any]]:
        async with open_services(config, settings, slots=slots) as services:
            app.state.services = services
            async with custom_lifespan(custom) as state:
                try:
                    # Not earlier: the graphs of unfinished runs may need resources that http.app has opened.
                    await services.engine.recover()
                    with metrics.observe_engine(services.engine):
                        async with (
                            run_cron_scheduler(services.persistence.crons, fire_callback(services)),
                            sending_webhooks(app, services.persistence.webhooks, services.webhooks, config, settings),
                            watch_event_loop(),
                        ):
                            yield state
                finally:
                    # Before the resources of runs close: stopped runs continue at the next start, instead of failing.
                    await services.engine.stop()

    published = enabled_endpoints(ENDPOINTS, config.http)
    endpoints = authorized_endpoints((*published, *enabled_endpoints(system.unpublished, config.http)), auth)
    sockets = websocket_routes(authorized_endpoints(enabled_endpoints(protocol.sockets, config.http), auth), endpoints)
    pages = [*_docs_routes(published, config, custom), *([] if config.http.disable_ui else studio_routes())]
    routes: list[BaseRoute] = [*group_by_path(endpoints), *sockets, *pages]
    if custom is not None:
        routes = [CustomRoutes(custom, last=False), *routes, CustomRoutes(custom, last=True)]
    public_paths = PAGE_PATHS | {each.path for each in endpoints if each.rule is None}
    authentication = Middleware(Authentication, handlers=auth, routes=routes, public_paths=public_paths, config=config)
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(LifespanErrorMiddleware),
            Middleware(RequestIds),
            Middleware(HttpGuard, rules=rules),
            Middleware(MeasureRequests, metrics=metrics),
            Middleware(ExceptionMiddleware, handlers=OUTERMOST_HANDLERS),
            *([Middleware(MountPrefix, prefix=config.http.mount_prefix)] if config.http.mount_prefix else []),
            *ordered_middleware(custom, authentication, config.http.middleware_order),
        ],
        exception_handlers={**EXCEPTION_HANDLERS, store.BadLabelError: store.bad_label_response},
        lifespan=lifespan,
    )
    # Read by http.app, to skip the API's check of callers if it has none, and to apply the same access rules.
    app.state.metrics, app.state.has_auth, app.state.access_rules = metrics, auth is not None, rules
    return app


def prepare_imports(config: LangGraphJson) -> None:
    """Set the environment variables and import paths that the application's modules need."""
    config.apply_env()
    folders = [config.path.absolute().parent, *map(Path, config.dependencies)]
    # Builds of images install packages from `src`; here they are imported from there.
    for folder in (*folders, *(folder / "src" for folder in folders)):
        if folder.is_dir() and str(folder) not in sys.path:
            sys.path.append(str(folder))


def _docs_routes(endpoints: Iterable[Endpoint], config: LangGraphJson, custom: Starlette | None) -> list[BaseRoute]:
    if config.http.disable_meta:
        return []

    files = StaticFiles(packages=[("fastapi_offline", "static")])

    def document() -> JsonObject:
        return add_security(openapi_document(endpoints, custom_openapi(custom)), config)

    async def openapi(request: Request) -> Response:
        root = request.scope.get("root_path")
        return json_answer(document() | ({"servers": [{"url": root}]} if root else {}))

    async def docs(_request: Request) -> Response:
        return HTMLResponse(docs_page(document()["info"]["title"]), headers=DOCS_HEADERS)

    async def docs_file(request: Request) -> Response:
        return await files.get_response(request.path_params["file"], request.scope)

    return [Route(path, page) for path, page in zip(DOCUMENTATION_PATHS, (openapi, docs, docs_file), strict=True)]
