"""Read a PostgreSQL database in transactions that cannot write, cannot last and trust no schema but its own (C-03)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from toolweave.servers.core.query.postgresql_dialect import PostgreSQLDialect
from toolweave.servers.databases import postgresql

T = TypeVar("T")
CONNECTIONS = 5
# Longer than the server's own limit, so that its reason is heard.
_GRACE_S = 0.5


class PostgreSQLDatabase:
    """A PostgreSQL database; connections are opened with the first use, and anew when the server was restarted."""

    dialect = PostgreSQLDialect()

    def __init__(self, engine: AsyncEngine, timeout_s: float, role: str | None) -> None:
        self._engine = engine
        self._timeout_s = timeout_s
        self._settings = _settings(timeout_s, role)

    async def run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Do some reading in a transaction of its own; connections that broke while they waited are opened anew.

        Raises:
            TimeoutError: the server is silent.
            SQLAlchemyError: whatever the database says.
        """
        async with asyncio.timeout(self._timeout_s + _GRACE_S):
            try:
                return await self._read(work)
            except sa.exc.DBAPIError as error:
                if not error.connection_invalidated:
                    raise
            return await self._read(work)

    async def _read(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        async with self._engine.connect() as connection, connection.begin():
            await connection.execute(self._settings)
            return await work(connection)


@asynccontextmanager
async def open_postgresql(url: sa.URL, timeout_s: float, role: str | None) -> AsyncIterator[PostgreSQLDatabase]:
    """Prepare the reading of a database; nothing is connected before it is needed.

    Raises:
        ModuleNotFoundError: the driver is absent.
        SQLAlchemyError: the URL's driver cannot be used.
    """
    arguments = postgresql.connect_args(url, "query_database") if url.drivername == postgresql.DRIVER else {}
    # On a thread: importing a driver reads files, and event loops of others watch for that.
    engine = await asyncio.to_thread(
        create_async_engine,
        url,
        connect_args=arguments,
        pool_size=CONNECTIONS,
        max_overflow=0,
        pool_timeout=timeout_s,
        execution_options={"postgresql_readonly": True},
    )
    try:
        yield PostgreSQLDatabase(engine, timeout_s, role)
    finally:
        await engine.dispose()


def _settings(timeout_s: float, role: str | None) -> sa.Select[tuple[str]]:
    """Select what sets the transaction's settings: for it alone, as a pooler may give the connection to others."""
    milliseconds = str(max(1, int(timeout_s * 1000)))
    settings = {
        "statement_timeout": milliseconds,
        "lock_timeout": milliseconds,
        "idle_in_transaction_session_timeout": milliseconds,
        # What is not named with its schema is what PostgreSQL ships; nobody else can put a function in its place.
        "search_path": "pg_catalog, pg_temp",
        "timezone": "UTC",
        "datestyle": "ISO, YMD",
        "extra_float_digits": "1",
    }
    if role:
        settings["role"] = role
    is_local = sa.literal(True)
    return sa.select(
        *(
            sa.func.pg_catalog.set_config(sa.literal(name), sa.literal(value), is_local)
            for name, value in settings.items()
        )
    )
