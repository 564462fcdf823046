"""Give each test a todo database of its own, on SQLite and on PostgreSQL, and a todo server in this process."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa

from tests.fixtures.mcp_server import held
from tests.fixtures.postgres import PostgresServer
from tests.servers.todo.in_memory import TodoClient, todo_client, todo_url

DATABASES = ["sqlite", "postgresql"]
# There are no tables yet before the first test.
EMPTY = """DO $$ BEGIN
    TRUNCATE todos, todo_idempotent_results RESTART IDENTITY;
EXCEPTION WHEN undefined_table THEN NULL;
END $$"""


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Name a database that nobody has opened yet."""
    if request.param == "sqlite":
        yield todo_url(tmp_path)
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    with postgres.fresh_database() as url:
        yield url


class OtherProgram:
    """Another program that uses the same todo database."""

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url, poolclass=sa.NullPool)
        self.is_sqlite = self._engine.dialect.name == "sqlite"

    def execute(self, statement: str) -> list[Any]:
        with self._engine.begin() as connection:
            result = connection.execute(sa.text(statement))
            return [tuple(row) for row in result] if result.returns_rows else []

    @contextmanager
    def write_lock(self) -> Iterator[None]:
        lock = "BEGIN IMMEDIATE" if self.is_sqlite else "LOCK TABLE todos IN EXCLUSIVE MODE"
        with self._engine.connect() as connection:
            connection.exec_driver_sql(lock)
            yield
            connection.rollback()


@pytest.fixture
def other(database_url: str) -> OtherProgram:
    return OtherProgram(database_url)


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    """Name a PostgreSQL database that nobody has opened yet."""
    with postgres.fresh_database() as url:
        yield url


@pytest_asyncio.fixture(loop_scope="module", params=DATABASES)
async def todos(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TodoClient]:
    async with held(todo_client(empty_url(request, tmp_path))) as client:
        yield client


def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Name the database for a fixture whose parameter says which kind of it."""
    if request.param == "sqlite":
        return todo_url(tmp_path)
    postgres: PostgresServer = request.getfixturevalue("postgres")
    url: str = request.getfixturevalue("emptied_url")
    postgres.execute(EMPTY, url=url)
    return url
