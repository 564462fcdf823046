"""Open and find the connections of single callers, for servers that are called with headers of theirs (T-03).

A session is found by the whole set of headers it was opened with, so nobody ever uses another's. The values of the
headers are secrets: they go into requests and nowhere else.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakSet

from loguru import logger

from toolweave.config.mcp import McpServerConfig
from toolweave.config.variables import CallerField, HeaderTemplate
from toolweave.errors import CallRefused
from toolweave.redact import names_a_secret
from toolweave.servers.connections.connection import ServerConnection
from toolweave.servers.connections.context import AUTH_USER, member
from toolweave.servers.connections.registry import ListedTool, build_registry
from toolweave.servers.connections.results import closing, too_many_callers, unknown_caller, unsendable_header
from toolweave.servers.connections.tool import Call, McpTool, build_tools

LONGEST_VALUE = 16_384
KEPT_OFFERS = 128

Headers = dict[str, str]
Values = dict[CallerField, str | None]
"""What each field of a server's headers has for one caller."""

Key = frozenset[tuple[str, str]]
Specs = tuple[ListedTool, ...]


@dataclass(slots=True, eq=False)
class _Held:
    """One caller's session, how many calls use it, and the timer that closes it while none does."""

    connection: ServerConnection
    uses: int = 0
    expiry: asyncio.TimerHandle | None = None


class CallerSessions:
    """The sessions of one server's callers beside `shared`, the one of everybody whose headers are no different.

    They are opened on first use, closed after `pace.caller_idle_s` without one, and at most `pace.caller_sessions`:
    then the one that has been idle longest goes. Everything here runs on the plane's event loop.

    Args:
        shared: the connection for nobody in particular.
    """

    def __init__(self, shared: ServerConnection) -> None:
        self.shared = shared
        self._pace = shared.pace
        self._shared_key = _key(shared.config.headers)
        # In the order of their last use.
        self._held: dict[Key, _Held] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._waited_for: WeakSet[ServerConnection] = WeakSet()
        self._closed = False

    @contextmanager
    def lease(self, configurable: Mapping[str, Any], tool: str | None = None) -> Iterator[ServerConnection]:
        """Yield the connection for the caller that `configurable` describes; it is not closed within the block.

        Raises:
            CallRefused: the server needs to know more of the caller, or too many callers use it at this moment.
        """
        config = self.shared.config
        if not config.caller_headers or not self.shared.is_wanted:
            yield self.shared
            return
        values = _values(config, configurable)
        headers = _headers_of(config, values, tool)
        key = _key(headers)
        if key == self._shared_key:
            yield self.shared
            return
        held = self._held.pop(key, None) or self._opened(headers, values, tool)
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

    def _opened(self, headers: Headers, values: Values, tool: str | None) -> _Held:
        config = self.shared.config
        if self._closed:
            raise closing(config.name, tool)
        if len(self._held) >= self._pace.caller_sessions:
            idle = next((key for key, held in self._held.items() if not held.uses), None)
            # Sessions that take long to close count, too: a frozen server must not collect them without end.
            if idle is None or len(self._closing) >= self._pace.caller_sessions:
                raise too_many_callers(config.name, tool)
            self._close(idle)
        filled_in = (*config.filled_in, *filter(None, values.values()))
        own = replace(config, headers=headers, caller_headers={}, filled_in=filled_in)
        connection = ServerConnection(own, self._pace, _note_tools, shared=self.shared)
        connection.start()
        for field, value in values.items():
            # A field whose name says so holds a secret for certain.
            if value and names_a_secret(field.path):
                connection.redaction.add(value)
        return _Held(connection)

    def _leave_idle(self, key: Key, held: _Held) -> None:
        if self._held.get(key) is not held:
            return
        if held.connection.is_declined:
            # To go on connecting with credentials that are not taken would only annoy the server.
            self._close(key)
        else:
            # One that is not ready goes on connecting, beside all others to the same server.
            is_ready = held.connection.status.state == "ready"
            idle_s = self._pace.caller_idle_s if is_ready else self._pace.rest_s
            held.expiry = asyncio.get_running_loop().call_later(idle_s, self._close, key)

    def _close(self, key: Key) -> None:
        held = self._held.pop(key)
        if held.expiry is not None:
            held.expiry.cancel()
        task = asyncio.create_task(held.connection.stop())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class Callers:
    """The callers of a plane's servers; everything here runs on the plane's event loop.

    Args:
        connections: those for nobody in particular, by name, in configuration order.
        call: what a tool that is offered calls.
    """

    def __init__(self, connections: Mapping[str, ServerConnection], call: Call) -> None:
        self._connections = connections
        self._call = call
        self.sessions = {name: CallerSessions(shared) for name, shared in connections.items()}
        # The lists it was made of keep their identity, by which it is found, as long as it is kept.
        self._offers: dict[tuple[int, ...], tuple[Sequence[Specs], dict[str, list[McpTool]]]] = {}

    async def tools(
        self, servers: Sequence[str], configurable: Mapping[str, Any], common: Mapping[str, list[McpTool]]
    ) -> Mapping[str, list[McpTool]]:
        """Return, by server, the tools that one caller is offered.

        They are those in `common`, which servers list without a caller, and those of servers that list nothing
        without a caller: this one's session with each of `servers` is asked for these, and waited for once.
        """
        asked = [self.sessions[name] for name in servers if lists_for_callers_only(self._connections[name])]
        if not asked:
            return common
        listed = await asyncio.gather(*(_listed(sessions, configurable) for sessions in asked))
        own = {sessions.shared.config.name: specs for sessions, specs in zip(asked, listed, strict=True) if specs}
        return self._offered(own, common) if own else common

    async def stop(self) -> None:
        """Leave the sessions of all callers, in parallel and bounded."""
        await asyncio.gather(*(sessions.stop() for sessions in self.sessions.values()))

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


