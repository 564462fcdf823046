"""Load the core server when it is first needed, and not when this package is imported (S-04).

FastMCP takes more than half a second: `load` belongs on a thread, afterwards the functions here cost nothing.
"""

import logging
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from toolweave.config.settings import Settings

if TYPE_CHECKING:
    from fastmcp import FastMCP
    from starlette.types import ASGIApp


def load() -> None:
    """Import the core server and the libraries it is built on."""
    from toolweave.servers.core import http_app  # noqa: F401, PLC0415

    # Importing it has given it a handler of its own, beside the log of the process.
    logging.getLogger("fastmcp").handlers.clear()
    logging.getLogger("fastmcp").propagate = True


def open_server(settings: Settings) -> "AbstractAsyncContextManager[FastMCP[None]]":
    """Open the server for use in this process; see `server.open_core_server`."""
    from toolweave.servers.core import server  # noqa: PLC0415

    return server.open_core_server(settings)


def open_http_app(settings: Settings, path: str) -> "AbstractAsyncContextManager[ASGIApp]":
    """Open the server as an ASGI application; see `http_app.open_http_app`."""
    from toolweave.servers.core import http_app  # noqa: PLC0415

    return http_app.open_http_app(settings, path)
