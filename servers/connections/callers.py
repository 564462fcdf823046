"""Tell callers of remote servers apart: which connection carries a call, and which tools somebody is offered."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from loguru import logger

from toolweave.config.header_templates import CallerField, HeaderTemplate
from toolweave.config.mcp import McpServerConfig
from toolweave.errors import CallRefused
from toolweave.redact import names_a_secret
from toolweave.servers.connections.call import carry
from toolweave.servers.connections.connection import ServerConnection
from toolweave.servers.connections.context import AUTH_USER, CallContext, member
from toolweave.servers.connections.observation import CallObserver, call_span, show_result
from toolweave.servers.connections.registry import ToolSpec, build_registry
from toolweave.servers.connections.results import closing, too_many_callers, unknown_caller, unsendable_header
from toolweave.servers.connections.tool import Call, McpTool, build_tools

if TYPE_CHECKING:
    from mcp.types import CallToolResult

LONGEST_VALUE = 16_384
Headers = dict[str, str]


def headers_without_caller(config: McpServerConfig) -> Headers:
    """Return the headers that a session for nobody in particular is opened with: those that need a caller are left out.

    Raises:
        CallRefused: a value cannot be sent in a header.
    """
    known = {name: template for name, template in config.caller_headers.items() if not template.needs_caller}
    return _filled(config, known, {}, tool=None)


def headers_of(config: McpServerConfig, configurable: Mapping[str, Any], tool: str | None = None) -> Headers:
    """Return the headers with which a server is called for whom `configurable` is about.

    A header whose value comes out empty is left out.

    Raises:
        CallRefused: something has no value for this caller and no default, or one that cannot be sent in a header.
    """
    fields = [part for template in config.caller_headers.values() for part in template.parts]
    missing = [
        part
        for part in fields
        if isinstance(part, CallerField) and part.default is None and _value(part, configurable) is None
    ]
    if missing:
        of_user = [part.path for part in missing if part.source == "user"]
        of_request = [part.path for part in missing if part.source == "configurable"]
        raise unknown_caller(config.name, tool, of_user, of_request)
    return _filled(config, config.caller_headers, configurable, tool)


def caller_secrets(config: McpServerConfig, configurable: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values that `headers_of` takes from the caller."""
    fields = [part for template in config.caller_headers.values() for part in template.parts]
    values = (_value(part, configurable) for part in fields if isinstance(part, CallerField))
    return tuple(value for value in values if value is not None)


def caller_credentials(config: McpServerConfig, configurable: Mapping[str, Any]) -> tuple[str, ...]:
    """Return those of them that are secrets for certain: the names of their fields say so."""
    fields = [part for template in config.caller_headers.values() for part in template.parts]
    named = [part for part in fields if isinstance(part, CallerField) and names_a_secret(part.path)]
    return tuple(value for part in named if (value := _value(part, configurable)) is not None)


def _filled(
    config: McpServerConfig, templates: Mapping[str, HeaderTemplate], configurable: Mapping[str, Any], tool: str | None
) -> Headers:
    headers = dict(config.headers)
    for name, template in templates.items():
        text = "".join(
            part if isinstance(part, str) else _value(part, configurable) or part.default or ""
            for part in template.parts
        )
        # Line breaks would make headers of their own; blanks around a value are no part of it (RFC 9110, 5.5).
        value = text.strip(" \t")
        if len(value) > LONGEST_VALUE or any(not _is_sendable(character) for character in value):
            raise unsendable_header(config.name, tool, name)
        if value:
            headers[name] = value
    return headers


def _is_sendable(character: str) -> bool:
    code = ord(character)
    return 32 <= code < 127 or 160 <= code < 256


def _value(field: CallerField, configurable: Mapping[str, Any]) -> str | None:
    holder: Any = configurable.get(AUTH_USER) if field.source == "user" else configurable
    found = member(holder, field.path)
    if found is None:
        found = holder
        for step in field.path.split("."):
            found = member(found, step)
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        return None
    return str(found) or None


CLOCK_S = 0.01
"""How much too early a timer may be."""
Key = frozenset[tuple[str, str]]
Connect = Callable[[McpServerConfig, ServerConnection], ServerConnection]


@dataclass(slots=True, eq=False)
class _Held:
    """One caller's session, how many calls use it, since when none does, and when that is looked at next."""

    connection: ServerConnection
    uses: int = 0
    idle_since: float = 0.0
    expiry: asyncio.TimerHandle | None = None


