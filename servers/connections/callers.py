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
from toolweave.servers.connections import results
from toolweave.servers.connections.connection import ServerConnection
from toolweave.servers.connections.context import AUTH_USER, read_member
from toolweave.servers.connections.registry import ListedTool, build_tool_registry
from toolweave.servers.connections.tool import CallTool, McpTool, build_tools

MAX_HEADER_VALUE_CHARS = 16_384
MAX_CACHED_TOOL_SETS = 128

Headers = dict[str, str]
CallerValues = dict[CallerField, str | None]
"""What each field of a server's headers has for one caller."""

HeadersKey = frozenset[tuple[str, str]]
ToolList = tuple[ListedTool, ...]


@dataclass(slots=True, eq=False)
class _CallerSession:
    """One caller's session, how many calls use it, and the timer that closes it while none does."""

    connection: ServerConnection
    active_calls: int = 0
    idle_timer: asyncio.TimerHandle | None = None


class CallerSessions:
    """The sessions of one server's callers, beside the shared session of callers without headers of their own.

    A caller's session opens on first use and closes after `caller_idle_timeout_s` without a call. Beyond
    `max_caller_sessions`, the session that has been idle longest is closed. All methods run on the plane's event loop.

    Args:
        shared: the connection that callers without headers of their own share.
    """

    def __init__(self, shared: ServerConnection) -> None:
        self.shared = shared
        self._timing = shared.timing
        self._shared_key = _headers_key(shared.config.headers)
        # In the order of their last use.
        self._sessions: dict[HeadersKey, _CallerSession] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._awaited: WeakSet[ServerConnection] = WeakSet()
        self._closed = False

    @contextmanager
    def acquire(self, configurable: Mapping[str, Any], tool: str | None = None) -> Iterator[ServerConnection]:
        """Yield the connection for the caller that `configurable` describes; it is not closed within the block.

        Raises:
            CallRefused: the server needs to know more of the caller, or too many callers use it at this moment.
        """
        config = self.shared.config
        if not config.caller_headers or not self.shared.is_active:
            yield self.shared
            return
        values = _caller_values(config, configurable)
        headers = _caller_headers(config, values, tool)
        key = _headers_key(headers)
        if key == self._shared_key:
            yield self.shared
            return
        session = self._sessions.pop(key, None) or self._open_session(headers, values, tool)
        self._sessions[key] = session
        session.active_calls += 1
        if session.idle_timer is not None:
            session.idle_timer.cancel()
            session.idle_timer = None
        try:
            yield session.connection
        finally:
            session.active_calls -= 1
            if not session.active_calls:
                self._release(key, session)

    async def wait_for_first_connect(self, connection: ServerConnection) -> None:
        """Wait until a session has opened or failed to, at most `pace.connect_wait_s`, and that only once."""
        if connection in self._awaited:
            return
        self._awaited.add(connection)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timing.connect_wait_s):
                await connection.status.wait_for_state("ready", "down")

    def close_idle_sessions(self) -> None:
        """Close the sessions that are not in use."""
        for key in [key for key, session in self._sessions.items() if not session.active_calls]:
            self._close(key)

    async def stop(self) -> None:
        """Leave all sessions, in parallel and bounded; calls that are open fail at once."""
        self._closed = True
        for key in list(self._sessions):
            self._close(key)
        while self._closing:
            await asyncio.wait(self._closing)

    def _open_session(self, headers: Headers, values: CallerValues, tool: str | None) -> _CallerSession:
        config = self.shared.config
        if self._closed:
            raise results.connection_closing(config.name, tool)
        if len(self._sessions) >= self._timing.max_caller_sessions:
            idle = next((key for key, session in self._sessions.items() if not session.active_calls), None)
            # Sessions that take long to close count, too: a frozen server must not collect them without end.
            if idle is None or len(self._closing) >= self._timing.max_caller_sessions:
                raise results.too_many_callers(config.name, tool)
            self._close(idle)
        filled_in = (*config.secret_values, *filter(None, values.values()))
        own = replace(config, headers=headers, caller_headers={}, secret_values=filled_in)
        connection = ServerConnection(own, self._timing, _log_tools, shared=self.shared)
        connection.start()
        for field, value in values.items():
            # A field whose name says so holds a secret for certain.
            if value and names_a_secret(field.path):
                connection.redaction.add(value)
        return _CallerSession(connection)

    def _release(self, key: HeadersKey, session: _CallerSession) -> None:
        if self._sessions.get(key) is not session:
            return
        if session.connection.is_unauthorized:
            # To go on connecting with credentials that are not taken would only annoy the server.
            self._close(key)
        else:
            # One that is not ready goes on connecting, beside all others to the same server.
            is_ready = session.connection.status.state == "ready"
            idle_s = self._timing.caller_idle_timeout_s if is_ready else self._timing.long_delay_s
            session.idle_timer = asyncio.get_running_loop().call_later(idle_s, self._close, key)

    def _close(self, key: HeadersKey) -> None:
        session = self._sessions.pop(key)
        if session.idle_timer is not None:
            session.idle_timer.cancel()
        task = asyncio.create_task(session.connection.stop())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class CallerRegistry:
    """The callers of a plane's servers; everything here runs on the plane's event loop.

    Args:
        connections: those for nobody in particular, by name, in configuration order.
        call: what a tool that is offered calls.
    """

    def __init__(self, connections: Mapping[str, ServerConnection], call: CallTool) -> None:
        self._connections = connections
        self._call = call
        self.sessions = {name: CallerSessions(shared) for name, shared in connections.items()}
        # The lists it was made of keep their identity, by which it is found, as long as it is kept.
        self._tool_sets: dict[tuple[int, ...], tuple[Sequence[ToolList], dict[str, list[McpTool]]]] = {}

    async def tools(
        self, servers: Sequence[str], configurable: Mapping[str, Any], common: Mapping[str, list[McpTool]]
    ) -> Mapping[str, list[McpTool]]:
        """Return, by server, the tools that one caller is offered.

        They are those in `common`, which servers list without a caller, and those of servers that list nothing
        without a caller: this one's session with each of `servers` is asked for these, and waited for once.
        """
        asked = [self.sessions[name] for name in servers if lists_tools_per_caller(self._connections[name])]
        if not asked:
            return common
        listed = await asyncio.gather(*(_list_tools(sessions, configurable) for sessions in asked))
        own = {sessions.shared.config.name: specs for sessions, specs in zip(asked, listed, strict=True) if specs}
        return self._tool_set(own, common) if own else common

    async def stop(self) -> None:
        """Leave the sessions of all callers, in parallel and bounded."""
        await asyncio.gather(*(sessions.stop() for sessions in self.sessions.values()))

    def _tool_set(self, own: Mapping[str, ToolList], common: Mapping[str, list[McpTool]]) -> dict[str, list[McpTool]]:
        lists = [own.get(name, connection.tools) for name, connection in self._connections.items()]
        key = tuple(map(id, lists))
        if key not in self._tool_sets:
            self._tool_sets[key] = (lists, self._build_tools(lists, own, common))
            if len(self._tool_sets) > MAX_CACHED_TOOL_SETS:
                del self._tool_sets[next(iter(self._tool_sets))]
        return self._tool_sets[key][1]

    def _build_tools(
        self, lists: Sequence[ToolList], own: Mapping[str, ToolList], common: Mapping[str, list[McpTool]]
    ) -> dict[str, list[McpTool]]:
        configs = [connection.config for connection in self._connections.values()]
        registry = build_tool_registry(list(zip(configs, lists, strict=True)))
        for name, reason in registry.refusals.items():
            logger.bind(server=name).error("MCP server {} offers a caller nothing: {}", name, reason)
        return {
            config.name: common[config.name]
            if config.name in common and config.name not in own
            else build_tools(config, registry.tools_by_server[config.name], self._call)
            for config in configs
            if config.name in registry.tools_by_server
        }


