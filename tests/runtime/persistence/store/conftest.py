"""Open a store on a real database of each kind, with a clock that tests turn."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.fixtures.postgres import PostgresServer
from toolweave.runtime.codec import utc_now
from toolweave.runtime.persistence.database import SqliteDatabase, driver_of, open_sqlite
from toolweave.runtime.persistence.postgres.database import Pool
from toolweave.runtime.persistence.postgres.store import PostgresStore, open_postgres_store
from toolweave.runtime.persistence.store import LongTermStore, SqliteStore, StoreOptions, open_store

BOUND_S = 60.0


class Clock:
    """The time that the store believes it is."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)


class StoreDatabase(ABC):
    """A database with the store's tables."""

    @abstractmethod
    def open(self, options: StoreOptions) -> AbstractAsyncContextManager[LongTermStore]:
        """Open its store, whose expired items are swept."""

    @abstractmethod
    def store(self, options: StoreOptions, clock: Callable[[], datetime] = utc_now) -> LongTermStore:
        """Return its store, which nothing sweeps."""

    @abstractmethod
    async def rows(self) -> int:
        """Count the rows, expired or not."""


class SqliteStoreDatabase(StoreDatabase):
    def __init__(self, path: Path, database: SqliteDatabase) -> None:
        self._path = path
        self._database = database

    def open(self, options: StoreOptions) -> AbstractAsyncContextManager[LongTermStore]:
        return open_store(self._path, options)

    def store(self, options: StoreOptions, clock: Callable[[], datetime] = utc_now) -> LongTermStore:
        return SqliteStore(self._database, options, clock)

    async def rows(self) -> int:
        query = "SELECT count(*) FROM store"
        return int(await self._database.read(lambda connection: driver_of(connection).execute(query).fetchone()[0]))


class PostgresStoreDatabase(StoreDatabase):
    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def open(self, options: StoreOptions) -> AbstractAsyncContextManager[LongTermStore]:
        return open_postgres_store(self.pool, options)

    def store(self, options: StoreOptions, clock: Callable[[], datetime] = utc_now) -> LongTermStore:
        return PostgresStore(self.pool, options, clock)

    async def rows(self) -> int:
        async with self.pool.connection() as connection:
            row = await (await connection.execute("SELECT count(*) FROM store")).fetchone()
        assert row is not None
        return int(row[0])


def postgres_pool(url: str, connections: int = 4) -> Pool:
    """Return a pool to open, for a pooler that keeps no sessions."""
    plain = sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    options = {"autocommit": True, "prepare_threshold": None}
    return Pool(plain, min_size=1, max_size=connections, kwargs=options, open=False, timeout=BOUND_S)


@pytest.fixture
async def pool(postgres: PostgresServer) -> AsyncIterator[Pool]:
    """A pool of connections to an empty PostgreSQL database."""
    async with fresh_pool(postgres) as opened:
        yield opened


@asynccontextmanager
async def fresh_pool(postgres: PostgresServer) -> AsyncIterator[Pool]:
    """Give a pool of connections to a new database."""
    with postgres.fresh_database() as url:
        async with postgres_pool(url) as opened:
            yield opened


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
async def store_database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoreDatabase]:
    """The database of a store that has been opened before, of each kind."""
    if request.param == "postgres":
        async with fresh_pool(request.getfixturevalue("postgres")) as pool:
            async with open_postgres_store(pool, StoreOptions()):
                pass
            yield PostgresStoreDatabase(pool)
        return
    path = tmp_path / "store.db"
    async with open_store(path, StoreOptions()):
        pass
    async with open_sqlite(path) as database:
        yield SqliteStoreDatabase(path, database)


@pytest.fixture
async def store(store_database: StoreDatabase) -> LongTermStore:
    """A store without options in an empty database."""
    return store_database.store(StoreOptions())


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    """The SQLite database of a store that has been opened before."""
    path = tmp_path / "store.db"
    async with open_store(path, StoreOptions()):
        pass
    async with open_sqlite(path) as opened:
        yield opened


@pytest.fixture
def clock() -> Clock:
    return Clock()