def shared_config(config: McpServerConfig) -> McpServerConfig:
    """Return the configuration of the shared session, without the headers that need a caller."""
    known = {name: template for name, template in config.caller_headers.items() if not template.needs_caller}
    try:
        return replace(config, headers=_filled(config, known, {}, tool=None))
    except CallRefused as error:
        return replace(config, misconfigured=config.misconfigured or str(error))


def lists_for_callers_only(connection: ServerConnection) -> bool:
    """Return whether a server lists its tools to callers only."""
    return connection.needs_caller and not connection.tools


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


def _key(headers: Mapping[str, str]) -> Key:
    return frozenset((name.lower(), value) for name, value in headers.items())


def _headers_of(config: McpServerConfig, values: Values, tool: str | None) -> Headers:
    """Fill in the headers with which a server is called for one caller; one whose value comes out empty is left out.

    Raises:
        CallRefused: something has no value for this caller and no default, or one that cannot be sent in a header.
    """
    missing = [field for field, value in values.items() if value is None and field.default is None]
    if missing:
        whose = {"user": "of the signed-in user", "configurable": "given with the request"}
        needed = " and ".join(f"{field.path} {whose[field.source]}" for field in missing)
        subject = f"the tool {tool!r} of the server {config.name!r}" if tool else f"the server {config.name!r}"
        raise unknown_caller(config.name, tool, subject=subject, needed=needed)
    return _filled(config, config.caller_headers, values, tool)


def _filled(
    config: McpServerConfig, templates: Mapping[str, HeaderTemplate], values: Values, tool: str | None
) -> Headers:
    headers = dict(config.headers)
    for name, template in templates.items():
        text = "".join(
            part if isinstance(part, str) else values.get(part) or part.default or "" for part in template.parts
        )
        # Line breaks would make headers of their own; blanks around a value are no part of it (RFC 9110, 5.5).
        value = text.strip(" \t")
        if len(value) > LONGEST_VALUE or any(not _is_sendable(ord(character)) for character in value):
            raise unsendable_header(config.name, tool, header=name)
        if value:
            headers[name] = value
    return headers


def _is_sendable(code: int) -> bool:
    return 32 <= code < 127 or 160 <= code < 256


def _values(config: McpServerConfig, configurable: Mapping[str, Any]) -> Values:
    parts = [part for template in config.caller_headers.values() for part in template.parts]
    return {part: _value(part, configurable) for part in parts if isinstance(part, CallerField)}


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
