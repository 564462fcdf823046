"""Load the core server when it is first needed, and not when this package is imported (S-04).

FastMCP takes more than half a second: `load` belongs on a thread, afterwards the functions here cost nothing.
"""

import logging
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from toolweave.config.settings import Settings

if TYPE_CHECKING:
    from mcp import ClientSession
    from starlette.types import ASGIApp


def load() -> None:
    """Import the core server and the libraries it is built on."""
    from toolweave.servers import standalone  # noqa: PLC0415
    from toolweave.servers.core import http_app, in_process  # noqa: F401, PLC0415

    # Importing it has given it a handler of its own, beside the log of the process.
    logging.getLogger("fastmcp").handlers.clear()
    logging.getLogger("fastmcp").propagate = True
    standalone.quiet_framework_logs()


def open_in_process(settings: Settings, options: dict[str, Any]) -> "AbstractAsyncContextManager[ClientSession]":
    """Open the server and a session with it in this process; see `in_process.in_process_session`."""
    from toolweave.servers.core import in_process  # noqa: PLC0415

    return in_process.in_process_session(settings, options)


def open_http_app(settings: Settings, path: str) -> "AbstractAsyncContextManager[ASGIApp]":
    """Open the server as an ASGI application; see `http_app.open_http_app`."""
    from toolweave.servers.core import http_app  # noqa: PLC0415

    return http_app.open_http_app(settings, path)
