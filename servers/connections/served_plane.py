"""Open the tool plane of a served process: the servers of its settings, with a log of every call (T-03, A-06)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from loguru import logger

from toolweave.config.mcp import McpConfig, served_mcp_config
from toolweave.config.mcp_place import mcp_place
from toolweave.config.settings import Settings
from toolweave.private_files import make_data_folder
from toolweave.servers.connections.call_log import open_call_log
from toolweave.servers.connections.oauth.place import token_place
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane


@asynccontextmanager
async def open_served_plane(settings: Settings) -> AsyncIterator[ToolPlane]:
    """Open the plane, and close it with the block: first its servers, then the log, which has their last calls.

    Raises:
        ConfigError: mcp.jsonc is wrong.
    """
    config = served_mcp_config(settings)
    # A graph server of another project does not prepare the folder. Without it, the call log says what is wrong.
    with suppress(OSError):
        await asyncio.to_thread(make_data_folder, settings.data_dir)
    _tell(config, mcp_place(settings).in_words())
    async with (
        open_call_log(settings.data_dir, settings.mcp_log) as observers,
        open_tool_plane(config.servers, observers=observers, token_place=token_place(settings)) as plane,
    ):
        yield plane


def _tell(config: McpConfig, place: str) -> None:
    """Log which file counts, what in it was passed over, and which enabled servers cannot be started as they are."""
    enabled = [server for server in config.servers if server.enabled]
    logger.info("{} of {} MCP servers are enabled in {}", len(enabled), len(config.servers), place)
    for warning in config.warnings:
        logger.warning("{}", warning)
    for server in enabled:
        if server.misconfigured:
            logger.bind(server=server.name).error(
                "MCP server {} is misconfigured: {}", server.name, server.misconfigured
            )
