"""Make the core server an ASGI application: sessions that end by themselves, callers checked by their tokens."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp.server.http import StarletteWithLifespan, StreamableHTTPASGIApp
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import ASGIApp

from toolweave.config.settings import Settings
from toolweave.servers.core.auth import core_auth
from toolweave.servers.core.server import open_core_server
from toolweave.servers.core.sessions import BoundedSessions, OwnedSessions


@asynccontextmanager
async def open_http_app(settings: Settings, path: str) -> AsyncIterator[ASGIApp]:
    """Open the core server over streamable HTTP at `path`; its sessions end with the block.

    With sessions and event streams, because progress, logs and cancellations need them. The application does not look
    at Host and Origin: whoever serves it does.

    Raises:
        ConfigError: a `core_…` setting cannot be used.
    """
    async with open_core_server(settings, auth=core_auth(settings)) as server:
        app = server.http_app(
            path=path, transport="http", json_response=False, stateless_http=False, host_origin_protection=False
        )
        async with app.lifespan(app):
            yield BoundedSessions(OwnedSessions(app), sessions_of(app, path))


def sessions_of(app: StarletteWithLifespan, path: str) -> StreamableHTTPSessionManager:
    """Find the sessions of an application: FastMCP offers no other way to limit them."""
    endpoint: Any = next(getattr(route, "endpoint", None) for route in app.routes if getattr(route, "path", "") == path)
    while not isinstance(endpoint, StreamableHTTPASGIApp):
        endpoint = endpoint.app  # what requires authentication stands around it
    assert endpoint.session_manager is not None, "it is made by the lifespan"  # noqa: S101 - for the type
    return endpoint.session_manager
