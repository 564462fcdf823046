"""Open transports through the MCP adapter, with what its configuration cannot say: stderr, HTTP faults, messages."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.sessions import Connection
from loguru import logger
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import get_default_environment, stdio_client
from mcp.shared.session import RequestResponder
from mcp.types import ClientResult, Implementation, ServerNotification, ServerRequest, ToolListChangedNotification

from toolweave import __version__
from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.child_stderr import child_stderr
from toolweave.servers.connections.elicitations import Elicitations
from toolweave.servers.connections.failure import describe
from toolweave.servers.connections.http_faults import FaultReportingClient
from toolweave.servers.connections.launching import launch_line
from toolweave.servers.connections.link import Link
from toolweave.servers.connections.redaction import Redaction

PLAIN_LOGS = {
    "FASTMCP_CHECK_FOR_UPDATES": "off",
    "FASTMCP_ENABLE_RICH_LOGGING": "false",
    "FASTMCP_SHOW_SERVER_BANNER": "false",
}
"""Make servers built on FastMCP write plain lines; other servers ignore it and an entry's own `env` wins."""

REQUEST_TIMEOUT_S = 10.0
STREAM_TIMEOUT_S = 300.0


class SupervisedClient(MultiServerMCPClient):
    """A `MultiServerMCPClient` for one server whose sessions report to a link (D-1).

    A stdio session is opened here and not by the adapter, which would let the child write its stderr between the
    lines of our log and expand `${NAME}` in env values from our own environment.
    """

    def __init__(self, config: McpServerConfig, link: Link, elicitations: Elicitations) -> None:
        self._link = link
        self._elicitations = elicitations
        self._config = config
        self._redaction = Redaction(config)
        super().__init__({config.name: self._connection()})

    @asynccontextmanager
    async def session(self, server_name: str, *, auto_initialize: bool = True) -> AsyncIterator[ClientSession]:
        """Open a session as the adapter does, for stdio with the child's stderr in our log."""
        if self._config.transport != "stdio":
            async with super().session(server_name, auto_initialize=auto_initialize) as session:
                yield session
            return
        parameters = await asyncio.to_thread(self._parameters)
        async with child_stderr(server_name, self._redaction) as (for_child, reader):
            try:
                async with stdio_client(parameters, errlog=for_child) as (read, write):
                    for_child.close()
                    async with ClientSession(read, write, **self._session_options()) as session:
                        if auto_initialize:
                            await session.initialize()
                        yield session
            finally:
                self._link.last_words = reader.last_words

    def _parameters(self) -> StdioServerParameters:
        config = self._config
        env = PLAIN_LOGS | config.env
        search_path = (get_default_environment() | env).get("PATH")
        command, *args = launch_line(config.command or "", config.args, cwd=config.cwd, search_path=search_path)
        return StdioServerParameters(
            command=command,
            args=args,
            env=env,
            cwd=config.cwd,
            encoding_error_handler="replace",
        )

    def _connection(self) -> Connection:
        config = self._config
        if config.transport == "stdio":
            return {"transport": "stdio", "command": config.command or "", "args": list(config.args)}
        remote: dict[str, Any] = {
            "transport": config.transport,
            "url": config.url,
            "headers": dict(config.headers),
            "timeout": REQUEST_TIMEOUT_S,
            "sse_read_timeout": STREAM_TIMEOUT_S,
            "httpx_client_factory": self._http_client,
            "session_kwargs": self._session_options(),
        }
        return remote  # type: ignore[return-value]  # the adapter's two remote TypedDicts, told apart by a value

    def _session_options(self) -> dict[str, Any]:
        return {
            "message_handler": self._on_message,
            "elicitation_callback": self._elicitations.answer,
            "client_info": Implementation(name="toolweave", version=__version__),
        }

    def _http_client(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx.Timeout | None = None,
        auth: httpx.Auth | None = None,
    ) -> httpx.AsyncClient:
        streamable = self._config.transport == "http"
        report = self._suspect if streamable else self._link.lose
        return FaultReportingClient(
            report,
            self._elicitations.arrived_with,
            answers_in_posts=streamable,
            headers=headers,
            timeout=timeout,
            auth=auth,
        )

    def _suspect(self, fault: str) -> None:
        logger.bind(server=self._config.name).debug("MCP server {}: {}", self._config.name, fault)
        self._link.suspect()

    async def _on_message(
        self, message: RequestResponder[ServerRequest, ClientResult] | ServerNotification | Exception
    ) -> None:
        if isinstance(message, ServerNotification) and isinstance(message.root, ToolListChangedNotification):
            self._link.announce_new_tools()
        elif isinstance(message, Exception):
            # An answer that comes after its caller was gone arrives here as a RuntimeError.
            level = "DEBUG" if isinstance(message, RuntimeError) else "WARNING"
            text = self._redaction.clean(describe(message))
            logger.bind(server=self._config.name).log(
                level, "MCP server {} sent a message nobody can use: {}", self._config.name, text
            )
