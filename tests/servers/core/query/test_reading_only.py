"""Queries write nothing, whatever they read (C-03)."""

import hashlib
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from fastmcp import Client
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.fixtures.postgres import PostgresServer
from tests.servers.core.query.querying import QueryClient, query_client, run_sql
from tests.servers.core.query.shop import make_shop
from toolweave.config.settings import Settings
from toolweave.servers.core.query.database import open_query_database
from toolweave.servers.core.server import open_core_server
from toolweave.servers.error_codes import ToolFailed
from toolweave.servers.todo.database import TodoRepository, open_todo_database


@pytest.mark.requirement("C-03")
async def test_a_connection_for_queries_cannot_write(shop_url: str) -> None:
    schema = "main" if shop_url.startswith("sqlite") else "public"

    async def insert(connection: AsyncConnection) -> None:
        await connection.execute(sa.text(f"INSERT INTO {schema}.customers (id, name) VALUES (9, 'x')"))  # noqa: S608

    async def create(connection: AsyncConnection) -> None:
        await connection.execute(sa.text(f"CREATE TABLE {schema}.x (y INTEGER)"))

    async with open_query_database(Settings(query_database_url=shop_url)) as database:
        for work in (insert, create):
            with pytest.raises(ToolFailed, match="read-only"):
                await database.run(work)


@pytest.mark.requirement("C-03")
async def test_the_default_is_the_todo_database_of_which_only_the_todos_are_seen(tmp_path: Path) -> None:
    async with open_todo_database(f"sqlite:///{tmp_path / 'todo.db'}") as database:
        await TodoRepository(database).create({"title": "Buy milk"}, key="k")
    async with open_core_server(Settings(data_dir=tmp_path)) as server, Client(server) as client:
        core = QueryClient(client)
        assert [row["title"] for row in await core.rows("todos", filters={"status": "active"})] == ["Buy milk"]
        for table in ("todo_idempotent_results", "todo_schema_version", "todos_fts"):
            assert (await core.refused(table))["code"] == "guardrail"


async def test_an_absent_file_is_not_created_and_is_read_after_another_program_created_it(tmp_path: Path) -> None:
    file = tmp_path / "later" / "data 100%?.db"
    async with query_client(
        f"sqlite:///file:{str(file).replace('%', '%25').replace('?', '%3F')}?uri=true", "t"
    ) as client:
        error = await client.refused("t")
        assert error["code"] == "unavailable"
        assert "creates none" in error["suggestion"]
        assert str(tmp_path) not in str(error)
        assert not file.parent.exists()
        file.parent.mkdir()
        _make(file, "first")
        assert await client.rows("t") == [{"name": "first"}]
        file.unlink()
        assert (await client.refused("t"))["code"] == "unavailable"
        _make(file, "second")
        assert await client.rows("t") == [{"name": "second"}]


async def test_the_file_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "data.db"
    make_shop(f"sqlite:///{file}")
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    async with query_client(f"sqlite:///{file}", "orders") as client:
        assert len(await client.rows("orders", filters=[{"column": "id", "op": "ge", "value": 1}])) == 4
    assert hashlib.sha256(file.read_bytes()).hexdigest() == before
    assert os.listdir(tmp_path) == ["data.db"]  # noqa: PTH208


@pytest.mark.parametrize(("content", "code"), [(b"no database at all " * 100, "unavailable"), (b"", "not_found")])
async def test_a_file_that_is_no_database_is_an_error(tmp_path: Path, content: bytes, code: str) -> None:
    (tmp_path / "data.db").write_bytes(content)
    async with query_client(f"sqlite:///{tmp_path / 'data.db'}", "t") as client:
        assert (await client.refused("t"))["code"] == code


async def test_a_transaction_of_a_query_has_its_limits_and_path(postgres: PostgresServer) -> None:
    expected = {
        "transaction_read_only": "on",
        "statement_timeout": "61500ms",
        "lock_timeout": "61500ms",
        "search_path": "pg_catalog, pg_temp",
        "timezone": "UTC",
    }

    async def settings(connection: AsyncConnection) -> list[str]:
        statement = sa.select(*(sa.func.current_setting(name) for name in expected))
        return list((await connection.execute(statement)).one())

    with postgres.fresh_database() as url:
        async with open_query_database(Settings(query_database_url=url, query_timeout_s=61.5)) as database:
            assert await database.run(settings) == list(expected.values())


async def test_the_role_of_queries_reads_what_it_was_granted_and_no_more(postgres: PostgresServer) -> None:
    with postgres.fresh_database() as url:
        make_shop(url)
        postgres.execute("CREATE ROLE reader")
        postgres.execute("GRANT SELECT (id, name) ON customers TO reader", url=url)
        try:
            async with query_client(url, "customers, orders", role="reader") as client:
                assert len(await client.rows("customers", columns=["id", "name"])) == 3
                for table in ("customers", "orders"):
                    error = await client.refused(table)
                    assert error["code"] == "access_denied"
                    assert "denies this user a permission" in error["message"]
            async with query_client(url, "customers", role="nobody_at_all") as client:
                assert (await client.refused("customers"))["type"] == "unavailable"
        finally:
            postgres.execute("DROP OWNED BY reader", url=url)
            postgres.execute("DROP ROLE reader")


async def test_a_view_that_would_write_is_refused(postgres: PostgresServer) -> None:
    with postgres.fresh_database() as url:
        postgres.execute("CREATE SEQUENCE numbers", url=url)
        postgres.execute("CREATE VIEW counting AS SELECT nextval('numbers') AS number", url=url)
        async with query_client(url, "counting") as client:
            error = await client.refused("counting")
        assert error["code"] == "query_refused"
        assert postgres.execute("SELECT is_called FROM numbers", url=url) == [(False,)]


async def test_tables_of_other_schemas_are_read_by_their_full_names(postgres: PostgresServer) -> None:
    with postgres.fresh_database() as url:
        run_sql(
            url,
            "CREATE SCHEMA sales",
            "CREATE TABLE sales.orders AS SELECT 7 AS id",
            "CREATE TABLE orders (id integer PRIMARY KEY, secret text)",
        )
        async with query_client(url, "sales.orders") as client:
            assert await client.rows("sales.orders") == [{"id": 7}]
            assert (await client.refused("orders"))["code"] == "guardrail"


def _make(file: Path, name: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(f"CREATE TABLE t (name TEXT); INSERT INTO t VALUES ('{name}')")  # noqa: S608
