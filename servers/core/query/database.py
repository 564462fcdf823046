"""Open the database that queries read: SQLite and PostgreSQL in ways of their own, others as far as that goes (D-9)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from toolweave.config.settings import Settings
from toolweave.errors import ConfigError
from toolweave.servers.core.query.dialect import Dialect
from toolweave.servers.core.query.sqlite_database import open_sqlite
from toolweave.servers.databases.engine import file_of
from toolweave.servers.todo.command import database_url as todo_database_url

T = TypeVar("T")
_SETTING = "TOOLWEAVE_QUERY_DATABASE_URL"


class QueryDatabase(Protocol):
    """A database that is only read."""

    @property
    def dialect(self) -> Dialect:
        """Say how to speak to it."""
        ...

    async def run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Do some reading in a transaction that cannot write and has an end."""
        ...


def open_query_database(settings: Settings) -> AbstractAsyncContextManager[QueryDatabase]:
    """Prepare the database of the settings, by default the todo server's; it is connected with first use.

    Raises:
        ConfigError: the URL is none, or its driver is not installed.
    """
    url = _parsed(settings.query_database_url or todo_database_url(settings))
    return _opened(url, settings)


@asynccontextmanager
async def _opened(url: sa.URL, settings: Settings) -> AsyncIterator[QueryDatabase]:
    file = file_of(url)
    if url.get_backend_name() != "sqlite":
        raise ConfigError("only SQLite databases can be queried.", source=_SETTING)
    if file is None:
        raise ConfigError("a database in memory has nothing to query.", source=_SETTING, fix="Name a file.")
    async with open_sqlite(file, settings.query_timeout_s) as database:
        yield database


def _parsed(url: str) -> sa.URL:
    try:
        return sa.make_url(url)
    except sa.exc.ArgumentError:
        raise ConfigError(
            "this is not a database URL.",
            source=_SETTING,
            fix="Give one such as postgresql://reader@db.internal/shop, or unset it to use the todo database.",
        ) from None
