"""Keep the process's tool registry where served graphs and routes find it.

A lifespan publishes its registry, for use on the lifespan's event loop. Wherever else a graph runs, on another loop or
in a process without a lifespan, the same database is opened for each use. The database's library is loaded with the
first one, not with the graphs that may never need it (S-04).
"""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from toolweave.errors import PersistenceError
from toolweave.servers.registry.loading import open_registry, url_of_settings
from toolweave.tool_config import ToolConfig

if TYPE_CHECKING:
    from toolweave.servers.registry.repository import RegisteredTools

MOST_OPENED = 4
PATIENCE_S = 30.0


class Turns:
    """Let no more than MOST_OPENED at a time do something on each event loop."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._semaphores: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}
        self._users: Counter[asyncio.AbstractEventLoop] = Counter()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Wait for a turn, and have it. Raises PersistenceError when it takes too long."""
        with self._semaphore() as semaphore:
            try:
                async with asyncio.timeout(self._patience_s):
                    await semaphore.acquire()
            except TimeoutError:
                raise PersistenceError("The tool registry is busy: too many calls wait for it.") from None
            try:
                yield
            finally:
                semaphore.release()

    @contextmanager
    def _semaphore(self) -> Iterator[asyncio.Semaphore]:
        """Give the running loop's semaphore; nothing is kept of a loop that nobody uses it on."""
        loop = asyncio.get_running_loop()
        with self._lock:
            semaphore = self._semaphores.setdefault(loop, asyncio.Semaphore(MOST_OPENED))
            self._users[loop] += 1
        try:
            yield semaphore
        finally:
            with self._lock:
                self._users[loop] -= 1
                if not self._users[loop]:
                    del self._users[loop], self._semaphores[loop]


class RegistrySlot:
    """Room for a registry of each event loop, used from any thread."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._lock = threading.Lock()
        self._published: list[tuple[RegisteredTools, asyncio.AbstractEventLoop]] = []
        self._turns = Turns(patience_s)

    def publish(self, registry: "RegisteredTools") -> None:
        """Fill the slot from the event loop that `registry` was opened on."""
        with self._lock:
            self._published.append((registry, asyncio.get_running_loop()))

    def withdraw(self, registry: "RegisteredTools") -> None:
        """Take `registry` out, if it is in."""
        with self._lock:
            self._published = [entry for entry in self._published if entry[0] is not registry]

    @asynccontextmanager
    async def use(self) -> "AsyncIterator[RegisteredTools]":
        """Give the registry published on this loop, else open the one published last, or that of the settings.

        Raises:
            PersistenceError: it cannot be opened, or too many are open on this loop for too long.
            ConfigError: the settings are wrong.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            published = list(self._published)
        if own := [registry for registry, its_loop in published if its_loop is loop]:
            yield own[-1]
            return
        url = published[-1][0].url if published else await asyncio.to_thread(url_of_settings)
        async with self._turns.one(), open_registry(url) as registry:
            yield registry


_slot = RegistrySlot()


def publish_registry(registry: "RegisteredTools") -> None:
    """Make `registry` the process's tool registry; call it on the event loop that it was opened on."""
    _slot.publish(registry)


def withdraw_registry(registry: "RegisteredTools") -> None:
    """Take `registry` out again, before it closes."""
    _slot.withdraw(registry)


@asynccontextmanager
async def current_registry() -> "AsyncIterator[RegisteredTools]":
    """Give the process's tool registry for one use.

    Raises:
        PersistenceError: it cannot be opened, or too many wait for it.
        ConfigError: it was opened here, and the settings are wrong.
    """
    async with _slot.use() as registry:
        yield registry


class CurrentRegistry:
    """The process's tool registry as graphs see it: read anew at each run."""

    async def find(self, tool_ids: Sequence[str]) -> Mapping[str, ToolConfig]:
        """Return those of the tools that there are, by id.

        Raises:
            PersistenceError: the registry cannot be read now.
        """
        async with current_registry() as registry:
            return await registry.find(tool_ids)
