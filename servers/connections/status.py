"""Hold the state of one server and wake whoever waits for another one."""

import asyncio
from collections import deque
from datetime import UTC, datetime

from loguru import logger

from toolweave.servers.connections.health import ServerState

KEPT_ERRORS = 10


class ServerStatus:
    """The state of one server, since when, and the last errors; every change is logged."""

    def __init__(
        self, server: str, state: ServerState, last_error: str | None = None, *, shown_as: str | None = None
    ) -> None:
        self._log = logger.bind(server=server)
        self._server = shown_as or server
        self.state: ServerState = state
        self.last_error = last_error
        self.errors: deque[tuple[datetime, str]] = deque(maxlen=KEPT_ERRORS)
        self.since = datetime.now(UTC)
        self._changed = asyncio.Event()

    def set(self, state: ServerState, last_error: str | None = None) -> None:
        """Enter `state`; without a new error the last one stays to be read."""
        news = (state, last_error) != (self.state, self.last_error)
        if state != self.state:
            self.since = datetime.now(UTC)
        self.state = state
        self.last_error = last_error or self.last_error
        if news and last_error:
            self.errors.append((datetime.now(UTC), last_error))
        if news and state == "down":
            self._log.warning("MCP server {} is down: {}", self._server, self.last_error)
        self.wake()

    def close(self) -> None:
        """Enter `down` because it is wanted, which is no news."""
        self.state = "down"
        self.since = datetime.now(UTC)
        self.wake()

    async def change(self) -> None:
        """Return at the next `set` or `wake`."""
        await self._changed.wait()

    async def wait_for(self, *states: ServerState) -> None:
        """Return once the state is one of `states`."""
        while self.state not in states:
            await self.change()

    def wake(self) -> None:
        """Tell whoever waits for a `change` that there is one, such as new tools."""
        self._changed.set()
        self._changed = asyncio.Event()
