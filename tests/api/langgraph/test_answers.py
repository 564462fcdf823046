"""Extractions and page headers of searches."""

from typing import Any

import pytest

from toolweave.api.langgraph.answers import extract_values, page_answer
from toolweave.api.langgraph.requests import Body
from toolweave.runtime.models import Page

ROW = {"values": {"log": ["a", {"b": 1}], "n": 4}, "metadata": {"graph_id": "steps"}}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("values.log[0]", "a"),
        ("values.log[-1]", {"b": 1}),
        ("values.log[-1].b", 1),
        ("metadata.graph_id", "steps"),
        ("values", ROW["values"]),
        ("values.log[5]", None),
        ("values.log[-3]", None),
        ("values.nothing.at.all", None),
        ("values.n[0]", None),
        ("values.log[x]", None),
        ("values.log[99999999999999999999]", None),
        ("values.log[0][0]", None),
        ("values..", ROW["values"]),
        ("values..n.", 4),
        ("values.log[--1]", None),
        ("values.log[²]", None),
    ],
)
def test_a_path_gives_its_value_or_null(path: str, value: Any) -> None:
    assert extract_values(ROW, {"it": path}) == {"it": value}


@pytest.mark.parametrize(
    ("found", "limit", "offset", "headers"),
    [
        (3, 2, 0, {"x-pagination-total": "3", "x-pagination-next": "2"}),
        (2, 2, 4, {"x-pagination-total": "6"}),
        (0, 10, 0, {"x-pagination-total": "0"}),
        (0, 10, 50, {"x-pagination-total": "7"}),
        (0, 10, 5, {"x-pagination-total": "5"}),
    ],
)
async def test_page_headers_count_the_rows(found: int, limit: int, offset: int, headers: dict[str, str]) -> None:
    async def count() -> int:
        return 7

    async def search(_page: Page) -> list[dict[str, Any]]:
        return [ROW] * found

    answer = await page_answer(Body({"limit": limit, "offset": offset}), search, count, dict)
    assert {name: value for name, value in answer.headers.items() if name.startswith("x-pagination")} == headers
