"""Open the database that queries read: SQLite and PostgreSQL in ways of their own, others as far as that goes (D-9)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from toolweave.config.settings import Settings
from toolweave.errors import ConfigError
from toolweave.servers.core.query.dialect import Dialect
from toolweave.servers.core.query.generic_database import open_generic
from toolweave.servers.core.query.postgresql_database import open_postgresql
from toolweave.servers.core.query.sqlite_database import open_sqlite
from toolweave.servers.databases.engine import file_of
from toolweave.servers.databases.postgresql import DRIVER as _POSTGRESQL
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


@asynccontextmanager
async def open_query_database(settings: Settings) -> AsyncIterator[QueryDatabase]:
    """Prepare the database of the settings, by default the todo server's; it is connected with first use.

    Raises:
        ConfigError: the URL is none, or its driver is not installed.
    """
    url = _parsed(settings.query_database_url or todo_database_url(settings))
    async with AsyncExitStack() as stack:
        try:
            database = await stack.enter_async_context(_opened(url, settings))
        except (sa.exc.ArgumentError, sa.exc.InvalidRequestError, ImportError) as error:
            raise _no_driver(url) from error
        yield database


def _opened(url: sa.URL, settings: Settings) -> AbstractAsyncContextManager[QueryDatabase]:
    match url.get_backend_name():
        case "sqlite":
            return open_sqlite(_file(url), settings.query_timeout_s)
        case "postgresql":
            return open_postgresql(url, settings.query_timeout_s, settings.query_role)
    return open_generic(url, settings.query_timeout_s)


def _file(url: sa.URL) -> Path:
    file = file_of(url)
    if file is None:
        raise ConfigError("a database in memory has nothing to query.", source=_SETTING, fix="Name a file.")
    return file


def _parsed(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise ConfigError(
            "this is not a database URL.",
            source=_SETTING,
            fix="Give one such as postgresql://reader@db.internal/shop, or unset it to use the todo database.",
        ) from None
    return parsed.set(drivername=_POSTGRESQL) if parsed.drivername in ("postgres", "postgresql") else parsed


def _no_driver(url: sa.URL) -> ConfigError:
    install = (
        "Install it: pip install 'toolweave[postgres]'."
        if url.drivername == _POSTGRESQL
        else "Install one, and name it in the URL; PostgreSQL is reached with postgresql://, SQLite with sqlite://."
    )
    return ConfigError(f"there is no asynchronous driver for {url.drivername} here.", source=_SETTING, fix=install)
