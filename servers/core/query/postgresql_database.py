"""Read a PostgreSQL database in transactions that cannot write, cannot last and trust no schema but its own (C-03)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from toolweave.servers.core.query.postgresql_dialect import PostgreSQLDialect
from toolweave.servers.databases import postgresql
from toolweave.servers.error_codes import UNAVAILABLE, ToolFailed

T = TypeVar("T")
CONNECTIONS = 5
# Longer than the server's own limit, so that its reason is heard.
_GRACE_S = 0.5
_ENDING_LIMIT_S = 3.0
_NO_SUCH_ROLE = ("22023", "42501", "42704")


class PostgreSQLDatabase:
    """A PostgreSQL database; connections are opened with the first use, and anew when the server was restarted."""

    dialect = PostgreSQLDialect()

    def __init__(self, engine: AsyncEngine, timeout_s: float, role: str | None) -> None:
        self._engine = engine
        self._timeout_s = timeout_s
        self._settings = _settings(timeout_s, role)
        self._given_up: set[asyncio.Future[Any]] = set()

    async def run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Do some reading in a transaction of its own; whoever is cancelled meanwhile has the server told.

        Raises:
            ToolFailed: the role of the settings cannot be taken.
            TimeoutError: the server is silent.
            SQLAlchemyError: whatever the database says.
        """
        held: list[Any] = []
        reading = asyncio.ensure_future(self._read_anew(work, held))
        # A cursor whose use is cancelled half-way would stay open: the statement is cancelled instead.
        try:
            async with asyncio.timeout(self._timeout_s + _GRACE_S):
                return await asyncio.shield(reading)
        finally:
            if not reading.done():
                ending = asyncio.ensure_future(_end(reading, held))
                self._given_up.add(ending)
                ending.add_done_callback(self._given_up.discard)
                await asyncio.wait({ending}, timeout=_GRACE_S)

    async def close(self) -> None:
        """Let what was given up come to its end, and close the connections."""
        if self._given_up:
            await asyncio.wait(self._given_up, timeout=_ENDING_LIMIT_S)
        await self._engine.dispose()

    async def _read_anew(self, work: Callable[[AsyncConnection], Awaitable[T]], held: list[Any]) -> T:
        """Read; connections that broke while they waited are opened anew."""
        try:
            return await self._read(work, held)
        except sa.exc.DBAPIError as error:
            if not error.connection_invalidated:
                raise
        return await self._read(work, held)

    async def _read(self, work: Callable[[AsyncConnection], Awaitable[T]], held: list[Any]) -> T:
        async with self._engine.connect() as connection, connection.begin():
            held.append((await connection.get_raw_connection()).driver_connection)
            try:
                await self._prepare(connection)
                return await work(connection)
            finally:
                held.clear()

    async def _prepare(self, connection: AsyncConnection) -> None:
        try:
            await connection.execute(self._settings)
        except sa.exc.DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) in _NO_SUCH_ROLE:
                raise ToolFailed(
                    UNAVAILABLE,
                    "The role that queries are run as cannot be taken.",
                    "Ask the operator to check TOOLWEAVE_QUERY_ROLE, and that the database's user is a member of it.",
                ) from error
            raise


async def _end(reading: "asyncio.Future[Any]", drivers: list[Any]) -> None:
    """Have the server cancel the statement; where it does not listen, break off."""
    for driver in drivers:
        if hasattr(driver, "cancel_safe"):
            cancelling = asyncio.ensure_future(driver.cancel_safe(timeout=_GRACE_S))
            cancelling.add_done_callback(_looked_at)
            await asyncio.wait({cancelling, reading}, timeout=2 * _GRACE_S)
    reading.cancel()
    await asyncio.wait({reading})
    _looked_at(reading)


def _looked_at(done: "asyncio.Future[Any]") -> None:
    if not done.cancelled():
        done.exception()


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
    database = PostgreSQLDatabase(engine, timeout_s, role)
    try:
        yield database
    finally:
        await database.close()


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
