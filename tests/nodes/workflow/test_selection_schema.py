"""The function that a model calls to choose a request: what endpoints take of other people's schemas (W-05)."""

import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool

from tests.fixtures.counting import calls_in
from toolweave.nodes.workflow.tool_descriptions import MAX_SCHEMA_CHARS, plain_schema, selection_schema, tool_candidates
from toolweave.schema import Schema
from toolweave.tool_config import ToolConfig

KNOWN = {"type", "properties", "required", "items", "anyOf", "enum", "minimum", "maximum", "description"}


def tool(tool_id: str, fields: dict[str, Any], **schema: Any) -> ToolConfig:
    return ToolConfig.model_validate(
        {
            "tool_id": tool_id,
            "name": tool_id.title(),
            "description": "Does it.",
            "api": {"base_url": "https://api.example", "path": "/x", "method": "POST"},
            "input_schema": {"type": "object", "properties": fields, **schema},
        }
    )


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Give every schema inside a schema."""
    yield schema
    for inner in (*schema.get("properties", {}).values(), *schema.get("anyOf", ())):
        yield from parts(inner)
    if "items" in schema:
        yield from parts(schema["items"])


def properties(*tools: ToolConfig) -> dict[str, Any]:
    found: dict[str, Any] = selection_schema(tools)["parameters"]["properties"]
    return found


def test_one_candidates_schema_stands_alone_titled_with_its_id() -> None:
    found = properties(tool("get_it", {"a": {"type": "integer"}}, required=["a"]))

    assert found["tool_id"]["enum"] == ["get_it"]
    assert found["arguments"] == {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "title": "get_it",
        "description": "Get_It: Does it.",
    }


def test_several_candidates_are_alternatives_and_anyof_stands_alone() -> None:
    found = properties(tool("one", {"a": {"type": "integer"}}), tool("two", {"title": {"type": "string"}}))

    assert list(found["arguments"]) == ["anyOf"]
    assert [form["title"] for form in found["arguments"]["anyOf"]] == ["one", "two"]


def test_the_function_is_one_that_langchain_and_openai_take_as_it_is() -> None:
    function = selection_schema([tool("one", {"a": {"type": "integer"}})])

    assert convert_to_openai_tool(function) == {"type": "function", "function": function}
    assert len(function["name"]) <= 64
    assert set(function["parameters"]["properties"]) == {"tool_id", "arguments", "http_spec", "reason"}
    assert "required" not in function["parameters"]
    Schema(function["parameters"])


HARD: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$id": "https://elsewhere.example/x",
    "type": "object",
    "additionalProperties": False,
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
            "required": ["name", "gone"],
        },
        "Size": {"enum": [1, 2, 3]},
    },
    "properties": {
        "tree": {"$ref": "#/$defs/Node", "description": "The tree."},
        "size": {"$ref": "#/$defs/Size"},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "code": {"type": "string", "pattern": "^(?=a).*$", "maxLength": 9_000, "minLength": 1},
        "none": {"type": ["string", "null"], "description": "Maybe."},
        "both": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        "all": {
            "allOf": [{"$ref": "#/$defs/Node"}, {"properties": {"more": {"type": "boolean"}}, "required": ["more"]}]
        },
        "fixed": {"const": "yes"},
        "open": {},
        "anything": True,
        "list": {"type": "array"},
        "lost": {"$ref": "https://elsewhere.example/y#/z"},
        "count": {"type": "integer", "minimum": 1, "exclusiveMaximum": 10, "default": 5, "examples": [3]},
    },
}


def test_references_are_replaced_and_only_keywords_that_all_endpoints_take_are_left() -> None:
    plain = plain_schema(HARD)

    assert {key for part in parts(plain) for key in part} <= KNOWN
    assert "$ref" not in json.dumps(plain)
    fields = plain["properties"]
    assert fields["tree"]["description"] == "The tree."
    assert fields["tree"]["required"] == ["name"], "what is required but not there is refused by some"
    assert fields["tree"]["properties"]["children"]["items"]["properties"]["name"] == {"type": "string"}
    assert fields["day"] == fields["code"] == {"type": "string"}
    assert fields["none"] == {"anyOf": [{"type": "string", "description": "Maybe."}, {"type": "null"}]}
    assert fields["both"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert fields["all"]["required"] == ["name", "more"]
    assert fields["fixed"] == {"type": "string", "enum": ["yes"]}
    assert fields["open"] == fields["anything"] == fields["lost"] == fields["size"] == {}
    assert fields["list"] == {"type": "array", "items": {"type": "string"}}
    assert fields["count"] == {"type": "integer", "minimum": 1}
    Schema(plain)


def test_what_contains_itself_ends() -> None:
    wide = {
        "type": "object",
        "$defs": {"N": {"type": "object", "properties": {name: {"$ref": "#/$defs/N"} for name in "abcdefgh"}}},
        "properties": {"n": {"$ref": "#/$defs/N"}, "self": {"$ref": "#"}},
    }

    assert len(json.dumps(plain_schema(wide))) < 40_000
    assert sum(1 for _ in parts(plain_schema(wide))) < 1_000


@pytest.mark.parametrize(
    "odd",
    [
        {"properties": {"a": {"type": ["null"]}, "b": {"anyOf": [{"type": "null"}]}, "c": {"allOf": [True]}}},
        {"properties": {"a": {"enum": [None, "x" * 1_000]}, "b": {"enum": ["", "y"]}, "c": {"enum": [True]}}},
        {"properties": {"a": {"$ref": "#/$defs/a"}, "b": {"items": [{}]}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {}]}}},
    ],
    ids=str,
)
def test_odd_schemas_become_something_that_is_a_schema(odd: dict[str, Any]) -> None:
    Schema(plain_schema(odd))


@pytest.mark.parametrize(("fields", "told"), [(100, True), pytest.param(1_200, False, marks=pytest.mark.slow)])
def test_schemas_that_are_too_large_together_lose_their_words_first(fields: int, told: bool) -> None:
    many = {f"f{number}": {"type": "string", "description": "w" * 400} for number in range(fields)}
    tools = [tool(f"t{number}", many, required=["f0"]) for number in range(8)]

    found = properties(*tools)

    assert ("anyOf" in found["arguments"]) == told
    assert "www" not in json.dumps(found)
    assert found["tool_id"]["enum"] == [f"t{number}" for number in range(8)]
    assert len(json.dumps(found)) < MAX_SCHEMA_CHARS * 1.1


def test_a_default_that_repeats_a_credential_is_not_in_the_schema() -> None:
    telling = tool("one", {"a": {"type": "string", "default": "s3cret-value", "enum": ["s3cret-value", "b"]}})
    keyed = telling.model_copy(
        update={"api": telling.api.model_copy(update={"headers": {"X-Api-Key": "s3cret-value"}})},
    )

    assert "s3cret-value" not in json.dumps(selection_schema([keyed]))


LONG = 20_000_000
_JOINED = {"allOf": [{"$ref": "#/$defs/other"}] * 2_000}


@pytest.mark.parametrize(
    "shared",
    [_JOINED, {"enum": ["x" * LONG]}, {"enum": ["x" * 300 + str(number) for number in range(2_000)]}],
    ids=["joined", "a long choice", "many choices"],
)
def test_what_many_fields_refer_to_is_not_written_out_for_each_of_them(shared: dict[str, Any]) -> None:
    definitions = {"shared": shared, "other": {"properties": {"a": {"type": "integer"}}}}
    fields = {f"f{number}": {"$ref": "#/$defs/shared"} for number in range(390)}
    large = tool("large", fields, **{"$defs": definitions})

    plain = tool("plain", {name: {"type": "string"} for name in fields})

    calls, memory = cost_of(large)
    few_calls, _ = cost_of(plain)
    assert calls < 30 * few_calls, "written out it would be some hundred times as many"
    assert memory < LONG, "a long choice is not copied"
    assert len(json.dumps(selection_schema([large]))) < MAX_SCHEMA_CHARS + 5_000
    assert len(json.dumps(tool_candidates([large]))) < 10_000


def cost_of(config: ToolConfig) -> tuple[int, int]:
    """Count the calls that a schema takes, and the bytes that it needs at a time."""
    calls = calls_in(lambda: selection_schema([config]))
    tracemalloc.start()
    try:
        selection_schema([config])
        return calls, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
