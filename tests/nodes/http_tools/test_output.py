"""An answer becomes a tool's output by its mappings; whatever the answer is, that is cheap and never fails."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nodes.http_tools.orders import tool
from toolweave.nodes.http_tools.requests import HTTPResponseSpec
from toolweave.nodes.http_tools.responses import MAX_OUTPUT_CHARS, MAX_RESULTS, PathSearch, ToolOutput, mapped_output
from toolweave.tool_config import check_response_path

ANSWER = {
    "total": 3,
    "user": {"name": "Ann", "mail": None},
    "items": [{"id": 1, "price": 5}, {"id": 2, "price": 15}, {"id": 3, "price": 10, "id2": 4}],
}


def answer(body: Any, status: int = 200) -> HTTPResponseSpec:
    return HTTPResponseSpec(status_code=status, body=body, execution_time_ms=1.0)


def output(body: Any, **paths: str) -> ToolOutput:
    return mapped_output(tool(response=paths), answer(body))


@pytest.mark.requirement("W-01")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$", ANSWER),
        ("$.total", 3),
        ("$.user['name']", "Ann"),
        ("$.user.mail", None),
        ("$.items[-1].id2", 4),
        ("$.items[7]", None),
        ("$.items[*].id", [1, 2, 3]),
        ("$.items[*].id2", [4]),
        ("$.items[0:2].price", [5, 15]),
        ("$.items[?@.price < 12].id", [1, 3]),
        ("$.items[?@.price == $.items[1].price].id", [2]),
        ("$..price", [5, 15, 10]),
        ("$['total','none']", [3]),
    ],
)
def test_a_path_of_names_and_indexes_gives_a_value_and_any_other_a_list(path: str, value: Any) -> None:
    assert output(ANSWER, total="$.total", found=path) == ToolOutput({"total": 3, "found": value}, [])


def test_paths_select_nothing_inside_texts() -> None:
    assert output("[1, 2]", whole="$", first="$[0]", some="$[0:1]", all="$..*").value == {
        "whole": "[1, 2]",
        "first": None,
        "some": [],
        "all": [],
    }
    assert output({"a": "xyz"}, some="$.a[0:2]", whole="$.a").value == {"some": [], "whole": "xyz"}


@pytest.mark.parametrize("body", [[], "oops", {"error": "no"}])
def test_mappings_that_find_nothing_at_all_are_a_warning(body: Any) -> None:
    assert output(body, total="$.total", ids="$.items[*].id") == ToolOutput(
        {"total": None, "ids": []}, ["None of the tool's field mappings matches the response."]
    )


def test_an_output_that_does_not_fit_its_schema_is_a_warning() -> None:
    schema = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
    mismatch = "The response does not match output_schema: "

    assert mapped_output(tool(output_schema=schema), answer({"total": 1})).warnings == []
    assert mapped_output(tool(output_schema=schema), answer({"total": "1"})) == ToolOutput(
        {"total": "1"}, [f"{mismatch}total must be an integer; got '1'."]
    )
    assert mapped_output(tool(output_schema=schema), answer([])).warnings == [
        f"{mismatch}the output must be an object; got a list of 0 items."
    ]
    mapped = tool(output_schema=schema, response={"total": "$.count", "name": "$.user.name"})
    assert mapped_output(mapped, answer(ANSWER)).warnings == [f"{mismatch}total must be an integer; got null."]


def test_an_answer_without_content_is_not_compared_with_the_schema() -> None:
    schema = {"type": "object"}

    assert mapped_output(tool(method="DELETE", output_schema=schema), answer(None, 204)).warnings == []
    assert mapped_output(tool(method="HEAD", output_schema=schema), answer(None)).warnings == []
    assert len(mapped_output(tool(output_schema=schema), answer(None)).warnings) == 1


HUGE = {"items": [{"id": number, "tags": ["a", "b"]} for number in range(60_000)]}
COSTLY = ["$..nothing", "$.items[*].id", "$..[*,*,*]..[*,*]", "$.items[?" + " || ".join(["@.id == -1"] * 30) + "]"]


@pytest.mark.parametrize("path", COSTLY)
def test_a_huge_answer_is_searched_up_to_a_limit_with_a_warning(path: str) -> None:
    spent = PathSearch(HUGE)
    found = spent.find(path)

    assert len(found) <= MAX_RESULTS
    assert not spent.complete
    assert spent.find("$.items[0].id") in (0, None)
    assert output(HUGE, found=path).warnings[0] == (
        "The response is too large to be searched completely: the output lacks some of it."
    )


def test_an_answer_nested_deeper_than_any_stack_is_searched() -> None:
    deep: Any = {"end": 1}
    for _ in range(5_000):
        deep = [deep]

    assert output(deep, ends="$..end") == ToolOutput({"ends": [1]}, [])


def test_repeated_paths_do_not_multiply_a_large_answer() -> None:
    large = {"text": "x" * (MAX_OUTPUT_CHARS // 3)}
    found = output(large, a="$", b="$.text", c="$..text", d="$.text", e="$.none")

    assert [name for name, value in found.value.items() if value is not None] == ["a", "b"]
    assert found.warnings == ["The output lacks c, d, e: the mapped fields are too large."]
    twice = ",".join("0" * 24)
    assert output([[[1] * 2_000_000]], all=f"$[{twice}][{twice}]").value == {"all": None}


names = st.sampled_from(["a", "b", "c d", "0"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "a", "b"])
bodies = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4))
parts = st.sampled_from(
    [
        *(".a", ".b", "['c d']", "[0]", "[-1]", "[*]", ".*", "..a", "..*", "..[0]", "[0:2]", "[::-1]", "[::0]"),
        *("[?@.a]", "[?@.a == 1]", "[?@ > 0 || @['c d'] != $.b]", "[?!@[0] && length(@) < 3]", "['a','b',0]"),
    ]
)


@given(bodies, st.lists(parts, max_size=5).map(lambda found: "$" + "".join(found)))
def test_any_path_into_any_answer_gives_a_value_or_a_list(body: Any, path: str) -> None:
    search = PathSearch(body)
    found = search.find(check_response_path(path))

    assert search.complete
    if "*" in path or ".." in path or "?" in path or ":" in path or "," in path:
        assert isinstance(found, list)
