"""Serve the application that langgraph.json names beside the API: its routes win, and keep their middleware."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Match, Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from toolweave.api.langgraph_client import MOUNT_PREFIX_KEY
from toolweave.config.langgraph_json import LangGraphJson
from toolweave.errors import ConfigError
from toolweave.runtime.graphs import load_target
from toolweave.runtime.models import JsonObject


def load_custom_app(config: LangGraphJson) -> Starlette | None:
    """Load http.app; None when langgraph.json names none.

    Raises:
        ConfigError: it cannot be loaded, or is neither a FastAPI nor a Starlette application.
    """
    target = config.http.app
    if target is None:
        return None
    app = load_target(target, config.path.parent, what="http.app", source=str(config.path))
    if not isinstance(app, Starlette):
        raise ConfigError(
            f"http.app {target!r} is a {type(app).__name__}, not an application.",
            source=str(config.path),
            fix="Name a FastAPI or Starlette application.",
        )
    return app


class CustomRoutes(BaseRoute):
    """Everything under the application's own routes, as one route of ours.

    A request that one of them matches goes through the whole application, middleware included. Its generated
    documentation pages stay out: ours describe both. A mount at "/" would swallow the API, so it comes last:
    make one object with `last=False` and one with `last=True`.
    """

    def __init__(self, app: Starlette, *, last: bool) -> None:
        self._app = app
        self._last = last
        self._generated = _generated_paths(app)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match as the best of the application's routes does."""
        if (
            scope["type"] not in ("http", "websocket")
            or scope["path"].removeprefix(scope.get(MOUNT_PREFIX_KEY, "")) in self._generated
        ):
            return Match.NONE, {}
        matches = (route.matches(scope)[0] for route in self._app.routes if _is_root_mount(route) is self._last)
        return max(matches, key=lambda match: match.value, default=Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request to the application, which finds the whole server under its own key in the scope."""
        scope.pop("router", None)
        await self._app(scope, receive, send)


class CustomAppScope:
    """ASGI middleware before the application's own: that looks for the application in the scope, with its state."""

    def __init__(self, app: ASGIApp, application: Starlette) -> None:
        self._app = app
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on as one to the application."""
        if scope["type"] in ("http", "websocket"):
            scope["app"] = self._application
        await self._app(scope, receive, send)


def ordered_middleware(
    custom: Starlette | None, authentication: Middleware, order: Literal["auth_first", "middleware_first"]
) -> list[Middleware]:
    """Give what stands around all routes: the application's middleware, and authentication inside or outside of it.

    The application itself is left without its middleware: it would do its work twice.
    """
    if custom is None:
        return [authentication]
    own = list(custom.user_middleware)
    custom.user_middleware = []
    custom.middleware_stack = custom.build_middleware_stack()
    custom.user_middleware = own
    around = [Middleware(CustomAppScope, application=custom), *own]
    return [authentication, *around] if order == "auth_first" else [*around, authentication]


@asynccontextmanager
async def custom_lifespan(app: Starlette | None) -> AsyncIterator[Mapping[str, Any]]:
    """Run the application's lifespan; gives the state that its requests see."""
    if app is None:
        yield {}
        return
    async with app.router.lifespan_context(app) as state:
        yield state or {}


def custom_openapi(app: Starlette | None) -> JsonObject:
    """Give the application's own OpenAPI document; empty when it makes none."""
    return app.openapi() if isinstance(app, FastAPI) and app.openapi_url else {}


def _generated_paths(app: Starlette) -> frozenset[str]:
    if not isinstance(app, FastAPI):
        return frozenset()
    urls = {app.openapi_url, app.docs_url, app.redoc_url, app.swagger_ui_oauth2_redirect_url}
    written = {getattr(route, "path", None) for route in app.routes if getattr(route, "include_in_schema", True)}
    return frozenset(url for url in urls - written if url is not None)


def _is_root_mount(route: BaseRoute) -> bool:
    return isinstance(route, Mount) and route.path == ""
