"""Give the tests a shop to query, on SQLite and on PostgreSQL."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fixtures.mcp_server import held
from tests.fixtures.postgres import PostgresServer
from tests.servers.core.query.querying import QueryClient, query_client
from tests.servers.core.query.shop import TABLES, make_shop


@contextmanager
def fresh_url(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """Give the URL of an empty database of a kind; one of PostgreSQL starts the server."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'data.db'}"
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    with postgres.fresh_database() as url:
        yield url


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shop_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A shop that tests only read."""
    with fresh_url(request.param, request, tmp_path_factory.mktemp("shop")) as url:
        make_shop(url)
        yield url


@pytest.fixture(scope="module")
def sqlite_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A shop on SQLite, for what is the same on every database."""
    url = f"sqlite:///{tmp_path_factory.mktemp('shop') / 'data.db'}"
    make_shop(url)
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database of a test's own."""
    with fresh_url(request.param, request, tmp_path) as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(shop_url: str) -> AsyncIterator[QueryClient]:
    async with held(query_client(shop_url, TABLES)) as client:
        yield client
