"""An answer longer than its limit is cut, says so, and is the beginning of the whole (C-03)."""

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa

from tests.fixtures.mcp_server import held
from tests.servers.core.query.querying import QueryClient, query_client, run_sql


@pytest.fixture(scope="module")
def items_url(shop_url: str) -> str:
    """Add a table with many equal and missing values in the columns that rows are ordered by."""
    metadata = sa.MetaData()
    items = sa.Table(
        "items",
        metadata,
        sa.Column("shelf", sa.Integer, primary_key=True),
        sa.Column("place", sa.String(20), primary_key=True),
        sa.Column("name", sa.Text),
        sa.Column("price", sa.Numeric(10, 3, asdecimal=False)),
        sa.Column("weight", sa.Float),
        sa.Column("sold_at", sa.DateTime),
        sa.Column("is_new", sa.Boolean),
    )
    rows = [
        {
            "shelf": number % 3,
            "place": f"p{number}",
            "name": [None, "a", "B", "ä", "a'b", 'a"b', "a%"][number % 7],
            "price": [None, 0.1, 0.125, 100][number % 4],
            "weight": [None, 0.1, 1e300, -1.5, 5e-324][number % 5],
            "is_new": [None, True, False][number % 3],
            "sold_at": datetime(2026, 1, 1, 10, microsecond=number % 3),  # noqa: DTZ001  the column has no zone
        }
        for number in range(40)
    ]
    engine = sa.create_engine(shop_url)
    with engine.begin() as connection:
        metadata.create_all(connection)
        connection.execute(items.insert(), rows)
    engine.dispose()
    return shop_url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def items(items_url: str) -> AsyncIterator[QueryClient]:
    async with held(query_client(items_url, "items")) as client:
        yield client


@pytest.mark.requirement("C-03")
@pytest.mark.parametrize(
    "order",
    [None, "-name", ["price desc", "name"], ["-weight", "is_new"], ["sold_at", "-place"], ["is_new desc", "-shelf"]],
)
async def test_a_cut_answer_is_the_beginning_of_the_whole_in_its_order(items: QueryClient, order: Any) -> None:
    arguments = {"columns": ["shelf", "place"]} | ({"order_by": order} if order else {})
    whole = await items.query("items", **arguments)
    cut = await items.query("items", **arguments, limit=15)
    assert (len(whole["data"]), whole["metadata"]["has_more"], "note" in whole["metadata"]) == (40, False, False)
    assert cut["data"] == whole["data"][:15]
    assert cut["metadata"]["has_more"] is True
    assert "There are more rows. Add filters" in cut["metadata"]["note"]


async def test_a_table_without_a_key_is_cut_at_the_limit_too(shop: QueryClient) -> None:
    answer = await shop.query("log", limit=2)
    assert (len(answer["data"]), answer["metadata"]["has_more"]) == (2, True)
    assert (await shop.query("log"))["metadata"]["has_more"] is False


async def test_a_key_that_may_not_be_read_orders_nothing_and_is_not_shown(shop_url: str) -> None:
    async with query_client(shop_url, "customers(name)") as client:
        answer = await client.query("customers", limit=1)
    assert [list(row) for row in answer["data"]] == [["name"]]


async def test_texts_with_nul_are_ordered_and_whole_in_sqlite(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'data.db'}"
    names = ("a", "a\0b", "a\0c", "", "\0", "b\ufffd", "c")
    rows = [{"name": name} for name in names]
    run_sql(url, "CREATE TABLE t (name TEXT PRIMARY KEY)", "INSERT INTO t VALUES (:name)", values=rows)
    async with query_client(url, "t") as client:
        for order in ("name", "-name"):
            found = [row["name"] for row in await client.rows("t", order_by=order)]
            assert found == sorted(names, reverse=order == "-name")


async def test_an_answer_that_is_large_enough_ends_early_and_says_so(empty_url: str) -> None:
    rows = [{"id": number, "body": "x" * 9_000} for number in range(120)]
    create = "CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)"
    run_sql(empty_url, create, "INSERT INTO t VALUES (:id, :body)", values=rows)
    async with query_client(empty_url, "t") as client:
        answer = await client.query("t", limit=1000)
        assert "maximum size" in answer["metadata"]["note"]
        assert 40 < answer["metadata"]["count"] < 60
    assert [row["id"] for row in answer["data"]] == list(range(answer["metadata"]["count"]))
