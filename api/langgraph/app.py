"""Compose the LangGraph-compatible server for one langgraph.json."""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from toolweave.api.errors import EXCEPTION_HANDLERS, UnexpectedErrors
from toolweave.api.http_guard import HttpGuard, Visitors
from toolweave.api.langgraph.answers import json_answer
from toolweave.api.langgraph.auth.authentication import Authentication, load_auth
from toolweave.api.langgraph.auth.authorization import guarded
from toolweave.api.langgraph.auth.published import secured
from toolweave.api.langgraph.custom_app import (
    CustomRoutes,
    custom_lifespan,
    custom_openapi,
    in_order,
    load_custom_app,
)
from toolweave.api.langgraph.enabled import enabled
from toolweave.api.langgraph.endpoint import Endpoint, resources
from toolweave.api.langgraph.meters import MeasureRequests, Meters
from toolweave.api.langgraph.mount_prefix import MountPrefix
from toolweave.api.langgraph.openapi import docs_page, openapi_document
from toolweave.api.langgraph.routes import (
    a2a,
    assistant_graphs,
    assistants,
    crons,
    mcp,
    protocol,
    run_cancellation,
    runs,
    stateless_runs,
    store,
    system,
    thread_state,
    thread_storage,
    thread_stream,
    threads,
)
from toolweave.api.langgraph.routes.crons import firing
from toolweave.api.langgraph.routes.protocol_socket import event_sockets
from toolweave.api.langgraph.served import open_served
from toolweave.api.langgraph.startup_report import StartupReport
from toolweave.api.langgraph.webhooks import sending_webhooks
from toolweave.config.langgraph_json import LangGraphJson
from toolweave.config.settings import Settings
from toolweave.runtime.crons import running_cron_clock
from toolweave.runtime.loop_watchdog import watching_event_loop
from toolweave.runtime.models import JsonObject

ENDPOINTS: tuple[Endpoint, ...] = (
    *system.ENDPOINTS,
    *assistants.ENDPOINTS,
    *assistant_graphs.ENDPOINTS,
    *crons.ENDPOINTS,
    # Before threads: `prune` is not the id of one.
    *thread_storage.ENDPOINTS,
    *threads.ENDPOINTS,
    *thread_stream.ENDPOINTS,
    *thread_state.ENDPOINTS,
    *runs.ENDPOINTS,
    *protocol.ENDPOINTS,
    *run_cancellation.ENDPOINTS,
    *stateless_runs.ENDPOINTS,
    *store.ENDPOINTS,
    *mcp.ENDPOINTS,
    *a2a.ENDPOINTS,
)


def create_langgraph_app(config: LangGraphJson, settings: Settings) -> Starlette:
    """Create the server's application: the API, and beside it the application that langgraph.json names.

    Nothing is opened before its lifespan starts; that one opens the data folder and the graphs (`app.state.served`)
    and runs the named application's lifespan inside. Loading that application imports its module here.

    Raises:
        ConfigError: http.app or auth.path cannot be loaded.
    """
    make_importable(config)
    custom, auth = load_custom_app(config), load_auth(config)
    meters, visitors = Meters(workers=settings.max_concurrent_runs), Visitors.of(settings, config.http.cors)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[Mapping[str, Any]]:
        async with open_served(config, settings) as here:
            app.state.served = here
            async with custom_lifespan(custom) as state:
                try:
                    # Only now: the graphs of unfinished runs may need what the named application has opened.
                    await here.engine.recover()
                    with meters.watching(here.engine):
                        async with (
                            running_cron_clock(here.persistence.crons, firing(here)),
                            sending_webhooks(app, here.persistence.webhooks, here.webhooks, config, settings),
                            watching_event_loop(),
                        ):
                            yield state
                finally:
                    # Runs stop before what they use is closed: they go on at the next start, instead of failing.
                    await here.engine.stop()

    published = enabled(ENDPOINTS, config.http)
    endpoints = guarded((*published, *enabled(system.UNPUBLISHED, config.http)), auth)
    sockets = event_sockets(guarded(enabled(protocol.SOCKET_ENDPOINTS, config.http), auth))
    routes: list[BaseRoute] = [*resources(endpoints), *sockets, *_documentation(published, config, custom)]
    if custom is not None:
        routes = [CustomRoutes(custom, last=False), *routes, CustomRoutes(custom, last=True)]
    authentication = Middleware(Authentication, handlers=auth, routes=routes, config=config)
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(StartupReport),
            Middleware(HttpGuard, visitors=visitors),
            Middleware(MeasureRequests, meters=meters),
            Middleware(UnexpectedErrors),
            *([Middleware(MountPrefix, prefix=config.http.mount_prefix)] if config.http.mount_prefix else []),
            *in_order(custom, authentication, config.http.middleware_order),
        ],
        exception_handlers=EXCEPTION_HANDLERS,
        lifespan=lifespan,
    )
    app.state.meters = meters
    # For applications beside the API: one would otherwise ask it about every caller, or about none.
    app.state.knows_callers, app.state.visitors = auth is not None, visitors
    return app


def make_importable(config: LangGraphJson) -> None:
    """Set what the application's modules expect to find when they are imported: its environment and its folders."""
    config.apply_env()
    folders = [config.path.absolute().parent, *map(Path, config.dependencies)]
    # A package that lies in `src` is installed from there where images are built; here it is found there.
    for folder in (*folders, *(folder / "src" for folder in folders)):
        if folder.is_dir() and str(folder) not in sys.path:
            sys.path.append(str(folder))


def _documentation(endpoints: tuple[Endpoint, ...], config: LangGraphJson, custom: Starlette | None) -> list[BaseRoute]:
    if config.http.disable_meta:
        return []

    def document() -> JsonObject:
        return secured(openapi_document(endpoints, custom_openapi(custom)), config)

    async def openapi(_request: Request) -> Response:
        return json_answer(document())

    async def docs(_request: Request) -> Response:
        return HTMLResponse(docs_page(document()))

    return [Route("/openapi.json", openapi), Route("/docs", docs)]
