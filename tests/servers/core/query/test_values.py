"""Whatever a database holds is answered as JSON that every reader keeps (C-03)."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.fixtures.postgres import PostgresServer
from tests.servers.core.query.querying import QueryClient, query_client, run_sql
from tests.servers.core.query.shop import price


async def test_values_are_answered_as_json_and_a_filter_by_them_finds_the_row(shop: QueryClient) -> None:
    (row,) = await shop.rows("orders", filters={"id": 1})
    for column, value in row.items():
        if column != "details":
            assert 1 in await shop.found("orders", {column: value}), column
    assert price(row.pop("total")) == Decimal("12.50")
    in_utc = row.pop("sent_at")
    assert in_utc.startswith("2026-01-02T10:00:00")
    assert row == {
        "id": 1,
        "customer": "Ada",
        "weight": 0.1,
        "is_paid": True,
        "due_on": "2026-01-05",
        "placed_at": "2026-01-01T10:00:00.123456",
        "opens": "08:30:00",
        "label": "AP8=",
        "details": {"gift": True, "lines": [1, 2]},
    }


@pytest.mark.parametrize(
    ("declared", "stored", "answered"),
    [
        ("TEXT", "before\0after", "before\0after"),
        ("INTEGER", 2**53 - 1, 2**53 - 1),
        ("INTEGER", 2**53, str(2**53)),
        ("INTEGER", -(2**63), str(-(2**63))),
        ("INTEGER", "no number", "no number"),
        ("REAL", float("inf"), "Infinity"),
        ("NUMERIC", 12.5, 12.5),
        ("BOOLEAN", 7, 7),
        ("BLOB", b"\x00\x01", "AAE="),
        ("BLOB", "text", "text"),
        ("TEXT", b"\xff", "/w=="),
        ("DATE", "whenever", "whenever"),
        ("DATETIME", "2026-12-24T15:00:00Z", "2026-12-24T15:00:00+00:00"),
        ("TIME", "noon", "noon"),
        ("DATETIME", 1700000000, 1700000000),
        ("JSON", "{broken", "{broken"),
        ("JSON", '{"a": 1e999}', '{"a": 1e999}'),
        ("JSON", '"\\ud800"', '"\\ud800"'),
        ("JSON", "[" * 2000 + "]" * 2000, "[" * 2000 + "]" * 2000),
        ("", 3, 3),
    ],
)
async def test_sqlite_values_are_answered_by_what_they_are(
    tmp_path: Path, declared: str, stored: Any, answered: Any
) -> None:
    url = f"sqlite:///{tmp_path / 'data.db'}"
    create = f"CREATE TABLE t (id INTEGER PRIMARY KEY, value {declared})"
    run_sql(url, create, "INSERT INTO t VALUES (1, :value)", values={"value": stored})
    async with query_client(url, "t") as client:
        assert await client.rows("t") == [{"id": 1, "value": answered}]


async def test_sqlite_text_that_is_no_utf8_is_answered_readably(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'data.db'}"
    run_sql(url, "CREATE TABLE t (id INTEGER, value TEXT)", "INSERT INTO t VALUES (1, CAST(X'61FF62' AS TEXT))")
    async with query_client(url, "t") as client:
        assert await client.rows("t") == [{"id": 1, "value": "a\ufffdb"}]


async def test_sqlite_dates_written_in_several_ways_are_compared_as_what_they_mean(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'data.db'}"
    moments = ["2026-01-01 10:00:00.000000", "2026-01-01T10:00:00Z", "2026-01-01T12:00:00+02:00", "no date", None]
    rows = [{"id": number, "at": moment} for number, moment in enumerate(moments)]
    create = "CREATE TABLE t (id INTEGER PRIMARY KEY, at DATETIME)"
    run_sql(url, create, "INSERT INTO t VALUES (:id, :at)", values=rows)
    async with query_client(url, "t") as client:
        assert await client.found("t", {"at": "2026-01-01T10:00"}) == [0, 1, 2]
        after = [{"column": "at", "op": "gt", "value": "2026-01-01T09:59:59.999"}]
        assert await client.found("t", after) == [0, 1, 2]
        assert [row["id"] for row in await client.rows("t", order_by="-at")] == [0, 1, 2, 3, 4]


_EXACT = "1234567890.123456789012345678901"
_POSTGRESQL: list[tuple[str, str, Any, Any]] = [
    ("numeric", f"'{_EXACT}'", _EXACT, {"value": _EXACT}),
    ("bigint", str(2**62), str(2**62), {"value": str(2**62)}),
    ("real", "0.1", 0.1, {"value": 0.1}),
    ("double precision", "'-Infinity'", "-Infinity", None),
    ("uuid", "'00000000-0000-0000-0000-00000000000A'", "00000000-0000-0000-0000-00000000000a", {}),
    ("timestamptz", "'2026-01-01 10:00+02'", "2026-01-01T08:00:00+00:00", {}),
    ("timestamptz", "'infinity'", "infinity", None),
    ("timestamp", "'0044-03-15 12:00 BC'", "0044-03-15T12:00:00 BC", None),
    ("date", "'-infinity'", "-infinity", None),
    ("timetz", "'10:00+02'", "10:00:00+02", None),
    ("interval", "'1 day 2 hours'", "1 day 02:00:00", None),
    ("text[]", "'{a,NULL}'", ["a", None], None),
    ("inet", "'10.0.0.1/8'", "10.0.0.1/8", None),
    ("json", r"""'{"a": "\u0000"}'""", {"a": "\0"}, None),
    ("mood", "'sad'", "sad", {}),
    ("adult", "42", 42, {}),
    ("char(5)", "'ab'", "ab", {}),
    ("citext_like", "'Ab'", "Ab", {}),
    ("bytea", r"'\x00ff'", "AP8=", {}),
]


@pytest.mark.filterwarnings("ignore:Did not recognize type:sqlalchemy.exc.SAWarning")
async def test_postgresql_values_of_every_type_are_answered_and_found(postgres: PostgresServer) -> None:
    with postgres.fresh_database() as url:
        postgres.execute("CREATE TYPE mood AS ENUM ('sad', 'ok'); ", url=url)
        postgres.execute("CREATE DOMAIN adult AS integer CHECK (VALUE >= 18)", url=url)
        postgres.execute("CREATE DOMAIN citext_like AS varchar(20)", url=url)
        columns = ", ".join(f"c{number} {case[0]}" for number, case in enumerate(_POSTGRESQL))
        postgres.execute(f"CREATE TABLE t (id integer PRIMARY KEY, {columns})", url=url)
        postgres.execute(f"INSERT INTO t VALUES (1, {', '.join(case[1] for case in _POSTGRESQL)})", url=url)  # noqa: S608
        async with query_client(url, "t") as client:
            (row,) = await client.rows("t")
            for number, (_, _, answered, filters) in enumerate(_POSTGRESQL):
                assert row[f"c{number}"] == answered
                if filters is not None:
                    assert await client.found("t", {f"c{number}": filters.get("value", answered)}) == [1], answered


async def test_long_cells_are_cut_with_a_mark_and_counted(empty_url: str) -> None:
    binary, doc = ("BLOB", ":doc") if empty_url.startswith("sqlite") else ("BYTEA", "CAST(:doc AS JSON)")
    create = f"CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT, raw {binary}, doc JSON)"
    values = {"body": "\N{SNOWMAN}" * 10_001, "raw": b"x" * 10_001, "doc": json.dumps(["x" * 10_000])}
    run_sql(empty_url, create, f"INSERT INTO t VALUES (1, :body, :raw, {doc})", values=values)  # noqa: S608
    async with query_client(empty_url, "t") as client:
        answer = await client.query("t")
    (row,) = answer["data"]
    assert row["body"] == "\N{SNOWMAN}" * 10_000 + " … [cut]"
    assert row["raw"].endswith(" … [cut]")
    assert len(row["raw"]) < 13_400
    assert row["doc"].startswith('["xxx')
    assert row["doc"].endswith(" … [cut]")
    assert answer["metadata"]["cells_cut"] == 3
    assert "Cells of more than 10000 characters or bytes were cut." in answer["metadata"]["note"]


async def test_a_row_of_many_long_cells_is_answered_within_the_limit(empty_url: str) -> None:
    columns = ", ".join(f"c{number} TEXT" for number in range(300))
    cells = ", ".join([":long"] * 300)
    insert = f"INSERT INTO t VALUES (1, {cells}), (2, {cells})"  # noqa: S608
    run_sql(empty_url, f"CREATE TABLE t (id INTEGER PRIMARY KEY, {columns})", insert, values={"long": "\x01" * 2_000})
    async with query_client(empty_url, "t") as client:
        assert [row["id"] for row in await client.rows("t")] == [1]
        assert [row["id"] for row in await client.rows("t", filters=[{"column": "id", "op": "gt", "value": 1}])] == [2]


async def test_columns_and_tables_with_odd_names_are_read_and_filtered(empty_url: str) -> None:
    names = ["a%b", "sel ect", 'quo"te', "semi;colon", ":bind", "Größe", "and", "x.y", "%(p)s"]
    engine = sa.create_engine(empty_url)
    metadata = sa.MetaData()
    table = sa.Table(
        "Odd Table",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        *(sa.Column(name, sa.Text) for name in names),
    )
    with engine.begin() as connection:
        metadata.create_all(connection)
        connection.execute(sa.insert(table).values([1, *names]))
    engine.dispose()
    async with query_client(empty_url, '"Odd Table"') as client:
        (row,) = await client.rows("Odd Table")
        assert row == {"id": 1} | {name: name for name in names}
        for name in names:
            filters = [{"column": name, "op": "in", "value": [name]}, {"column": name, "op": "like", "value": "%"}]
            assert await client.found("Odd Table", filters) == [1], name
            rows = await client.rows("Odd Table", order_by=[f"{name} desc"], columns=[name])
            assert rows == [{name: name}]
