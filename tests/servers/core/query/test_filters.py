"""Filters select what they say, on every database and for every kind of column (C-03)."""

from typing import Any

import pytest

from tests.servers.core.query.querying import QueryClient


@pytest.mark.requirement("D-9")
@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ({}, [1, 2, 3, 4]),
        ({"customer": "Ada"}, [1]),
        ({"customer": "Ada", "is_paid": False}, []),
        ({"customer": None}, [3]),
        ([{"customer": "Ada"}, {"is_paid": True}], [1]),
        ([{"column": "customer", "value": "ben"}], [2]),
        ({"column": "customer", "op": "ne", "value": "ben"}, [1, 4]),
        ([{"column": "customer", "op": "ne", "value": None}], [1, 2, 4]),
        ([{"column": "customer", "op": "is_null", "value": False}], [1, 2, 4]),
        ([{"column": "customer", "op": "in", "value": ["ben", "Ada", "x"]}], [1, 2]),
        ([{"column": "id", "op": "in", "value": [1, 4.0, "3"]}], [1, 3, 4]),
        ([{"column": "id", "op": "ge", "value": 2}, {"column": "id", "op": "lt", "value": 4}], [2, 3]),
        ([{"column": "total", "op": "le", "value": 7.25}], [2, 4]),
        ([{"column": "total", "value": "12.50"}], [1]),
        ([{"column": "weight", "value": 0.1}], [1]),
        ([{"column": "is_paid", "op": "ne", "value": True}], [2]),
        ([{"column": "customer", "op": "like", "value": "%B%"}], [2]),
        ([{"column": "customer", "op": "like", "value": "100\\%\\_%\\\\"}], [4]),
        ([{"column": "due_on", "value": "2026-01-05"}], [1]),
        ([{"column": "placed_at", "op": "gt", "value": "2026-01-15"}], [2]),
        ([{"column": "placed_at", "value": "2026-01-01T11:00:00.123456+01:00"}], [1]),
        ([{"column": "sent_at", "value": "2026-01-02T10:00:00Z"}], [1]),
        ([{"column": "sent_at", "op": "lt", "value": "2026-01-02T10:30:00+01:00"}], []),
        ([{"column": "opens", "op": "ge", "value": "08:30"}], [1]),
        ([{"column": "label", "value": "AP8="}], [1]),
        ([{"column": "details", "op": "is_null", "value": False}], [1]),
        ({"or": [{"customer": "Ada"}, {"column": "id", "op": "ge", "value": 4}]}, [1, 4]),
        ([{"or": [{"and": [{"customer": "Ada"}, {"is_paid": False}]}, {"id": 2}]}], [2]),
    ],
)
async def test_filters_select_the_rows_that_they_describe(shop: QueryClient, filters: Any, ids: list[int]) -> None:
    assert await shop.found("orders", filters) == ids


async def test_a_query_returns_its_columns_in_their_order(shop: QueryClient) -> None:
    rows = await shop.rows("orders", columns=["customer", "id", "customer"], filters={"id": 1})
    assert [list(row.items()) for row in rows] == [[("customer", "Ada"), ("id", 1)]]
    # By default these are all columns that may be read.
    assert await shop.rows("customers", filters={"id": 2}) == [{"id": 2, "name": "b"}]


@pytest.mark.parametrize(
    ("order", "ids"),
    [
        ("-id", [4, 3, 2, 1]),
        ("id desc", [4, 3, 2, 1]),
        (["-is_paid", "id desc"], [4, 1, 2, 3]),
        ("total", [4, 2, 1, 3]),
        ("-total", [1, 2, 4, 3]),
        (["due_on desc"], [2, 1, 4, 3]),
        (["id", "-id"], [1, 2, 3, 4]),
    ],
)
async def test_rows_come_in_the_requested_order_and_nulls_last(shop: QueryClient, order: Any, ids: list[int]) -> None:
    assert [row["id"] for row in await shop.rows("orders", columns=["id"], order_by=order)] == ids


async def test_a_view_is_read_as_a_table(shop: QueryClient) -> None:
    assert await shop.found("paid_orders", {"customer": "Ada"}) == [1]


