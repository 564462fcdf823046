"""Reach the core server in the same process: MCP messages over streams in memory, no port and no token."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp.client.transports import FastMCPTransport
from mcp import ClientSession

from toolweave.config.settings import Settings
from toolweave.servers.core.server import open_core_server


@asynccontextmanager
async def in_process_session(settings: Settings, options: dict[str, Any]) -> AsyncIterator[ClientSession]:
    """Open the core server and a session with it, to be initialised; both end with the block.

    `options` are further arguments of the `ClientSession`.

    Raises:
        ConfigError: a setting that a tool needs cannot be used.
    """
    async with open_core_server(settings) as server, FastMCPTransport(server).connect_session(**options) as session:
        yield session
