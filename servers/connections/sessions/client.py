"""Open transports through the MCP adapter, with what its configuration cannot say: stderr, HTTP faults, messages."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import IO, Any
from urllib.parse import urlsplit

import httpx
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.sessions import Connection
from loguru import logger
from mcp import ClientSession, types
from mcp.client.stdio import get_default_environment
from mcp.shared.exceptions import McpError
from mcp.shared.session import RequestResponder
from pydantic import ValidationError

from toolweave import __version__
from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_entry import LOOPBACK_HOSTS
from toolweave.config.settings import load_settings
from toolweave.servers.connections.sessions.faults import describe
from toolweave.servers.connections.sessions.http import FaultReportingClient
from toolweave.servers.connections.sessions.link import Link
from toolweave.servers.connections.sessions.questions import Elicitations
from toolweave.servers.connections.sessions.stdio import (
    ChildStderr,
    LogBudget,
    Program,
    answering_server,
    child_stderr,
    launch_line,
    stdio_transport,
)
from toolweave.servers.core import loading as core
from toolweave.visible import visible

WANTED_LEVEL: types.LoggingLevel = "info"
LONGEST_DATA = 4_000
LONGEST_NAME = 100
# What is an emergency to a server is at most an error of ours.
LEVELS = {"debug": "DEBUG", "info": "INFO", "notice": "INFO", "warning": "WARNING"}


PLAIN_LOGS = {
    "FASTMCP_CHECK_FOR_UPDATES": "off",
    "FASTMCP_ENABLE_RICH_LOGGING": "false",
    "FASTMCP_SHOW_SERVER_BANNER": "false",
}
"""Make servers built on FastMCP write plain lines; other servers ignore it and an entry's own `env` wins."""
REQUEST_TIMEOUT_S = 10.0
STREAM_TIMEOUT_S = 300.0


async def ask_for_messages(session: ClientSession) -> None:
    """Set the level of a server's log messages; a server that refuses sends what it likes."""
    capabilities = session.get_server_capabilities()
    if capabilities is None or capabilities.logging is None:
        return
    try:
        await session.set_logging_level(WANTED_LEVEL)
    except (McpError, ValidationError) as error:
        logger.debug("an MCP server does not let its log level be set: {}", type(error).__name__)


class SupervisedClient(MultiServerMCPClient):
    """A `MultiServerMCPClient` for one server whose sessions report to a link (D-1).

    A stdio session is opened here and not by the adapter, which would let the child write its stderr between the
    lines of our log and expand `${NAME}` in env values from our own environment. It knows no servers in this process.
    """

    def __init__(self, config: McpServerConfig, link: Link, elicitations: Elicitations) -> None:
        self._link = link
        self._elicitations = elicitations
        self._config = config
        self._log_budget = LogBudget(burst=50, per_s=10)
        self._budget = LogBudget(burst=50, per_s=5)
        super().__init__({config.name: self._connection()})

    @asynccontextmanager
    async def session(self, server_name: str, *, auto_initialize: bool = True) -> AsyncIterator[ClientSession]:
        """Open a session as the adapter does, with the server's process if it is ours to start."""
        config, link = self._config, self._link
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            session: ClientSession
            if config.transport == "in_process":
                await asyncio.to_thread(core.load)
                settings = config.settings or load_settings()
                session = await enter(core.open_in_process(settings, self._session_options()))
            elif config.transport == "stdio":
                program = await asyncio.to_thread(self._program)
                stderr = await enter(self._its_stderr())
                read, write = await enter(stdio_transport(program, stderr, link))
                session = await enter(ClientSession(read, write, **self._session_options()))
            else:
                if config.spawn:
                    program = await asyncio.to_thread(self._program)
                    output = await enter(self._its_stderr())
                    await enter(answering_server(program, config.url or "", output, link))
                session = await enter(super().session(server_name, auto_initialize=False))
            if auto_initialize:
                await session.initialize()
            yield session

    @asynccontextmanager
    async def _its_stderr(self) -> AsyncIterator[IO[bytes]]:
        reader: ChildStderr | None = None
        try:
            async with child_stderr(self._config.name, self._link.redaction) as (for_child, reader):
                yield for_child
        finally:
            self._link.last_words = reader.last_words if reader is not None else ""

    def _program(self) -> Program:
        config = self._config
        env = get_default_environment() | PLAIN_LOGS | config.env
        line = launch_line(config.command or "", config.args, cwd=config.cwd, search_path=env.get("PATH"))
        return Program(line, env, config.cwd)

    def _connection(self) -> Connection:
        config = self._config
        if config.transport in {"stdio", "in_process"}:  # not opened by the adapter
            return {"transport": "stdio", "command": config.command or "", "args": list(config.args)}
        remote: dict[str, Any] = {
            "transport": config.transport,
            "url": config.url,
            "headers": dict(config.headers),
            "auth": self._link.authorization,
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
            "logging_callback": self._on_log,
            "client_info": types.Implementation(name="toolweave", version=__version__),
        }

    def _http_client(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx.Timeout | None = None,
        auth: httpx.Auth | None = None,
    ) -> httpx.AsyncClient:
        return FaultReportingClient(
            self._config,
            self._link,
            self._elicitations,
            # As text, httpx would take ASCII only.
            headers=[(name.encode(), value.encode("latin-1")) for name, value in (headers or {}).items()],
            timeout=timeout,
            auth=auth,
            # A proxy that the environment names for the world outside knows nothing of our loopback.
            trust_env=urlsplit(self._config.url or "").hostname not in LOOPBACK_HOSTS,
        )

    async def _on_message(
        self, message: RequestResponder[types.ServerRequest, types.ClientResult] | types.ServerNotification | Exception
    ) -> None:
        if isinstance(message, types.ServerNotification) and isinstance(
            message.root, types.ToolListChangedNotification
        ):
            self._link.announce_new_tools()
        elif isinstance(message, Exception) and (left_out := self._budget.admit()) is not None:
            # An answer that comes after its caller was gone arrives here as a RuntimeError, which quotes it.
            late = isinstance(message, RuntimeError)
            text = "nobody waits for it" if late else self._link.redaction.clean(describe(message))
            logger.bind(server=self._config.name).log(
                "DEBUG" if late else "WARNING",
                "MCP server {} sent a message nobody can use: {}{}",
                self._config.name,
                text,
                left_out,
            )

    async def _on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        """Write a message of the server, whatever its data are, into our log, as many as the budget admits."""
        left_out, data = self._log_budget.admit(), params.data
        if left_out is None:
            return
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
        logger.bind(server=self._config.name, mcp_level=params.level).log(
            LEVELS.get(params.level, "ERROR"),
            "MCP server {}{}: {}{}",
            self._config.name,
            f" {self._shown(params.logger)[:LONGEST_NAME]}" if params.logger else "",
            self._shown(text[:LONGEST_DATA]),
            left_out,
        )

    def _shown(self, text: str) -> str:
        # Only then is it cut: of a secret that was cut in two, nothing would find the first half.
        return self._link.redaction.clean(visible(text))
