"""Open the registry of tools that the settings name."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import sqlalchemy as sa

from toolweave.config.settings import Settings
from toolweave.servers.databases.opening import BUSY_TIMEOUT_S, open_database
from toolweave.servers.registry.repository import RegisteredTools
from toolweave.servers.registry.schema import TOOLS_DATABASE

# Hundreds of requests that come together are all answered, if late.
_QUEUE_TIMEOUT_S = 30.0


@asynccontextmanager
async def open_tool_registry(settings: Settings) -> AsyncIterator[RegisteredTools]:
    """Open the registry at TOOLWEAVE_TOOLS_DATABASE_URL, by default the SQLite file tools.db in the data folder.

    Raises:
        ConfigError: the URL is none, or its driver is not installed.
        NewerSchema: a newer Toolweave wrote the database; nothing was changed.
        PersistenceError: it cannot be opened; names it and the fix.
    """
    async with open_registry_at(await asyncio.to_thread(database_url, settings)) as registry:
        yield registry


@asynccontextmanager
async def open_registry_at(
    url: str | sa.URL, *, busy_timeout_s: float = BUSY_TIMEOUT_S
) -> AsyncIterator[RegisteredTools]:
    """Open the registry in the database at a SQLAlchemy URL; raises what `open_tool_registry` does."""
    async with open_database(
        url, TOOLS_DATABASE, busy_timeout_s=busy_timeout_s, queue_timeout_s=_QUEUE_TIMEOUT_S
    ) as database:
        registry = RegisteredTools(database)
        try:
            yield registry
        finally:
            await registry.close()


def database_url(settings: Settings) -> str:
    """Return the setting, or the SQLite file in the data folder."""
    return settings.tools_database_url or f"sqlite+aiosqlite:///{settings.data_dir.absolute() / 'tools.db'}"
