"""Open the tool plane of a served process: the servers of its settings, with a log of every call (T-03)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from loguru import logger

from toolweave.config.mcp import served_mcp_config
from toolweave.config.mcp_place import mcp_place
from toolweave.config.settings import Settings
from toolweave.servers.connections.call_log import open_call_log
from toolweave.servers.connections.oauth.place import token_place
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane


@asynccontextmanager
async def open_served_plane(settings: Settings) -> AsyncIterator[ToolPlane]:
    """Open the plane, and close it with the block: first its servers, then the log, which has their last calls.

    Raises:
        ConfigError: mcp.jsonc is wrong.
    """
    servers = served_mcp_config(settings).servers
    enabled = sum(server.enabled for server in servers)
    logger.info("{} of {} MCP servers are enabled in {}", enabled, len(servers), mcp_place(settings).in_words())
    async with (
        open_call_log(settings.data_dir, settings.mcp_log) as observers,
        open_tool_plane(servers, observers=observers, token_place=token_place(settings)) as plane,
    ):
        yield plane
