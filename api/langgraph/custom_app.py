"""Serve the application of http.app beside the API: its routes take precedence and keep their middleware."""

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
from toolweave.runtime.graphs import load_object
from toolweave.runtime.models import JsonObject


def load_custom_app(config: LangGraphJson) -> Starlette | None:
    """Load the application of http.app; return None if langgraph.json has none.

    Raises:
        ConfigError: the application cannot be loaded, or is neither a FastAPI nor a Starlette application.
    """
    target = config.http.app
    if target is None:
        return None
    return load_object(config, target, what="http.app", kind=Starlette, fix="Name a FastAPI or Starlette application.")


class CustomRoutes(BaseRoute):
    """All routes of the application, as one route of ours.

    Matching requests pass through the whole application and its middleware. Its generated documentation pages are not
    served: ours describe both. Add one object with `last=False` before the API and one with `last=True` after it, with
    the mounts at "/", which match every request.
    """

    def __init__(self, app: Starlette, *, last: bool) -> None:
        self._app = app
        self._last = last
        self._generated = _generated_paths(app)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return the best match among the application's routes."""
        if (
            scope["type"] not in ("http", "websocket")
            or scope["path"].removeprefix(scope.get(MOUNT_PREFIX_KEY, "")) in self._generated
        ):
            return Match.NONE, {}
        matches = (route.matches(scope)[0] for route in self._app.routes if _is_root_mount(route) is self._last)
        return max(matches, key=lambda match: match.value, default=Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request to the application."""
        scope.pop("router", None)
        await self._app(scope, receive, send)


class CustomAppScope:
    """ASGI middleware that sets scope["app"] for the application's own middleware, which may read its state."""

    def __init__(self, app: ASGIApp, application: Starlette) -> None:
        self._app = app
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Set the application, then pass the request on."""
        if scope["type"] in ("http", "websocket"):
            scope["app"] = self._application
        await self._app(scope, receive, send)


def ordered_middleware(
    custom: Starlette | None, authentication: Middleware, order: Literal["auth_first", "middleware_first"]
) -> list[Middleware]:
    """Return the middleware of all routes: the application's own, with authentication before or after it.

    Remove the middleware from the application itself, where it would run a second time.
    """
    if custom is None:
        return [authentication]
    own = list(custom.user_middleware)
    custom.user_middleware = []
    custom.middleware_stack = custom.build_middleware_stack()
    custom.user_middleware = own
    custom_middleware = [Middleware(CustomAppScope, application=custom), *own]
    return [authentication, *custom_middleware] if order == "auth_first" else [*custom_middleware, authentication]


@asynccontextmanager
async def custom_lifespan(app: Starlette | None) -> AsyncIterator[Mapping[str, Any]]:
    """Run the application's lifespan, and yield the state for its requests."""
    if app is None:
        yield {}
        return
    async with app.router.lifespan_context(app) as state:
        yield state or {}


def custom_openapi(app: Starlette | None) -> JsonObject:
    """Return the application's own OpenAPI document; empty if it has none."""
    return app.openapi() if isinstance(app, FastAPI) and app.openapi_url else {}


def _generated_paths(app: Starlette) -> frozenset[str]:
    if not isinstance(app, FastAPI):
        return frozenset()
    urls = {app.openapi_url, app.docs_url, app.redoc_url, app.swagger_ui_oauth2_redirect_url}
    own_paths = {getattr(route, "path", None) for route in app.routes if getattr(route, "include_in_schema", True)}
    return frozenset(url for url in urls - own_paths if url is not None)


def _is_root_mount(route: BaseRoute) -> bool:
    return isinstance(route, Mount) and route.path == ""
