"""Import the MCP libraries when a connection first needs them, not when this package is imported (S-04).

The import includes uvicorn and starlette and takes about a second: call `load_mcp` on a thread. No other module imports
`toolweave.servers.connections.sessions.session`.
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING

from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.oauth import TokenLocation
from toolweave.servers.connections.sessions.monitor import SessionMonitor

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from toolweave.servers.connections.oauth.authorization import ServerAuthorization
    from toolweave.servers.connections.sessions.session import McpSession


def load_mcp() -> None:
    """Import the MCP libraries."""
    from toolweave.servers.connections.sessions import session  # noqa: F401, PLC0415


def open_session(config: McpServerConfig, monitor: SessionMonitor) -> "AbstractAsyncContextManager[McpSession]":
    """Open an initialised session; see `session.open_session`."""
    from toolweave.servers.connections.sessions import session  # noqa: PLC0415

    return session.open_session(config, monitor)


def open_authorization(
    config: McpServerConfig, location: TokenLocation | None, on_token: Callable[[str], None]
) -> "AbstractAsyncContextManager[ServerAuthorization | None]":
    """Open the authorization that adds tokens to a server's requests; see `authorization.open_authorization`."""
    if config.auth is None:
        return nullcontext()
    from toolweave.servers.connections.oauth import authorization  # noqa: PLC0415

    return authorization.open_authorization(config, location, on_token)


async def error_result(text: str, kind: str) -> "CallToolResult":
    """Return the result of a failed call; see `session.failed_result`."""
    if "toolweave.servers.connections.sessions.session" not in sys.modules:
        await asyncio.to_thread(load_mcp)
    from toolweave.servers.connections.sessions import session  # noqa: PLC0415

    return session.error_result(text, kind)
