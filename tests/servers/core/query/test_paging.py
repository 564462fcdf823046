"""Pages lose no row and repeat none; where that cannot be promised the answer says so (C-03)."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa

from tests.fixtures.mcp_server import held
from tests.servers.core.query.querying import QueryClient, query_client


@pytest.fixture(scope="module")
def items_url(shop_url: str) -> str:
    """Add a table with many equal and missing values in what rows are ordered by."""
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
        }
        for number in range(40)
    ]
    engine = sa.create_engine(shop_url)
    with engine.begin() as connection:
        metadata.create_all(connection)
        connection.execute(items.insert(), rows)
        for number, moment in enumerate(["2026-01-01 10:00:00", "2026-01-01 10:00:00.000001", "1999-12-31 00:00:00"]):
            stated = sa.text("UPDATE items SET sold_at = :moment WHERE shelf = :number")
            if engine.dialect.name == "postgresql":
                stated = sa.text("UPDATE items SET sold_at = CAST(:moment AS TIMESTAMP) WHERE shelf = :number")
            connection.execute(stated, {"moment": moment, "number": number})
    engine.dispose()
    return shop_url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def items(items_url: str) -> AsyncIterator[QueryClient]:
    async with held(query_client(items_url, "items")) as client:
        yield client


@pytest.mark.requirement("C-03")
@pytest.mark.parametrize(
    "order",
    [
        None,
        "name",
        "-name",
        ["price desc", "name"],
        ["-weight", "is_new"],
        ["sold_at", "-place"],
        ["-sold_at", "price"],
        ["place", "shelf"],
        ["is_new desc", "-shelf", "weight"],
    ],
)
async def test_the_pages_together_are_the_whole_answer_in_its_order(items: QueryClient, order: Any) -> None:
    arguments = {"columns": ["shelf", "place"]} | ({"order_by": order} if order else {})
    whole = await items.rows("items", **arguments)
    pages = await items.all_pages("items", **arguments, limit=3)
    assert len(whole) == 40
    assert [row for page in pages for row in page] == whole
    assert all(len(page) == 3 for page in pages[:-1])


async def test_rows_that_come_and_go_between_pages_disturb_no_others(empty_url: str) -> None:
    engine = sa.create_engine(empty_url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL)"))
        connection.execute(sa.text("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e')"))
    async with query_client(empty_url, "t") as client:
        first = await client.query("t", order_by="name", limit=2)
        with engine.begin() as connection:
            connection.execute(sa.text("DELETE FROM t WHERE id IN (2, 4)"))
            connection.execute(sa.text("INSERT INTO t VALUES (6, 'aa'), (7, 'dd')"))
        others = await client.query("t", order_by="name", cursor=first["metadata"]["next_cursor"])
    engine.dispose()
    assert [row["id"] for row in first["data"]] == [1, 2]
    assert [row["id"] for row in others["data"]] == [3, 7, 5]


async def test_a_cursor_is_good_for_its_own_query_only(shop: QueryClient) -> None:
    filters = [{"column": "id", "op": "ge", "value": 1}]
    cursor = (await shop.query("orders", filters=filters, order_by="-id", limit=1))["metadata"]["next_cursor"]
    rows = await shop.rows("orders", filters=filters, order_by=["id desc"], columns=None, limit=2, cursor=cursor)
    assert [row["id"] for row in rows] == [3, 2]
    others: list[tuple[str, dict[str, Any]]] = [
        ("orders", {"filters": [{"column": "id", "op": "gt", "value": 1}], "order_by": "-id"}),
        ("orders", {"filters": [{"column": "id", "op": "ge", "value": 2}], "order_by": "-id"}),
        ("orders", {"filters": {"or": filters}, "order_by": "-id"}),
        ("orders", {"filters": filters, "order_by": "id"}),
        ("orders", {"filters": filters, "order_by": "-id", "columns": ["id"]}),
        ("customers", {"filters": filters, "order_by": "-id"}),
    ]
    for table, arguments in others:
        error = await shop.refused(table, **arguments, cursor=cursor)
        assert error["code"] == "invalid_parameter"
        assert "'cursor' must be the next_cursor" in error["message"]


async def test_a_forged_cursor_reads_nothing_that_may_not_be_read(shop: QueryClient) -> None:
    cursor = (await shop.query("orders", order_by="total", limit=1))["metadata"]["next_cursor"]
    told = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    for values in (
        [told[0]],
        [*told, 1],
        [told[0], [], 1],
        [told[0], {"b": "?"}, 1],
        [told[0], {"b": "AA=="}, 1],
        [told[0], True, 1],
        [told[0], "1'; DROP TABLE orders; --", "x"],
        [told[0], "NaN", 2**63],
        [told[0], None, None],
        {"a": 1},
        told[0],
    ):
        forged = base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")
        answer = await shop.call("query_database", {"table": "orders", "order_by": "total", "cursor": forged})
        if answer["status"] == "error":
            assert answer["error"]["code"] in ("invalid_parameter", "query_refused"), answer
        else:
            assert len(answer["data"]) <= 4
    assert len(await shop.rows("orders")) == 4
    await shop.refused("orders", cursor="[" * 5_000)


async def test_a_table_whose_rows_nothing_tells_apart_says_that_it_has_no_pages(shop: QueryClient) -> None:
    answer = await shop.query("log", limit=2)
    assert answer["metadata"]["has_more"] is True
    assert answer["metadata"]["next_cursor"] is None
    assert "There are more rows, but no cursor: no columns that may be read tell the rows" in answer["metadata"]["note"]
    assert "note" not in (await shop.query("log"))["metadata"]
    assert (await shop.refused("log", cursor="x"))["code"] == "invalid_parameter"


async def test_a_key_that_may_not_be_read_is_not_used_for_pages(shop_url: str) -> None:
    async with query_client(shop_url, "customers(name)") as client:
        answer = await client.query("customers", limit=1)
    assert len(answer["data"]) == 1
    assert answer["metadata"]["next_cursor"] is None


async def test_a_unique_column_that_is_never_null_serves_as_a_key(empty_url: str) -> None:
    engine = sa.create_engine(empty_url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE t (code VARCHAR(9) NOT NULL UNIQUE, n INTEGER)"))
        connection.execute(sa.text("CREATE TABLE u (code VARCHAR(9) UNIQUE, n INTEGER)"))
        for table in "tu":
            connection.execute(sa.text(f"INSERT INTO {table} VALUES ('a', 1), ('b', 1), ('c', 1)"))  # noqa: S608
    engine.dispose()
    async with query_client(empty_url, "t, u") as client:
        assert len(await client.all_pages("t", order_by="n", limit=1)) == 3
        assert (await client.query("u", order_by="n", limit=1))["metadata"]["next_cursor"] is None


async def test_values_too_long_for_a_cursor_are_not_gone_on_after(empty_url: str) -> None:
    engine = sa.create_engine(empty_url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)"))
        connection.execute(sa.text("INSERT INTO t VALUES (1, :long), (2, :long)"), {"long": "x" * 600})
    engine.dispose()
    async with query_client(empty_url, "t") as client:
        metadata = (await client.query("t", order_by="name", limit=1))["metadata"]
        assert metadata["next_cursor"] is None
        assert "a value of more than 500 characters cannot be gone on after" in metadata["note"]
        assert len(await client.all_pages("t", order_by="id", limit=1)) == 2


async def test_texts_that_only_sqlite_takes_for_texts_lose_no_row_and_repeat_none(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'data.db'}"
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE t (name TEXT PRIMARY KEY)"))
        names = [{"name": name} for name in ("a", "a\0b", "a\0c", "", "\0", "b\ufffd", "c")]
        connection.execute(sa.text("INSERT INTO t VALUES (:name)"), names)
        connection.execute(sa.text("CREATE TABLE u (id INTEGER PRIMARY KEY, name TEXT)"))
        connection.execute(sa.text("INSERT INTO u VALUES (1, CAST(X'61FF' AS TEXT)), (2, CAST(X'61FE' AS TEXT))"))
    engine.dispose()
    async with query_client(url, "t, u") as client:
        for order in ("name", "-name"):
            found = [row["name"] for page in await client.all_pages("t", order_by=order, limit=1) for row in page]
            assert found == sorted((each["name"] for each in names), reverse=order == "-name")
        metadata = (await client.query("u", order_by="name", limit=1))["metadata"]
        assert metadata["next_cursor"] is None
        assert "a text that is no valid Unicode cannot be gone on after" in metadata["note"]
        assert len(await client.all_pages("u", limit=1)) == 2


async def test_an_answer_that_is_large_enough_ends_early_and_goes_on_with_the_cursor(empty_url: str) -> None:
    engine = sa.create_engine(empty_url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)"))
        rows = [{"id": number, "body": "x" * 9_000} for number in range(120)]
        connection.execute(sa.text("INSERT INTO t VALUES (:id, :body)"), rows)
    engine.dispose()
    async with query_client(empty_url, "t") as client:
        answer = await client.query("t", limit=1000)
        assert "large enough" in answer["metadata"]["note"]
        assert 40 < answer["metadata"]["count"] < 60
        pages = await client.all_pages("t", limit=1000)
    assert [row["id"] for page in pages for row in page] == list(range(120))
