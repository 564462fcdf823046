"""Hold the open todo database: short transactions whose failures are told in words that may be shown."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from toolweave.errors import ConfigError, PersistenceError

SETTING = "TOOLWEAVE_TODO_DATABASE_URL"
# Shorter than a tool's limit, so that a caller hears that the database is busy instead of a time-out.
BUSY_TIMEOUT_S = 3.0

_ASYNC_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
_REASONS = {
    "SQLITE_BUSY": "is busy: another program is writing to it",
    "SQLITE_LOCKED": "is busy: another program is writing to it",
    "SQLITE_FULL": "cannot grow: the disk is full",
    "SQLITE_READONLY": "is read-only",
    "SQLITE_CANTOPEN": "cannot be opened",
    "SQLITE_NOTADB": "is not a SQLite database",
    "SQLITE_CORRUPT": "is damaged",
    "SQLITE_IOERR": "cannot be read or written: the disk reports an error",
}


@dataclass(frozen=True, slots=True)
class TodoDatabase:
    """A database whose schema is current; `full_text` tells whether it has the full-text index."""

    engine: AsyncEngine
    full_text: bool

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that sees one state of the database.

        Raises:
            PersistenceError: the database is busy, damaged or gone.
        """
        async with transaction(self.engine, "DEFERRED") as connection:
            yield connection

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that commits at its end; on SQLite it holds the write lock from the start.

        Raises:
            PersistenceError: the database is busy, full, damaged or gone; nothing was written.
        """
        async with transaction(self.engine, "IMMEDIATE") as connection:
            yield connection


@asynccontextmanager
async def transaction(engine: AsyncEngine, begin: Literal["DEFERRED", "IMMEDIATE"]) -> AsyncIterator[AsyncConnection]:
    """Open a transaction; SQLite begins it as told, because a reader that turns writer may find itself refused."""
    try:
        async with engine.connect() as connection:
            await connection.execution_options(sqlite_begin=begin)
            async with connection.begin():
                yield connection
    except sa.exc.SQLAlchemyError as error:
        raise PersistenceError(f"The todo database {_reason(error)}.") from error


def parse_url(url: str) -> sa.URL:
    """Parse a SQLAlchemy URL, filling in the asynchronous driver.

    Raises:
        ConfigError: it is not a database URL.
    """
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise ConfigError(
            "this is not a database URL.",
            source=SETTING,
            fix="Give one such as sqlite:////data/todo.db, or unset it to use the data folder.",
        ) from None
    return parsed.set(drivername=_ASYNC_DRIVERS.get(parsed.drivername, parsed.drivername))


def create_engine(url: sa.URL, busy_timeout_s: float) -> AsyncEngine:
    """Create the engine without connecting.

    Raises:
        ConfigError: the URL's driver is absent or not asynchronous.
    """
    is_sqlite = url.get_backend_name() == "sqlite"
    in_memory = is_sqlite and url.database in (None, "", ":memory:")
    try:
        engine = create_async_engine(
            url,
            connect_args={"timeout": busy_timeout_s} if is_sqlite else {},
            poolclass=AsyncAdaptedQueuePool,
            pool_size=1 if in_memory else 5,
            max_overflow=0,
            pool_timeout=busy_timeout_s,
        )
    except (sa.exc.ArgumentError, sa.exc.InvalidRequestError, ModuleNotFoundError) as error:
        raise ConfigError(
            f"there is no asynchronous driver for {url.drivername} here.",
            source=SETTING,
            fix="Install the driver, or use a sqlite URL.",
        ) from error
    if is_sqlite:
        sa.event.listen(engine.sync_engine, "connect", _configure_sqlite)
        sa.event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


def _configure_sqlite(connection: Any, _record: object) -> None:
    driver = connection.driver_connection
    driver.stop = _once(driver.stop)
    # None: the driver begins no transaction of its own accord.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.close()


def _once(stop: Callable[[], Any]) -> Callable[[], Any]:
    """Stop a connection's thread the first time only.

    Who closes a connection that a cancelled call has stopped already would wait for an answer of a thread that is gone.
    """
    asked = False

    def stopping() -> Any:
        nonlocal asked
        if asked:
            return None
        asked = True
        return stop()

    return stopping


def _begin_sqlite(connection: sa.Connection) -> None:
    connection.exec_driver_sql(f"BEGIN {connection.get_execution_options()['sqlite_begin']}")


def _reason(error: sa.exc.SQLAlchemyError) -> str:
    if isinstance(error, sa.exc.TimeoutError):
        return "is busy: too many calls wait for it"
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else None
    # Extended codes such as SQLITE_IOERR_WRITE carry the primary one as their beginning.
    name = cause.sqlite_errorname if isinstance(cause, sqlite3.Error) else ""
    primary = "_".join(name.split("_")[:2])
    return _REASONS.get(primary, "cannot be used")
