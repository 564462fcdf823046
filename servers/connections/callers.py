"""Connections of single callers, for servers whose headers depend on the caller (T-03).

The key of a session is the whole set of headers that it was opened with, so no caller can use another caller's session.
Header values are secrets: they are written into requests only.
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
from toolweave.redact import is_secret_name
from toolweave.servers.connections import results
from toolweave.servers.connections.connection import ServerConnection
from toolweave.servers.connections.context import AUTH_USER, read_member
from toolweave.servers.connections.registry import ListedTool, build_tool_registry
from toolweave.servers.connections.tool import CallTool, McpTool, build_tools

MAX_HEADER_VALUE_CHARS = 16_384
_HEADER_VALUE_CODES = frozenset((*range(32, 127), *range(160, 256)))
MAX_CACHED_TOOL_SETS = 128

Headers = dict[str, str]
CallerValues = dict[CallerField, str | None]
"""The value of each field in a server's header templates for one caller."""

HeadersKey = frozenset[tuple[str, str]]
ToolList = tuple[ListedTool, ...]


@dataclass(slots=True, eq=False)
class _CallerSession:
    """One caller's session, its number of active calls, and the timer that closes it when it is idle."""

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
        # Ordered by their last use.
        self._sessions: dict[HeadersKey, _CallerSession] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._awaited: WeakSet[ServerConnection] = WeakSet()
        self._closed = False

    @contextmanager
    def acquire(self, configurable: Mapping[str, Any], tool: str | None = None) -> Iterator[ServerConnection]:
        """Yield the connection for the caller in `configurable`; it stays open until the block ends.

        Raises:
            CallRefused: a header value of the caller is missing or invalid, or too many callers use the server now.
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
        """Wait for the first attempt to connect, once per connection and at most `connect_wait_s`."""
        if connection in self._awaited:
            return
        self._awaited.add(connection)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timing.connect_wait_s):
                await connection.status.wait_for_state("ready", "down")

    def close_idle_sessions(self) -> None:
        """Close the sessions without active calls."""
        for key in [key for key, session in self._sessions.items() if not session.active_calls]:
            self._close(key)

    async def stop(self) -> None:
        """Close all sessions in parallel, within a time limit; active calls fail immediately."""
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
            # Sessions that are still closing count as well: a frozen server would otherwise accumulate them.
            if idle is None or len(self._closing) >= self._timing.max_caller_sessions:
                raise results.too_many_callers(config.name, tool)
            self._close(idle)
        secret_values = (*config.secret_values, *filter(None, values.values()))
        caller_config = replace(config, headers=headers, caller_headers={}, secret_values=secret_values)
        connection = ServerConnection(caller_config, self._timing, _log_tools, shared=self.shared)
        connection.start()
        for field, value in values.items():
            # A value under a name for a secret is a secret, whatever it looks like.
            if value and is_secret_name(field.path):
                connection.redaction.add(value)
        return _CallerSession(connection)

    def _release(self, key: HeadersKey, session: _CallerSession) -> None:
        if self._sessions.get(key) is not session:
            return
        if session.connection.is_unauthorized:
            # The server rejects these credentials: reconnecting with them would only load it.
            self._close(key)
        else:
            # A session that is not ready reconnects all the time, so it is closed earlier.
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
    """The callers' sessions and tools for all servers of a plane; all methods run on the plane's event loop.

    Args:
        connections: the shared connections by server name, in configuration order.
        call: the function that the callers' tools call.
    """

    def __init__(self, connections: Mapping[str, ServerConnection], call: CallTool) -> None:
        self._connections = connections
        self._call = call
        self.sessions = {name: CallerSessions(shared) for name, shared in connections.items()}
        # Keys are the ids of the tool lists. Each entry holds its lists, so that their ids stay unique.
        self._tool_sets: dict[tuple[int, ...], tuple[Sequence[ToolList], dict[str, list[McpTool]]]] = {}

    async def tools(
        self, servers: Sequence[str], configurable: Mapping[str, Any], shared: Mapping[str, list[McpTool]]
    ) -> Mapping[str, list[McpTool]]:
        """Return the tools of one caller by server.

        They are `shared`, which servers list without a caller's headers, and the tools of those among `servers`
        that list tools to callers only. The latter come from the caller's sessions, which are opened if needed; each
        is waited for once.
        """
        selected = [self.sessions[name] for name in servers if lists_tools_per_caller(self._connections[name])]
        if not selected:
            return shared
        listed = await asyncio.gather(*(_list_tools(sessions, configurable) for sessions in selected))
        own = {sessions.shared.config.name: specs for sessions, specs in zip(selected, listed, strict=True) if specs}
        return self._tool_set(own, shared) if own else shared

    async def stop(self) -> None:
        """Close the sessions of all callers in parallel, within a time limit."""
        await asyncio.gather(*(sessions.stop() for sessions in self.sessions.values()))

    def _tool_set(self, own: Mapping[str, ToolList], shared: Mapping[str, list[McpTool]]) -> dict[str, list[McpTool]]:
        lists = [own.get(name, connection.tools) for name, connection in self._connections.items()]
        key = tuple(map(id, lists))
        if key not in self._tool_sets:
            self._tool_sets[key] = (lists, self._build_tools(lists, own, shared))
            if len(self._tool_sets) > MAX_CACHED_TOOL_SETS:
                del self._tool_sets[next(iter(self._tool_sets))]
        return self._tool_sets[key][1]

    def _build_tools(
        self, lists: Sequence[ToolList], own: Mapping[str, ToolList], shared: Mapping[str, list[McpTool]]
    ) -> dict[str, list[McpTool]]:
        configs = [connection.config for connection in self._connections.values()]
        registry = build_tool_registry(list(zip(configs, lists, strict=True)))
        for name, reason in registry.refusals.items():
            logger.bind(server=name).error("MCP server {} offers a caller no tools: {}", name, reason)
        return {
            config.name: shared[config.name]
            if config.name in shared and config.name not in own
            else build_tools(config, registry.tools_by_server[config.name], self._call)
            for config in configs
            if config.name in registry.tools_by_server
        }


def shared_config(config: McpServerConfig) -> McpServerConfig:
    """Return a server's configuration for the shared session: without headers that need values of a caller."""
    known = {name: template for name, template in config.caller_headers.items() if not template.needs_caller}
    try:
        return replace(config, headers=_render_headers(config, known, {}, tool=None))
    except CallRefused as error:
        return replace(config, misconfigured=config.misconfigured or str(error))


def lists_tools_per_caller(connection: ServerConnection) -> bool:
    """Return whether a server lists its tools only to sessions with a caller's headers."""
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
    """Return the headers for one caller's requests; headers with an empty value are left out.

    Raises:
        CallRefused: a field has neither a value for this caller nor a default, or a value is invalid in a header.
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
        # Line breaks would start another header. Leading and trailing blanks are not part of a value (RFC 9110, 5.5).
        value = text.strip(" \t")
        if len(value) > MAX_HEADER_VALUE_CHARS or not _HEADER_VALUE_CODES.issuperset(map(ord, value)):
            raise results.bad_caller_header(config.name, tool, header=name)
        if value:
            headers[name] = value
    return headers


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
