"""Import the core server when it is first needed instead of with this package (S-04).

Importing FastMCP takes more than half a second: run `import_core_server` on a thread before the other functions.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from toolweave.config.settings import Settings

if TYPE_CHECKING:
    from mcp import ClientSession
    from starlette.types import ASGIApp


def import_core_server() -> None:
    """Import the core server and its libraries."""
    from fastmcp.client import transports  # noqa: F401, PLC0415

    from toolweave.servers import program  # noqa: PLC0415
    from toolweave.servers.core import http_app  # noqa: F401, PLC0415

    # On import FastMCP installs its own log handler beside the process's.
    logging.getLogger("fastmcp").handlers.clear()
    logging.getLogger("fastmcp").propagate = True
    program.quiet_framework_logs()


@asynccontextmanager
async def open_in_process_session(settings: Settings, options: dict[str, Any]) -> AsyncIterator["ClientSession"]:
    """Open the server and an uninitialised client session with it over streams in memory, without port or token.

    `options` are further arguments of the `ClientSession`. Both close with the context.

    Raises:
        ConfigError: a setting that a tool needs is invalid.
    """
    from fastmcp.client.transports import FastMCPTransport  # noqa: PLC0415

    from toolweave.servers.core.server import open_core_server  # noqa: PLC0415

    async with open_core_server(settings) as server, FastMCPTransport(server).connect_session(**options) as session:
        yield session


def open_http_app(settings: Settings, path: str) -> "AbstractAsyncContextManager[ASGIApp]":
    """Open the server as an ASGI application; see `http_app.open_http_app`."""
    from toolweave.servers.core import http_app  # noqa: PLC0415

    return http_app.open_http_app(settings, path)