class CallerSessions:
    """The sessions of one server's callers beside `shared`, the one of everybody whose headers are no different.

    They are opened on first use, closed after `pace.caller_idle_s` without one, and at most `pace.caller_sessions`:
    then the one that has been idle longest goes. Everything here runs on the plane's event loop.

    Args:
        shared: the connection for nobody in particular.
        connect: makes and starts a connection like `shared`, for another configuration.
    """

    def __init__(self, shared: ServerConnection, connect: Connect) -> None:
        self.shared = shared
        self._connect = connect
        self._pace = shared.pace
        self._shared_key = _key(shared.config.headers)
        # In the order of their last use.
        self._held: dict[Key, _Held] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._waited_for: WeakSet[ServerConnection] = WeakSet()
        self._closed = False

    def __len__(self) -> int:
        return len(self._held)

    @contextmanager
    def lease(self, configurable: Mapping[str, Any], tool: str | None = None) -> Iterator[ServerConnection]:
        """Give the connection to use for whom `configurable` is about; it is not closed within the block.

        Raises:
            CallRefused: the server needs to know more of the caller, or too many callers use it at this moment.
        """
        config = self.shared.config
        if not config.caller_headers or not self.shared.is_wanted:
            yield self.shared
            return
        headers = headers_of(config, configurable, tool)
        key = _key(headers)
        if key == self._shared_key:
            yield self.shared
            return
        held = self._held.pop(key, None) or self._opened(headers, configurable, tool)
        self._held[key] = held
        held.uses += 1
        if held.expiry is not None:
            held.expiry.cancel()
            held.expiry = None
        try:
            yield held.connection
        finally:
            held.uses -= 1
            if not held.uses:
                self._leave_idle(key, held)

    async def settle(self, connection: ServerConnection) -> None:
        """Wait until a session has opened or failed to, at most `pace.first_wait_s`, and that only once."""
        if connection in self._waited_for:
            return
        self._waited_for.add(connection)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pace.first_wait_s):
                await connection.status.wait_for("ready", "down")

    def close_idle(self) -> None:
        """Close the sessions that are not in use."""
        for key in [key for key, held in self._held.items() if not held.uses]:
            self._close(key)

    async def stop(self) -> None:
        """Leave all sessions, in parallel and bounded; calls that are open fail at once."""
        self._closed = True
        for key in list(self._held):
            self._close(key)
        while self._closing:
            await asyncio.wait(self._closing)

    def _opened(self, headers: Headers, configurable: Mapping[str, Any], tool: str | None) -> _Held:
        config = self.shared.config
        if self._closed:
            raise closing(config.name, tool)
        if len(self._held) >= self._pace.caller_sessions:
            idle = next((key for key, held in self._held.items() if not held.uses), None)
            # Sessions that take long to close count, too: a frozen server must not collect them without end.
            if idle is None or len(self._closing) >= self._pace.caller_sessions:
                raise too_many_callers(config.name, tool)
            self._close(idle)
        filled_in = (*config.filled_in, *caller_secrets(config, configurable))
        own = replace(config, headers=headers, caller_headers={}, filled_in=filled_in)
        connection = self._connect(own, self.shared)
        for credential in caller_credentials(config, configurable):
            connection.redaction.add(credential)
        return _Held(connection)

    def _leave_idle(self, key: Key, held: _Held) -> None:
        if self._held.get(key) is not held:
            return
        if held.connection.is_declined:
            # To go on connecting with credentials that are not taken would only annoy the server.
            self._close(key)
        else:
            held.idle_since = asyncio.get_running_loop().time()
            self._look_later(key, held)

    def _look_later(self, key: Key, held: _Held) -> None:
        loop = asyncio.get_running_loop()
        left = held.idle_since + self._pace.caller_idle_s - loop.time()
        held.expiry = loop.call_later(min(left, self._pace.rest_s), self._look, key, held)

    def _look(self, key: Key, held: _Held) -> None:
        """Close an idle session when its time is over, or when it is down: nobody waits for it to be back."""
        idle_s = asyncio.get_running_loop().time() - held.idle_since
        if idle_s >= self._pace.caller_idle_s - CLOCK_S or held.connection.status.state != "ready":
            self._close(key)
        else:
            self._look_later(key, held)

    def _close(self, key: Key) -> None:
        held = self._held.pop(key)
        if held.expiry is not None:
            held.expiry.cancel()
        task = asyncio.create_task(held.connection.stop())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _key(headers: Mapping[str, str]) -> Key:
    return frozenset((name.lower(), value) for name, value in headers.items())


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
