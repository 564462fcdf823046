"""Pass what an HTTP client notices about its server on to the session's link."""

import contextlib
from typing import Any

import anyio
from loguru import logger
from mcp import ClientSession
from mcp.types import JSONRPCError

from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.elicitations import Elicitations
from toolweave.servers.connections.link import Link

REFUSALS_TO_BE_DEAF = 2
"""So often in a row the SDK tries to open the stream of the server's own messages, and then no more."""


class RemoteListener:
    """The listener of one remote session's `FaultReportingClient`; `session` is set once there is one."""

    def __init__(self, config: McpServerConfig, link: Link, elicitations: Elicitations) -> None:
        self._log = logger.bind(server=config.name)
        self._server = config.name
        self._streamable = config.transport == "http"
        self._link = link
        self._was_opened = False
        self._refusals = 0
        self.elicited = elicitations.arrived_with
        self.beside = link.spawn
        self.session: ClientSession | None = None

    def fault(self, reason: str) -> None:
        """Note the fault and have a ping tell whether the session lives."""
        self._log.debug("MCP server {}: {}", self._server, reason)
        self._link.suspect()

    def reject(self, request_id: int | str, error: dict[str, Any]) -> None:
        """Give a request its answer where the SDK waits for it: no answer of the server will come."""
        if self.session is None:
            self._link.lose(error["error"]["message"])
            return
        waiting = self.session._response_streams.pop(request_id, None)  # noqa: SLF001 - the SDK has no way for this
        if waiting is not None:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                waiting.send_nowait(JSONRPCError.model_validate(error))

    def stream_opened(self) -> None:
        """Ask for the tools: news of them may have been sent when there was no stream."""
        self._refusals = 0
        self._was_opened = True
        self._link.deaf = False
        self._link.announce_new_tools()

    def stream_refused(self) -> None:
        """Note when the SDK gives the stream up: from then on the tools are asked for instead."""
        self._refusals += 1
        self._link.deaf = self._was_opened and self._refusals >= REFUSALS_TO_BE_DEAF

    def stream_ended(self, reason: str) -> None:
        """End an SSE session, whose answers came on this stream; streamable HTTP opens it anew."""
        if self._streamable:
            self.fault(reason)
        else:
            self._link.lose(reason)
