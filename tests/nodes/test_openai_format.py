"""A-01: the conversion to the OpenAI tools format."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import tool
from mcp.types import Tool

from toolweave import convert_mcp_tools_to_openai, openai_name_map

SCRAPE: dict[str, Any] = {
    "name": "firecrawl_scrape",
    "description": "Scrape content from a URL",
    "inputSchema": {
        "type": "object",
        "properties": {"url": {"type": "string", "description": "URL to scrape"}},
        "required": ["url"],
    },
}
EMPTY_OBJECT = {"type": "object", "properties": {}}

pytestmark = pytest.mark.requirement("A-01")


@pytest.mark.parametrize("given_as", [SCRAPE, Tool(**SCRAPE)], ids=["dict", "mcp Tool"])
def test_one_tool_becomes_exactly_the_documented_dict(given_as: Any) -> None:
    assert convert_mcp_tools_to_openai(given_as) == {
        "type": "function",
        "function": {
            "name": "firecrawl_scrape",
            "description": "Scrape content from a URL",
            "parameters": SCRAPE["inputSchema"],
        },
    }
    assert convert_mcp_tools_to_openai([]) == []


WHOLE_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "kind": {"anyOf": [{"const": "a"}, {"type": "string", "pattern": "^b+$"}]},
        "count": {"type": "integer", "exclusiveMinimum": 0, "default": 1},
    },
    "required": ["kind"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "parameters"),
    [
        (WHOLE_SCHEMA, WHOLE_SCHEMA),
        ({"type": "object", "title": "T"}, {"type": "object", "title": "T", "properties": {}}),
        (None, EMPTY_OBJECT),
        ("object", EMPTY_OBJECT),
        ({"type": "string"}, EMPTY_OBJECT),
        ({"anyOf": []}, EMPTY_OBJECT),
    ],
    ids=str,
)
def test_the_schema_of_an_object_stays_and_any_other_becomes_an_empty_one(
    schema: Any, parameters: dict[str, Any]
) -> None:
    converted = convert_mcp_tools_to_openai({"name": "t", "inputSchema": schema})

    assert converted["function"]["parameters"] == parameters


@pytest.mark.parametrize("described", [{}, {"description": ""}, {"description": "  \n"}])
def test_a_missing_description_is_replaced_by_the_name(described: dict[str, str]) -> None:
    function = convert_mcp_tools_to_openai({"name": "ping"} | described)["function"]

    assert function["parameters"] == EMPTY_OBJECT
    assert "ping" in function["description"]


def test_names_that_openai_refuses_are_rewritten_and_mapped_back() -> None:
    tools = [{"name": name} for name in ("fs.read", "fs/read", "fs_read", "ok-name_1", "größe", "")]

    names = [entry["function"]["name"] for entry in convert_mcp_tools_to_openai(tools)]

    assert names == ["fs_read", "fs_read_2", "fs_read_3", "ok-name_1", "gr__e", "tool"]
    assert openai_name_map(tools) == {
        "fs_read": "fs.read",
        "fs_read_2": "fs/read",
        "fs_read_3": "fs_read",
        "ok-name_1": "ok-name_1",
        "gr__e": "größe",
        "tool": "",
    }


@given(st.lists(st.text(max_size=130), max_size=20))
def test_every_list_of_names_maps_to_valid_distinct_ones_and_back(own: list[str]) -> None:
    tools = [{"name": name} for name in own]

    names = [entry["function"]["name"] for entry in convert_mcp_tools_to_openai(tools)]

    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)
    assert len(set(names)) == len(own)
    assert [openai_name_map(tools)[name] for name in names] == own


def test_a_langchain_tool_is_converted_by_its_argument_schema() -> None:
    @tool
    def multiply(a: int, b: int) -> int:
        """Multiply two numbers."""
        return a * b

    function = convert_mcp_tools_to_openai(multiply)["function"]

    assert (function["name"], function["description"]) == ("multiply", "Multiply two numbers.")
    assert function["parameters"]["properties"].keys() == {"a", "b"}
    assert function["parameters"]["required"] == ["a", "b"]


@pytest.mark.parametrize("nonsense", [42, {"description": "no name"}, {"name": 3}], ids=repr)
def test_a_value_that_is_no_tool_is_refused(nonsense: Any) -> None:
    with pytest.raises(TypeError, match="not a tool"):
        convert_mcp_tools_to_openai(nonsense)
