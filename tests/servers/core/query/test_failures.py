"""A database that is down, slow, closed or changed is a clear error, and works again later (C-03, C-06)."""

import asyncio
import gc
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.fixtures.mcp_server import free_port
from tests.fixtures.postgres import PostgresServer, postgres_server
from tests.servers.core.query.querying import QueryClient, query_client, run_sql
from tests.servers.core.query.shop import make_shop


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[PostgresServer]:
    """Start a server that tests may stop."""
    with postgres_server() as server:
        yield server


async def test_a_database_that_was_restarted_is_found_again(own_postgres: PostgresServer) -> None:
    with own_postgres.fresh_database() as url:
        await asyncio.to_thread(make_shop, url)
        async with query_client(url, "orders") as client:
            assert len(await client.rows("orders")) == 4
            await asyncio.to_thread(own_postgres.stop)
            error = await client.refused("orders")
            assert (error["type"], error["code"]) == ("unavailable", "unavailable")
            assert "TOOLWEAVE_QUERY_DATABASE_URL" in error["suggestion"]
            await asyncio.to_thread(own_postgres.start)
            assert len(await client.rows("orders")) == 4
            # A restart between two calls.
            await asyncio.to_thread(own_postgres.stop)
            await asyncio.to_thread(own_postgres.start)
            assert len(await client.rows("orders")) == 4


async def test_a_refused_connection_is_an_error_without_the_password(postgres: PostgresServer) -> None:
    postgres.execute("CREATE ROLE guest LOGIN PASSWORD 'right'")
    try:
        for url in (
            postgres.url(user="guest", password="hunter2"),
            postgres.url("no_such_database"),
            f"postgresql://u:hunter2@127.0.0.1:{free_port()}/d",
            f"postgresql://u:hunter2@127.0.0.1:{free_port()}/d?connect_timeout=soon",
        ):
            async with query_client(url, "orders") as client:
                error = await client.refused("orders")
            assert error["code"] == "unavailable", error
            assert error["suggestion"]
            assert not any(word in str(error) for word in ("hunter2", "127.0.0.1", "guest", "psycopg", "no_such"))
    finally:
        postgres.execute("DROP ROLE guest")


async def test_a_server_that_never_answers_is_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/d"
        async with query_client(url, "orders", timeout_s=0.2) as client:
            assert (await client.refused("orders"))["code"] == "query_timeout"


@pytest.mark.requirement("C-03")
async def test_a_query_that_takes_too_long_is_stopped(empty_url: str, caplog: pytest.LogCaptureFixture) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id FROM n WHERE i < 0"
    run_sql(empty_url, f"CREATE VIEW endless AS {endless}", "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    async with query_client(empty_url, "endless, t", timeout_s=0.2) as client:
        error = await client.refused("endless")
        assert (error["type"], error["code"]) == ("timeout", "query_timeout")
        assert error["suggestion"] == "Add filters, or ask for fewer rows."
        assert await rows_at_last(client, "t") == []
    # The error of the stopped query, with its values, is reported when it is collected.
    gc.collect()
    assert "never retrieved" not in caplog.text


async def rows_at_last(client: QueryClient, table: str) -> list[dict[str, Any]]:
    """Read a table until it answers: on a busy machine a query may take longer than the short limit of these tests."""
    async with asyncio.timeout(60):
        while (answer := await client.call("query_database", {"table": table}))["status"] != "success":
            assert answer["error"]["code"] in ("query_timeout", "unavailable"), answer
    rows: list[dict[str, Any]] = answer["data"]
    return rows


async def test_a_table_that_is_locked_is_not_waited_for_longer_than_a_query_may_take(postgres: PostgresServer) -> None:
    with postgres.fresh_database() as url:
        make_shop(url)
        async with query_client(url, "orders", timeout_s=0.3) as client:
            assert len(await rows_at_last(client, "orders")) == 4
            with postgres.connect(url) as other:
                other.execute("BEGIN")
                other.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
                assert (await client.refused("orders"))["code"] == "query_timeout"
                other.execute("ROLLBACK")
            assert len(await rows_at_last(client, "orders")) == 4


async def test_a_sqlite_file_that_another_program_holds_is_busy(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'data.db'}"
    make_shop(url)
    engine = sa.create_engine(url)
    async with query_client(url, "orders", timeout_s=0.2) as client:
        with engine.connect() as connection:
            connection.exec_driver_sql("BEGIN EXCLUSIVE")
            assert (await client.refused("orders"))["code"] in ("unavailable", "query_timeout")
            connection.exec_driver_sql("ROLLBACK")
        assert len(await rows_at_last(client, "orders")) == 4
    engine.dispose()


async def test_tables_that_change_under_the_server_are_read_in_their_new_form(empty_url: str) -> None:
    async with query_client(empty_url, "t") as client:
        if empty_url.startswith("sqlite"):
            run_sql(empty_url, "CREATE TABLE other (id INTEGER)")
        error = await client.refused("t")
        assert error["code"] == "not_found"
        assert "'t' may be read, but the database has no table of that name" in error["message"]
        run_sql(empty_url, "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER)", "INSERT INTO t VALUES (1, 5)")
        assert await client.rows("t") == [{"id": 1, "a": 5}]
        run_sql(empty_url, "ALTER TABLE t ADD COLUMN b TEXT")
        assert await client.rows("t", columns=["b"]) == [{"b": None}]
        run_sql(empty_url, "ALTER TABLE t DROP COLUMN a")
        assert await client.rows("t") == [{"id": 1, "b": None}]
        assert (await client.refused("t", columns=["a"]))["code"] == "guardrail"
        run_sql(empty_url, "DROP TABLE t")
        assert (await client.refused("t"))["code"] == "not_found"
        run_sql(empty_url, "CREATE TABLE t (id INTEGER PRIMARY KEY, b INTEGER)", "INSERT INTO t VALUES (2, 3)")
        assert await client.found("t", {"b": 3}) == [2]


async def test_a_column_whose_type_changes_is_read_with_its_new_type(postgres: PostgresServer) -> None:
    with postgres.fresh_database() as url:
        run_sql(url, "CREATE TABLE t (id integer PRIMARY KEY, a integer)", "INSERT INTO t VALUES (1, 5)")
        async with query_client(url, "t") as client:
            assert await client.found("t", {"a": 5}) == [1]
            run_sql(url, "ALTER TABLE t ALTER COLUMN a TYPE text")
            error = await client.refused("t", filters={"a": 5})
            assert error["message"] == "Parameter 'filters.a' must be text."
            assert await client.found("t", {"a": "5"}) == [1]
