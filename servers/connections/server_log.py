"""Bring the log messages that a server sends over MCP into our log, with its name, in our levels, without a flood."""

import json

from loguru import logger
from mcp import ClientSession
from mcp.shared.exceptions import McpError
from mcp.types import LoggingLevel, LoggingMessageNotificationParams
from pydantic import ValidationError

from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.transport.log_budget import LogBudget
from toolweave.visible import visible

WANTED_LEVEL: LoggingLevel = "info"
LONGEST_DATA = 4_000
LONGEST_NAME = 100
# What is an emergency to a server is at most an error of ours.
LEVELS = {"debug": "DEBUG", "info": "INFO", "notice": "INFO", "warning": "WARNING"}


class ServerLog:
    """Write one server's messages, as many as `budget` admits."""

    def __init__(self, server: str, redaction: Redaction, budget: LogBudget) -> None:
        self._server = server
        self._redaction = redaction
        self._budget = budget

    async def write(self, params: LoggingMessageNotificationParams) -> None:
        """Write one message, whatever its data are."""
        if not self._budget.admits():
            return
        left_out = self._budget.left_out()
        logger.bind(server=self._server, mcp_level=params.level).log(
            LEVELS.get(params.level, "ERROR"),
            "MCP server {}{}: {}{}",
            self._server,
            f" {self._shown(params.logger)[:LONGEST_NAME]}" if params.logger else "",
            self._shown(_words(params.data)),
            f" ({left_out} messages before it were left out)" if left_out else "",
        )

    def _shown(self, text: str) -> str:
        # Only then is it cut: of a secret that was cut in two, nothing would find the first half.
        return self._redaction.clean(visible(text))


async def ask_for_messages(session: ClientSession) -> None:
    """Tell a server that has log messages which ones we want; one that refuses sends what it likes."""
    capabilities = session.get_server_capabilities()
    if capabilities is None or capabilities.logging is None:
        return
    try:
        await session.set_logging_level(WANTED_LEVEL)
    except (McpError, ValidationError) as error:
        logger.debug("an MCP server does not let its log level be set: {}", type(error).__name__)


def _words(data: object) -> str:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
    return text[:LONGEST_DATA]
