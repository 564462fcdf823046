"""Queries beside writers and queries that are cancelled disturb neither each other nor the database (C-03)."""

import asyncio
import gc
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.fixtures.postgres import PostgresServer
from tests.servers.core.query.querying import query_client, run_sql
from toolweave.config.settings import Settings
from toolweave.servers.core.query.tools import open_query_tools

_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id FROM n WHERE i < 0"


async def test_a_query_beside_a_writer_reads_the_committed_rows(empty_url: str) -> None:
    engine = sa.create_engine(empty_url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE t (id INTEGER PRIMARY KEY)"))
        if engine.dialect.name == "sqlite":
            engine.raw_connection().execute("PRAGMA journal_mode = WAL")
    async with query_client(empty_url, "t") as client:
        with engine.connect() as writer:
            writer.execute(sa.text("INSERT INTO t VALUES (1)"))
            assert await client.rows("t") == []
            writer.commit()
        assert await client.rows("t") == [{"id": 1}]
    engine.dispose()


@pytest.fixture
def endless_url(empty_url: str) -> str:
    run_sql(empty_url, f"CREATE VIEW endless AS {_ENDLESS}", "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    return empty_url


@pytest.mark.parametrize("turns", [0, 1, 3, 10, 30, 100, 300])
async def test_cancelled_queries_leave_nothing_open(
    endless_url: str, turns: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async with open_query_tools(
        Settings(query_database_url=endless_url, query_tables="endless, t", query_timeout_s=600)
    ) as tools:
        for table in ("t", "endless"):
            calls = [asyncio.ensure_future(tools.query_database(table)) for _ in range(3)]
            for _ in range(turns):
                await asyncio.sleep(0)
            # A server takes longer to be reached than any number of turns.
            while turns == 300 and table == "endless" and not _is_at_work(endless_url, request):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            for call in calls:
                call.cancel()
            await asyncio.wait_for(asyncio.wait(calls), 60)
        answer = await asyncio.wait_for(tools.query_database("t"), 60)
        assert (answer.structured_content or {})["data"] == []
        await asyncio.wait_for(_nothing_open(endless_url, request, tmp_path), 60)
    # An open cursor is reported when it is collected.
    gc.collect()


async def _nothing_open(url: str, request: pytest.FixtureRequest, folder: Path) -> None:
    if url.startswith("sqlite"):
        # It needs every other connection to be out of its transaction.
        sqlite3.connect(folder / "data.db", timeout=60).execute("BEGIN EXCLUSIVE").connection.close()
        return
    while _is_at_work(url, request):  # noqa: ASYNC110  the server sends no event
        await asyncio.sleep(0.02)


def _is_at_work(url: str, request: pytest.FixtureRequest) -> bool:
    """Say whether a server executes a query; of SQLite, which is reached within the turns, always yes."""
    if url.startswith("sqlite"):
        return True
    statement = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = %(name)s AND state <> 'idle' AND pid <> pg_backend_pid()"
    )
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.execute(statement, {"name": sa.make_url(url).database}, url=url) != [(0,)]
