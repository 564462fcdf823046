"""Read any other database that SQLAlchemy has an asynchronous driver for, as far as that goes (D-9)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from toolweave.servers.core.query.generic_dialect import GenericDialect

T = TypeVar("T")
CONNECTIONS = 5


class GenericDatabase:
    """Any database: transactions are always rolled back; that its user may only read is the operator's part."""

    dialect = GenericDialect()

    def __init__(self, engine: AsyncEngine, timeout_s: float) -> None:
        self._engine = engine
        self._timeout_s = timeout_s

    async def run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Do some reading in a transaction of its own, which is given up when it takes too long.

        Raises:
            TimeoutError: it took too long.
            SQLAlchemyError: whatever the database says.
        """
        async with asyncio.timeout(self._timeout_s), self._engine.connect() as connection:
            return await work(connection)


@asynccontextmanager
async def open_generic(url: sa.URL, timeout_s: float) -> AsyncIterator[GenericDatabase]:
    """Prepare the reading of a database; nothing is connected before it is needed.

    Raises:
        ModuleNotFoundError: the driver is absent.
        SQLAlchemyError: the URL's driver cannot be used.
    """
    engine = await asyncio.to_thread(
        create_async_engine,
        url,
        pool_size=CONNECTIONS,
        max_overflow=0,
        pool_timeout=timeout_s,
        pool_pre_ping=True,
    )
    try:
        yield GenericDatabase(engine, timeout_s)
    finally:
        await engine.dispose()
