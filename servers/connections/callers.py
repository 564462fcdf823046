"""Tell callers of remote servers apart: which connection carries a call, and which tools somebody is offered."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from loguru import logger

from toolweave.config.mcp import McpServerConfig
from toolweave.errors import CallRefused
from toolweave.servers.connections.call_context import CallContext
from toolweave.servers.connections.call_record import CallObserver
from toolweave.servers.connections.caller_headers import headers_without_caller
from toolweave.servers.connections.caller_sessions import CallerSessions
from toolweave.servers.connections.calls import carry
from toolweave.servers.connections.connection import ServerConnection
from toolweave.servers.connections.registry import build_registry
from toolweave.servers.connections.tool import Call, McpTool, build_tools
from toolweave.servers.connections.tool_spec import ToolSpec
from toolweave.servers.connections.tracing import call_span, show_result

if TYPE_CHECKING:
    from mcp.types import CallToolResult

KEPT_OFFERS = 128

Specs = tuple[ToolSpec, ...]


class Callers:
    """The callers of a plane's servers; everything here runs on the plane's event loop.

    Args:
        connections: those for nobody in particular, by name, in configuration order.
        call: what a tool that is offered calls.
    """

    def __init__(self, connections: Mapping[str, ServerConnection], call: Call) -> None:
        self._connections = connections
        self._call = call
        self._sessions = {name: CallerSessions(shared, _connect) for name, shared in connections.items()}
        # The lists it was made of keep their identity, by which it is found, as long as it is kept.
        self._offers: dict[tuple[int, ...], tuple[Sequence[Specs], dict[str, list[McpTool]]]] = {}

    async def carry(
        self, server: str, tool: str, arguments: dict[str, Any], context: CallContext, observers: Iterable[CallObserver]
    ) -> "CallToolResult":
        """Carry one call over the session that its caller's headers belong to, as one span; never raises an error."""
        sessions = self._sessions[server]
        with call_span(sessions.shared.config, tool, context.configurable) as span, ExitStack() as stack:
            refusal = None
            try:
                connection = stack.enter_context(sessions.lease(context.configurable, tool))
            except CallRefused as error:
                connection, refusal = sessions.shared, error
            result = await carry(connection, tool, arguments, context, observers, refusal=refusal)
            show_result(span, result)
            return result

    async def tools(
        self, servers: Sequence[str], configurable: Mapping[str, Any], common: Mapping[str, list[McpTool]]
    ) -> Mapping[str, list[McpTool]]:
        """Return, by server, the tools that one caller is offered.

        They are those in `common`, which servers list for nobody in particular, and those of servers that list nothing
        without a caller: this one's session with each of `servers` is asked for these, and waited for once.
        """
        asked = [self._sessions[name] for name in servers if lists_for_callers_only(self._connections[name])]
        if not asked:
            return common
        listed = await asyncio.gather(*(_listed(sessions, configurable) for sessions in asked))
        own = {sessions.shared.config.name: specs for sessions, specs in zip(asked, listed, strict=True) if specs}
        return self._offered(own, common) if own else common

    def close_idle(self, server: str) -> None:
        """Close the sessions of a server that no call is using."""
        self._sessions[server].close_idle()

    async def stop(self) -> None:
        """Leave the sessions of all callers, in parallel and bounded."""
        await asyncio.gather(*(sessions.stop() for sessions in self._sessions.values()))

    def _offered(self, own: Mapping[str, Specs], common: Mapping[str, list[McpTool]]) -> dict[str, list[McpTool]]:
        lists = [own.get(name, connection.tools) for name, connection in self._connections.items()]
        key = tuple(map(id, lists))
        if key not in self._offers:
            self._offers[key] = (lists, self._built(lists, own, common))
            if len(self._offers) > KEPT_OFFERS:
                del self._offers[next(iter(self._offers))]
        return self._offers[key][1]

    def _built(
        self, lists: Sequence[Specs], own: Mapping[str, Specs], common: Mapping[str, list[McpTool]]
    ) -> dict[str, list[McpTool]]:
        configs = [connection.config for connection in self._connections.values()]
        registry = build_registry(list(zip(configs, lists, strict=True)))
        for name, reason in registry.refusals.items():
            logger.bind(server=name).error("MCP server {} offers a caller nothing: {}", name, reason)
        return {
            config.name: common[config.name]
            if config.name in common and config.name not in own
            else build_tools(config, registry.offers[config.name], self._call)
            for config in configs
            if config.name in registry.offers
        }


def for_nobody(config: McpServerConfig) -> McpServerConfig:
    """Return the configuration of a server's session for nobody in particular."""
    try:
        return replace(config, headers=headers_without_caller(config))
    except CallRefused as error:
        return replace(config, misconfigured=config.misconfigured or str(error))


def lists_for_callers_only(connection: ServerConnection) -> bool:
    """Say whether only the sessions of callers can tell which tools a server has."""
    return connection.needs_caller and not connection.tools


def _connect(config: McpServerConfig, shared: ServerConnection) -> ServerConnection:
    connection = ServerConnection(config, shared.pace, _note_tools, shared=shared)
    connection.start()
    return connection


def _note_tools(connection: ServerConnection) -> None:
    name = connection.config.name
    logger.bind(server=name).debug("MCP server {} lists {} tools for a caller", name, len(connection.tools))


async def _listed(sessions: CallerSessions, configurable: Mapping[str, Any]) -> Specs:
    try:
        with sessions.lease(configurable) as connection:
            await sessions.settle(connection)
            return connection.tools if connection.status.state == "ready" else ()
    except CallRefused:
        return ()
