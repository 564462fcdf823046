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
from toolweave.api.langgraph.cron_request import firing
from toolweave.api.langgraph.custom_app import CustomRoutes, custom_lifespan, custom_openapi, load_custom_app
from toolweave.api.langgraph.docs_page import docs_page
from toolweave.api.langgraph.endpoint import Endpoint, resources
from toolweave.api.langgraph.meters import MeasureRequests, Meters
from toolweave.api.langgraph.openapi import openapi_document
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
from toolweave.api.langgraph.served import open_served
from toolweave.api.langgraph.startup_report import StartupReport
from toolweave.api.langgraph.webhook_sender import sending_webhooks
from toolweave.config.langgraph_json import LangGraphJson
from toolweave.config.settings import Settings
from toolweave.runtime.crons.clock import running_cron_clock

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
        ConfigError: http.app cannot be loaded.
    """
    make_importable(config)
    custom = load_custom_app(config)
    meters = Meters(workers=settings.max_concurrent_runs)

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
                        ):
                            yield state
                finally:
                    # Runs stop before what they use is closed: they go on at the next start, instead of failing.
                    await here.engine.stop()

    app_routes: list[BaseRoute] = [*resources((*ENDPOINTS, *system.UNPUBLISHED)), *_documentation(custom)]
    routes = app_routes if custom is None else _around(custom, app_routes)
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(StartupReport),
            Middleware(HttpGuard, visitors=Visitors.of(settings)),
            Middleware(MeasureRequests, meters=meters),
            Middleware(UnexpectedErrors),
        ],
        exception_handlers=EXCEPTION_HANDLERS,
        lifespan=lifespan,
    )
    app.state.meters = meters
    return app


def make_importable(config: LangGraphJson) -> None:
    """Set what the application's modules expect to find when they are imported: its environment and its folders."""
    config.apply_env()
    for folder in config.dependencies:
        if Path(folder).is_dir() and folder not in sys.path:
            sys.path.append(folder)


def _around(custom: Starlette, routes: list[BaseRoute]) -> list[BaseRoute]:
    return [CustomRoutes(custom, last=False), *routes, CustomRoutes(custom, last=True)]


def _documentation(custom: Starlette | None) -> list[BaseRoute]:
    async def openapi(_request: Request) -> Response:
        return json_answer(openapi_document(ENDPOINTS, custom_openapi(custom)))

    async def docs(_request: Request) -> Response:
        return HTMLResponse(docs_page(openapi_document(ENDPOINTS, custom_openapi(custom))))

    return [Route("/openapi.json", openapi), Route("/docs", docs)]
