"""Keep the sessions of one server that belong to single callers, because the server is called with headers of theirs.

Nobody ever uses another's: a session is found by the whole set of headers it was opened with.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakSet

from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.caller_headers import Headers, caller_credentials, caller_secrets, headers_of
from toolweave.servers.connections.connection import ServerConnection
from toolweave.servers.connections.wording import closing, too_many_callers

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