def shared_config(config: McpServerConfig) -> McpServerConfig:
    """Return the configuration of the shared session, without the headers that need a caller."""
    known = {name: template for name, template in config.caller_headers.items() if not template.needs_caller}
    try:
        return replace(config, headers=_render_headers(config, known, {}, tool=None))
    except CallRefused as error:
        return replace(config, misconfigured=config.misconfigured or str(error))


def lists_tools_per_caller(connection: ServerConnection) -> bool:
    """Return whether a server lists its tools to callers only."""
    return connection.needs_caller and not connection.tools


def _log_tools(connection: ServerConnection) -> None:
    name = connection.config.name
    logger.bind(server=name).debug("MCP server {} lists {} tools for a caller", name, len(connection.tools))


async def _list_tools(sessions: CallerSessions, configurable: Mapping[str, Any]) -> ToolList:
    try:
        with sessions.acquire(configurable) as connection:
            await sessions.wait_for_first_connect(connection)
            return connection.tools if connection.status.state == "ready" else ()
    except CallRefused:
        return ()


def _headers_key(headers: Mapping[str, str]) -> HeadersKey:
    return frozenset((name.lower(), value) for name, value in headers.items())


def _caller_headers(config: McpServerConfig, values: CallerValues, tool: str | None) -> Headers:
    """Fill in the headers with which a server is called for one caller; one whose value comes out empty is left out.

    Raises:
        CallRefused: something has no value for this caller and no default, or one that cannot be sent in a header.
    """
    missing = [field for field, value in values.items() if value is None and field.default is None]
    if missing:
        whose = {"user": "of the signed-in user", "configurable": "given with the request"}
        needed = " and ".join(f"{field.path} {whose[field.source]}" for field in missing)
        subject = f"the tool {tool!r} of the server {config.name!r}" if tool else f"the server {config.name!r}"
        raise results.caller_required(config.name, tool, subject=subject, needed=needed)
    return _render_headers(config, config.caller_headers, values, tool)


def _render_headers(
    config: McpServerConfig, templates: Mapping[str, HeaderTemplate], values: CallerValues, tool: str | None
) -> Headers:
    headers = dict(config.headers)
    for name, template in templates.items():
        text = "".join(
            part if isinstance(part, str) else values.get(part) or part.default or "" for part in template.parts
        )
        # Line breaks would make headers of their own; blanks around a value are no part of it (RFC 9110, 5.5).
        value = text.strip(" \t")
        if len(value) > MAX_HEADER_VALUE_CHARS or any(not _is_header_char(ord(character)) for character in value):
            raise results.bad_caller_header(config.name, tool, header=name)
        if value:
            headers[name] = value
    return headers


def _is_header_char(code: int) -> bool:
    return 32 <= code < 127 or 160 <= code < 256


def _caller_values(config: McpServerConfig, configurable: Mapping[str, Any]) -> CallerValues:
    parts = [part for template in config.caller_headers.values() for part in template.parts]
    return {part: _field_value(part, configurable) for part in parts if isinstance(part, CallerField)}


def _field_value(field: CallerField, configurable: Mapping[str, Any]) -> str | None:
    holder: Any = configurable.get(AUTH_USER) if field.source == "user" else configurable
    found = read_member(holder, field.path)
    if found is None:
        found = holder
        for step in field.path.split("."):
            found = read_member(found, step)
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        return None
    return str(found) or None
