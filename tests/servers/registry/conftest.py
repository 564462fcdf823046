"""Give each test a registry of its own, its database a real one, on SQLite and on PostgreSQL."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fixtures.postgres import PostgresServer
from tests.servers.registry.tools import registry_url
from toolweave.servers.registry.repository import ToolRepository, open_registry_at

DATABASES = ["sqlite", "postgresql"]
# There are no tables yet before the first test.
EMPTY = """DO $$ BEGIN
    TRUNCATE registered_tools;
    UPDATE tool_registry_revision SET last = 0;
EXCEPTION WHEN undefined_table THEN NULL;
END $$"""


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Name an empty database."""
    if request.param == "sqlite":
        return registry_url(tmp_path)
    postgres: PostgresServer = request.getfixturevalue("postgres")
    url: str = request.getfixturevalue("emptied_url")
    postgres.execute(EMPTY, url=url)
    return url


@pytest.fixture(params=DATABASES)
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Name a database that nobody has opened yet."""
    if request.param == "sqlite":
        yield registry_url(tmp_path)
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    with postgres.fresh_database() as url:
        yield url


@pytest_asyncio.fixture(loop_scope="module")
async def registry(url: str) -> AsyncIterator[ToolRepository]:
    async with open_registry_at(url) as tools:
        yield tools
