"""A chain of guardrails checks every query; a refusal names the rule (D-12)."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.core.query.querying import QueryClient, query_client
from toolweave.servers.core.query.guardrails import is_reserved

_OWN = """
import asyncio, dataclasses, threading

queries = []
released = threading.Event()

def strict(query):
    queries.append(query)
    for condition in query.filters.conditions():
        if condition.column == "customer":
            return "customers are private"

async def patient(query):
    await asyncio.sleep(0)
    return "  always no  "

def meddling(query):
    query.limit = 10**9

def raising(query):
    raise PermissionError("the password is hunter2")

def leaving(query):
    raise SystemExit(3)

async def leaving_async(query):
    raise SystemExit(3)

def hanging(query):
    released.wait(60)

async def hanging_async(query):
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if released.is_set():
                raise

def empty(query):
    return ""

def odd(query):
    return False


class OnlyOrders:
    async def __call__(self, query):
        return None if query.table == "orders" else "only orders"

only_orders = OnlyOrders()
number = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Write a module of the operator and import it."""
    (tmp_path / "own_guardrails.py").write_text(_OWN, encoding="utf-8")
    (tmp_path / "broken_guardrails.py").write_text("1 / 0", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_guardrails  # type: ignore[import-not-found]

    yield own_guardrails
    own_guardrails.released.set()
    for name in ("own_guardrails", "broken_guardrails"):
        sys.modules.pop(name, None)


def _guardrail(error: dict[str, str], rule: str) -> str:
    assert (error["type"], error["code"]) == ("guardrail", "guardrail")
    assert error["message"].startswith(f"The guardrail '{rule}' refused the query: "), error
    return error["message"]


@pytest.mark.requirement("D-12")
@pytest.mark.parametrize(
    "table", ["runs", "nothing", "ORDERS", "main.orders", "orders; DROP TABLE orders", "sqlite_master"]
)
async def test_a_table_that_is_not_allowed_and_one_that_is_not_there_are_refused_alike(
    shop: QueryClient, table: str
) -> None:
    error = await shop.refused(table)
    assert error == {
        "type": "guardrail",
        "code": "guardrail",
        "message": "The guardrail 'table_allow_list' refused the query: Parameter 'table' must be one of the tables "
        "that may be read.",
        "suggestion": "Use orders, customers, log, paid_orders.",
    }


@pytest.mark.requirement("D-12")
@pytest.mark.parametrize("column", ["secret", "nothing", "name; --", "ID"])
async def test_a_column_that_is_not_allowed_is_refused_wherever_it_is_named(shop: QueryClient, column: str) -> None:
    condition = {"column": column, "op": "eq", "value": "s1"}
    for arguments, place in (
        ({"columns": ["id", column]}, "columns[1]"),
        ({"filters": [condition]}, "filters[0].column"),
        ({"filters": [{"or": [{"id": 1}, {"and": [condition]}]}]}, "filters[0].or[1].and[0].column"),
        ({"filters": {"id": 1, column: "s1"}}, f"filters.{column}"),
        ({"order_by": f"{column} desc"}, "order_by"),
        ({"order_by": ["id", f"-{column}"]}, "order_by[1]"),
    ):
        error = await shop.refused("customers", **arguments)
        message = _guardrail(error, "column_allow_list")
        assert f"Parameter '{place}' must be a column of 'customers' that may be read." in message
        assert error["suggestion"] == "Use id, name."


@pytest.mark.requirement("D-12")
async def test_an_operator_that_makes_no_sense_for_a_column_is_refused(shop: QueryClient) -> None:
    for column, op, value, expected in (
        ("id", "like", "1%", "'filters[0]' must use one of eq, ne, lt, le, gt, ge, in, is_null: 'id' holds whole"),
        ("is_paid", "lt", True, "must use one of eq, ne, in, is_null: 'is_paid' holds true and false."),
        ("details", "eq", "x", "must use one of is_null: 'details' holds JSON."),
        ("label", "gt", "AA==", "must use one of eq, ne, in, is_null: 'label' holds bytes."),
    ):
        error = await shop.refused("orders", filters=[{"column": column, "op": op, "value": value}])
        assert expected in _guardrail(error, "operators")
    error = await shop.refused("orders", order_by=["id", "details"])
    assert "'order_by[1]' must be another column" in _guardrail(error, "operators")


@pytest.mark.requirement("D-12")
async def test_more_rows_than_the_operator_allows_are_refused(sqlite_url: str) -> None:
    async with query_client(sqlite_url, "orders", max_rows=3) as client:
        error = await client.refused("orders", limit=4)
        assert "Parameter 'limit' must be at most 3." in _guardrail(error, "limit_cap")
        assert error["suggestion"] == "Ask for at most 3 rows, or filter by more."
        assert len(await client.rows("orders", limit=3)) == 3
        by_default = await client.query("orders")
    assert by_default["metadata"]["limit"] == len(by_default["data"]) == 3
    assert by_default["metadata"]["has_more"] is True
    assert "There are more rows. Add filters" in by_default["metadata"]["note"]


@pytest.mark.requirement("D-12")
async def test_texts_that_the_operator_forbids_are_refused(sqlite_url: str) -> None:
    async with query_client(sqlite_url, "orders", forbidden=r"(?i)\b(drop|secret)\b") as client:
        for filters, place in (
            ({"customer": "a Secret"}, "filters.customer"),
            ([{"id": 1}, {"column": "customer", "op": "like", "value": "%secret%"}], "filters[1].value"),
            ([{"or": [{"column": "customer", "op": "in", "value": ["x", "drop"]}]}], "filters[0].or[0].value"),
        ):
            message = _guardrail(await client.refused("orders", filters=filters), "forbidden_pattern")
            assert f"Parameter '{place}" in message
            assert "secret" not in message.lower()
        assert await client.found("orders", {"customer": "Ada"}) == [1]


async def test_a_pattern_that_never_comes_to_an_end_refuses(sqlite_url: str) -> None:
    async with query_client(sqlite_url, "orders", forbidden=r"^(a|aa)+$|^(a+)+(b+)+\1c$") as client:
        error = await client.refused("orders", filters={"customer": "a" * 400 + "!"})
        assert _guardrail(error, "forbidden_pattern")


@pytest.mark.requirement("D-12")
async def test_the_operators_own_function_decides_last(sqlite_url: str, own: Any) -> None:
    async with query_client(sqlite_url, "orders", guardrail="own_guardrails:strict") as client:
        error = await client.refused("orders", filters={"customer": "Ada"})
        assert _guardrail(error, "own_guardrail").endswith("customers are private")
        assert (await client.refused("orders", filters={"id": "one"}))["code"] == "invalid_parameter"
        assert await client.found("orders", {"id": 1}) == [1]
        await client.refused("orders", columns=["nothing"])
    query = own.queries[-1]
    assert (query.table, query.columns, query.limit) == ("orders", ("id",), 100)
    assert [(item.column, item.op, item.value) for item in query.filters.conditions()] == [("id", "eq", 1)]
    # Another guardrail refused the query of an unknown column before.
    assert len(own.queries) == 3


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("patient", "refused the query: always no"),
        ("meddling", "it failed."),
        ("raising", "it failed."),
        ("leaving", "it failed."),
        ("leaving_async", "it failed."),
        ("odd", "it failed."),
        ("empty", "it returned no reason."),
        ("only_orders", "only orders"),
    ],
)
async def test_an_own_function_that_does_not_return_none_refuses(
    sqlite_url: str, own: Any, name: str, expected: str
) -> None:
    async with query_client(sqlite_url, "orders, log", guardrail=f"own_guardrails:{name}") as client:
        error = await client.refused("log")
    message = _guardrail(error, "own_guardrail")
    assert expected in message
    assert "hunter2" not in message


@pytest.mark.requirement("D-12")
@pytest.mark.parametrize("name", ["hanging", "hanging_async"])
async def test_an_own_function_that_hangs_refuses(sqlite_url: str, own: Any, name: str) -> None:
    async with query_client(sqlite_url, "orders", guardrail=f"own_guardrails:{name}", timeout_s=0.5) as client:
        error = await client.refused("orders")
        own.released.set()
    assert "it did not answer in time." in _guardrail(error, "own_guardrail")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("own_guardrails", "TypeError"),
        ("broken_guardrails:check", "ZeroDivisionError"),
        ("own_guardrails:nothing", "AttributeError"),
        ("own_guardrails:number", "TypeError"),
    ],
)
async def test_an_own_function_that_cannot_be_loaded_closes_the_tool_and_nothing_else(
    sqlite_url: str, own: Any, target: str, expected: str
) -> None:
    async with query_client(sqlite_url, "orders", guardrail=target) as client:
        error = await client.refused("orders")
        assert error["code"] == "not_configured"
        assert "TOOLWEAVE_QUERY_GUARDRAIL" in error["message"]
        assert f"cannot be loaded: {expected}." in error["message"]
        assert (await client.error("read_file", {"path": "x"}))["code"] == "not_configured"


@pytest.mark.requirement("C-03")
def test_our_own_tables_cannot_be_read_when_the_operator_lists_them() -> None:
    from toolweave.config.settings import parse_query_tables
    from toolweave.runtime.persistence import schema
    from toolweave.servers.registry.stored_tools import METADATA as REGISTRY
    from toolweave.servers.todo.database import METADATA as TODO

    ours = {*schema.metadata.tables, *REGISTRY.tables, *TODO.tables} - {"todos"}
    assert len(ours) > 10
    named = ", ".join(ours)
    assert all(is_reserved(table) for table in parse_query_tables(f"{named}, {named.upper()}"))
    others = "sqlite_master, pg_catalog.x, information_schema.tables, pg_class, alembic_version, todos_fts"
    assert all(is_reserved(table) for table in parse_query_tables(others))
    assert not any(is_reserved(table) for table in parse_query_tables("todos, public.todos, sales.orders"))