@pytest.mark.requirement("C-07")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"filters": "status = 1"}, "'filters' must be a list of conditions, or one object."),
        ({"filters": [{}]}, "'filters[0]' must be an object such as"),
        ({"filters": [{"column": "id", "op": "regexp", "value": "x"}]}, "'filters[0].op' must be one of eq, ne, lt"),
        ({"filters": [{"column": 3, "op": "eq", "value": 1}]}, "'filters[0].column' must be the name of a column."),
        ({"filters": [{"column": "id", "op": "eq"}]}, "'filters[0].value' must be text, a number, true or false."),
        ({"filters": [{"column": "id", "op": "eq", "value": [1]}]}, "'filters[0].value' must be text, a number"),
        ({"filters": [{"column": "id", "op": "eq", "value": 1, "not": 1}]}, "no parameter 'filters[0].not'"),
        ({"filters": [{"column": "id", "op": "in", "value": []}]}, "'filters[0].value' must be a list of 1 to 200"),
        ({"filters": [{"column": "id", "op": "in", "value": [1] * 201}]}, "'filters[0].value' must be a list of 1 to"),
        ({"filters": [{"column": "id", "op": "in", "value": [1, [2]]}]}, "'filters[0].value[1]' must be text"),
        ({"filters": [{"column": "id", "op": "in", "value": [1, "x"]}]}, "value[1]' must be a whole number"),
        ({"filters": [{"column": "id", "op": "is_null", "value": 1}]}, "'filters[0].value' must be true or false"),
        ({"filters": {"id": {"gt": 3}}}, "'filters.id' must be text, a number, true or false, or null; for anything"),
        ({"filters": [{"or": []}]}, "'filters[0].or' must be a list of at least one condition."),
        ({"filters": [{"or": [{"id": 1}, {"id": "x"}]}]}, "'filters[0].or[1].id' must be a whole number"),
        ({"filters": {"or": [{"and": [{"column": "id", "op": "x"}]}]}}, "'filters.or[0].and[0].op' must be one of"),
        ({"filters": [{"id": 1}] * 51}, "'filters[50].id' must be one of at most 50 conditions in all."),
        ({"filters": [{"customer": "x" * 1001}]}, "'filters[0].customer' must be text of at most 1000 characters."),
        ({"filters": [{"customer": "a\x00b"}]}, "'filters[0].customer' must be valid Unicode text"),
        ({"filters": [{"customer": 3}]}, "'filters[0].customer' must be text."),
        ({"filters": [{"id": True}]}, "'filters[0].id' must be a whole number of at most 64 bits."),
        ({"filters": [{"id": 2**63}]}, "'filters[0].id' must be a whole number of at most 64 bits."),
        ({"filters": [{"id": 10**39}]}, "'filters[0].id' must be a finite number of at most 38 digits."),
        ({"filters": [{"weight": "1"}]}, "'filters[0].weight' must be a number."),
        ({"filters": [{"is_paid": 1}]}, "'filters[0].is_paid' must be true or false."),
        ({"filters": [{"due_on": "tomorrow"}]}, "'filters[0].due_on' must be an ISO 8601 date such as"),
        ({"filters": [{"placed_at": "0001-01-01T00:00:00+14:00"}]}, "'filters[0].placed_at' must be an ISO 8601"),
        ({"filters": [{"opens": "25:00"}]}, "'filters[0].opens' must be an ISO 8601 time of day"),
        ({"filters": [{"label": "no base64!"}]}, "'filters[0].label' must be bytes in base64."),
        ({"filters": [{"column": "customer", "op": "like", "value": 1}]}, "'filters[0].value' must be text with % and"),
        ({"filters": [{"column": "customer", "op": "like", "value": "x\\"}]}, "'filters[0].value' must be a pattern"),
        ({"order_by": 3}, "'order_by' must be a column, or a list of at most 8 columns."),
        ({"order_by": [3]}, "'order_by[0]' must be a column such as"),
        ({"order_by": ["id"] * 9}, "'order_by' must be a column, or a list of at most 8 columns."),
        ({"columns": []}, "'columns' must hold 1 or more."),
        ({"limit": 0}, "'limit' must be at least 1."),
        ({"limit": "5"}, "'limit' must be a whole number."),
    ],
)
async def test_a_wrong_parameter_is_named_down_to_its_entry(
    shop: QueryClient, arguments: dict[str, Any], expected: str
) -> None:
    error = await shop.refused("orders", **arguments)
    assert error["type"] == "validation"
    assert expected in error["message"]


async def test_filters_that_are_nested_too_deep_are_refused(shop: QueryClient) -> None:
    nested: Any = {"id": 1}
    for _ in range(4):
        nested = {"or": [nested]}
    assert await shop.found("orders", [nested]) == [1]
    error = await shop.refused("orders", filters=[{"or": [nested]}])
    assert "must be nested at most 5 deep" in error["message"]
