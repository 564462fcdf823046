"""Keep the process's tool registry where served graphs and routes find it.

A lifespan publishes its registry, for use on the lifespan's event loop. Wherever else a graph runs, on another loop or
in a process without a lifespan, the same database is opened for each use.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

import sqlalchemy as sa

from toolweave.config.settings import load_settings
from toolweave.errors import PersistenceError
from toolweave.servers.registry.opening import database_url, open_registry_at
from toolweave.servers.registry.repository import RegisteredTools
from toolweave.tool_config import ToolConfig

MOST_OPENED = 4
PATIENCE_S = 5.0


class RegistrySlot:
    """Room for a registry of each event loop, used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._published: list[tuple[RegisteredTools, asyncio.AbstractEventLoop]] = []
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    def publish(self, registry: RegisteredTools) -> None:
        """Fill the slot from the event loop that `registry` was opened on."""
        with self._lock:
            self._published.append((registry, asyncio.get_running_loop()))

    def withdraw(self, registry: RegisteredTools) -> None:
        """Take `registry` out, if it is in."""
        with self._lock:
            self._published = [entry for entry in self._published if entry[0] is not registry]

    @asynccontextmanager
    async def use(self) -> AsyncIterator[RegisteredTools]:
        """Give the registry published on this loop, else open the one published last, or that of the settings.

        Raises:
            PersistenceError: it cannot be opened, or too many are open on this loop for too long.
            ConfigError: the settings are wrong.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            published = list(self._published)
            turns = self._turns.setdefault(loop, asyncio.Semaphore(MOST_OPENED))
        if own := [registry for registry, its_loop in published if its_loop is loop]:
            yield own[-1]
            return
        url = published[-1][0].url if published else await asyncio.to_thread(_url_of_settings)
        try:
            await asyncio.wait_for(turns.acquire(), PATIENCE_S)
        except TimeoutError:
            raise PersistenceError("The tool registry is busy: too many calls wait for it.") from None
        try:
            async with open_registry_at(url) as registry:
                yield registry
        finally:
            turns.release()


_slot = RegistrySlot()


def publish_registry(registry: RegisteredTools) -> None:
    """Make `registry` the process's tool registry; call it on the event loop that it was opened on."""
    _slot.publish(registry)


def withdraw_registry(registry: RegisteredTools) -> None:
    """Take `registry` out again, before it closes."""
    _slot.withdraw(registry)


@asynccontextmanager
async def current_registry() -> AsyncIterator[RegisteredTools]:
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


def _url_of_settings() -> sa.URL | str:
    return database_url(load_settings())
