"""A setting that is wrong closes query_database, says so, and closes nothing else (C-03)."""

import os
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.servers.core.query.querying import query_client
from tests.servers.core.query.shop import TABLES, make_shop
from toolweave.config.settings import Settings
from toolweave.servers.core.query.tools import open_query_tools


@pytest.mark.parametrize(
    ("settings", "named", "expected"),
    [
        ({"tables": "a b"}, "TOOLWEAVE_QUERY_TABLES", "the list is invalid"),
        ({"tables": "runs, SQLITE_MASTER"}, "TOOLWEAVE_QUERY_TABLES", "lists no table that may be read"),
        ({"database_url": "hunter2"}, "TOOLWEAVE_QUERY_DATABASE_URL", "this is not a database URL."),
        ({"database_url": "sqlite://"}, "TOOLWEAVE_QUERY_DATABASE_URL", "in memory has nothing to query"),
        ({"database_url": "postgresql+psycopg2://u:hunter2@h/d"}, "TOOLWEAVE_QUERY_DATABASE_URL", "no asynchronous"),
        ({"forbidden": "("}, "TOOLWEAVE_QUERY_FORBIDDEN", "it is not a regular expression"),
    ],
)
async def test_a_wrong_setting_is_named_and_closes_only_this_tool(
    tmp_path: Path, settings: dict[str, Any], named: str, expected: str
) -> None:
    given = {"database_url": f"sqlite:///{tmp_path / 'x.db'}", "tables": "t"} | settings
    async with query_client(given.pop("database_url"), given.pop("tables"), **given) as client:
        error = await client.refused("t")
        assert error["code"] == "not_configured"
        assert named in error["message"]
        assert expected in error["message"]
        assert "hunter2" not in str(error)
        assert "search_files" in [tool.name for tool in await client.client.list_tools()]


async def test_nothing_is_connected_before_the_first_query(tmp_path: Path) -> None:
    url = "postgresql://u:p@127.0.0.1:1/d"
    async with open_query_tools(Settings(query_database_url=url, query_tables="t")):
        pass
    async with open_query_tools(Settings(data_dir=tmp_path)):
        pass
    assert os.listdir(tmp_path) == []  # noqa: PTH208


async def test_a_name_with_other_capitals_than_the_table_has_is_no_failure_of_the_database(empty_url: str) -> None:
    make_shop(empty_url)
    async with query_client(empty_url, "ORDERS, orders") as client:
        error = await client.refused("ORDERS")
        assert (error["code"], "no table of that name" in error["message"]) == ("not_found", True)
        assert len(await client.rows("orders")) == 4


@pytest.mark.requirement("D-9")
async def test_any_other_database_is_read_with_what_sqlalchemy_knows_of_it(sqlite_url: str) -> None:
    # The file by another name of its dialect: nothing that is special about SQLite is used.
    sa.dialects.registry.register("other.aiosqlite", "sqlalchemy.dialects.sqlite.aiosqlite", "SQLiteDialect_aiosqlite")
    async with query_client(sqlite_url.replace("sqlite:", "other+aiosqlite:"), TABLES) as client:
        (row,) = await client.rows("orders", filters={"id": 1})
        for column, value in row.items():
            if column not in ("details", "weight", "sent_at"):
                assert 1 in await client.found("orders", {column: value}), column
        assert await client.found("orders", [{"column": "customer", "op": "like", "value": "%B%"}]) == [2]
        whole = await client.rows("orders", columns=["id"], order_by="-total")
        assert await client.rows("orders", columns=["id"], order_by="-total", limit=2) == whole[:2]
