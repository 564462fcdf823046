"""Give each test a todo database of its own, on SQLite and on PostgreSQL, and a todo server in this process."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

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
