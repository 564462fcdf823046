"""Provide the process's tool registry to served graphs and routes.

A lifespan publishes its registry for use on its own event loop. On another loop, or in a process without a lifespan,
each use opens the same database. The database library is imported with the first use and not with the graphs, which
may never need it (S-04).
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from toolweave.config.settings import load_settings
from toolweave.errors import PersistenceError
from toolweave.tool_config import ToolConfig

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    import sqlalchemy as sa

    from toolweave.servers.registry.repository import ToolRepository

MAX_OPEN_REGISTRIES = 4
OPEN_TIMEOUT_S = 30.0


class RegistrySlot:
    """The registries that lifespans have published, each with its event loop; thread-safe.

    If none is published, `open_registry` opens one, at most MAX_OPEN_REGISTRIES for each event loop at a time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._published: list[tuple[ToolRepository, asyncio.AbstractEventLoop]] = []
        self._semaphores: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}

    def publish(self, registry: "ToolRepository") -> None:
        """Publish `registry` for the process, from the event loop that opened it."""
        with self._lock:
            self._published.append((registry, asyncio.get_running_loop()))

    def unpublish(self, registry: "ToolRepository") -> None:
        """Stop offering `registry`, if it is published; call this before it closes."""
        with self._lock:
            self._published = [entry for entry in self._published if entry[0] is not registry]

    @asynccontextmanager
    async def open_registry(self) -> "AsyncIterator[ToolRepository]":
        """Yield the registry published on this loop; otherwise open the one published last, or the configured one.

        Raises:
            PersistenceError: it cannot be opened, or waiting for other open registries timed out.
            ConfigError: the settings are invalid.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            published = list(self._published)
            self._semaphores = {each: turns for each, turns in self._semaphores.items() if not each.is_closed()}
            semaphore = self._semaphores.setdefault(loop, asyncio.Semaphore(MAX_OPEN_REGISTRIES))
        if on_this_loop := [registry for registry, registry_loop in published if registry_loop is loop]:
            yield on_this_loop[-1]
            return
        opened = await asyncio.to_thread(_registry_at, published[-1][0].url if published else None)
        try:
            await asyncio.wait_for(semaphore.acquire(), OPEN_TIMEOUT_S)
        except TimeoutError:
            raise PersistenceError("The tool registry is busy: too many calls wait for it.") from None
        try:
            async with opened as registry:
                yield registry
        finally:
            semaphore.release()

    async def find(self, tool_ids: Sequence[str]) -> Mapping[str, ToolConfig]:
        """Return the registered ones of these tools, by id.

        Raises:
            PersistenceError: the registry cannot be read now.
        """
        async with self.open_registry() as registry:
            return await registry.find(tool_ids)

    async def list_all(self) -> Sequence[ToolConfig]:
        """Return all registered tools; raises as `find`."""
        async with self.open_registry() as registry:
            return await registry.list_all()


def _registry_at(url: "sa.URL | None") -> "AbstractAsyncContextManager[ToolRepository]":
    """Return the registry at a URL, by default the configured one, to open; the first call imports the library."""
    from toolweave.servers.registry.repository import database_url, open_registry_at  # noqa: PLC0415

    return open_registry_at(url or database_url(load_settings()))


REGISTRY = RegistrySlot()
