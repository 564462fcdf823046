"""Load the core server when it is first needed, and not when this package is imported (S-04).

FastMCP takes more than half a second: `load` belongs on a thread, afterwards the functions here cost nothing.
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
    """Import the core server and the libraries it is built on."""
    from fastmcp.client import transports  # noqa: F401, PLC0415

    from toolweave.servers import program  # noqa: PLC0415
    from toolweave.servers.core import http_app  # noqa: F401, PLC0415

    # Importing it has given it a handler of its own, beside the log of the process.
    logging.getLogger("fastmcp").handlers.clear()
    logging.getLogger("fastmcp").propagate = True
    program.quiet_framework_logs()


@asynccontextmanager
async def open_in_process_session(settings: Settings, options: dict[str, Any]) -> AsyncIterator["ClientSession"]:
    """Open the server and a session with it, to be initialised: messages over streams in memory, no port, no token.

    `options` are further arguments of the `ClientSession`. Both end with the block.

    Raises:
        ConfigError: a setting that a tool needs cannot be used.
    """
    from fastmcp.client.transports import FastMCPTransport  # noqa: PLC0415

    from toolweave.servers.core.server import open_core_server  # noqa: PLC0415

    async with open_core_server(settings) as server, FastMCPTransport(server).connect_session(**options) as session:
        yield session


def open_http_app(settings: Settings, path: str) -> "AbstractAsyncContextManager[ASGIApp]":
    """Open the server as an ASGI application; see `http_app.open_http_app`."""
    from toolweave.servers.core import http_app  # noqa: PLC0415

    return http_app.open_http_app(settings, path)
