"""How schemas of OpenAPI 3.0 and 3.1 become JSON Schemas that stand on their own."""

from typing import Any

import pytest

from tests.servers.registry.openapi_documents import (
    answer,
    body,
    document,
    import_of,
    imported,
    operation,
    parameter,
    reason_of,
    ref,
    tool_of,
)
from toolweave.schema import Schema


def field_of(schema: Any, version: str = "3.0.3", **components: Any) -> Any:
    """Give the input field "a" that a schema becomes."""
    raw = operation(requestBody=body({"type": "object", "properties": {"a": schema}}))
    return tool_of(raw, method="post", version=version, components={"schemas": components}).input_fields["a"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        (
            {"type": "string", "enum": ["a"], "nullable": True, "description": "D"},
            {"type": ["string", "null"], "enum": ["a", None], "description": "D"},
        ),
        ({"nullable": True}, {}),
        (
            {"allOf": [{"type": "string"}], "nullable": True, "description": "D"},
            {"description": "D", "anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]},
        ),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, {"type": "integer", "exclusiveMinimum": 1}),
        ({"type": "integer", "maximum": 9, "exclusiveMaximum": False}, {"type": "integer", "maximum": 9}),
        ({"type": "integer", "exclusiveMaximum": True}, {"type": "integer"}),
        ({"type": "integer", "example": 5}, {"type": "integer", "examples": [5]}),
        ({"type": "string", "required": True}, {"type": "string"}),
        (
            {"type": "string", "xml": {"name": "x"}, "externalDocs": {"url": "u"}, "x-own": 1, "discriminator": {}},
            {"type": "string"},
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string", "nullable": True}},
            {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
        ),
        pytest.param(
            {"type": "string", "description": "d" * 5_000, "example": "e" * 5_000},
            {"type": "string", "description": "d" * 2_000},
            id="long texts",
        ),
    ],
)
def test_an_openapi_3_0_schema_becomes_a_json_schema(schema: Any, expected: Any) -> None:
    assert field_of(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["string", "null"], "const": None},
        {"type": "integer", "exclusiveMinimum": 0, "maximum": 10, "default": 3},
        {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
        {"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"type": "integer"}},
        {"type": "object", "patternProperties": {"^x": {"type": "string"}}, "unevaluatedProperties": False},
        {"type": "string", "contentEncoding": "base64", "default": None, "examples": ["a", "b"]},
        {"type": "object", "properties": {"properties": {"type": "string"}, "required": {"type": "boolean"}}},
    ],
)
def test_an_openapi_3_1_schema_stays_as_it_is(schema: Any) -> None:
    assert field_of(schema, "3.1.0") == schema


KIND = {"type": "string", "enum": ["cat", "dog"]}
PET = {"type": "object", "properties": {"kind": ref("Kind")}, "description": "A pet."}


@pytest.mark.parametrize(
    ("schema", "version", "expected"),
    [
        (
            {**ref("Pet"), "description": "Mine."},
            "3.1.0",
            {"type": "object", "properties": {"kind": KIND}, "description": "Mine."},
        ),
        ({**ref("Kind"), "maxLength": 3}, "3.1.0", {"allOf": [KIND, {"maxLength": 3}]}),
        ({**ref("Kind"), "nullable": True}, "3.0.3", {"type": ["string", "null"], "enum": ["cat", "dog", None]}),
        # A pointer may escape and encode the names on its way.
        (ref("a~1b~0c%20d"), "3.1.0", {"type": "integer"}),
    ],
)
def test_a_reference_becomes_its_schema_with_the_keywords_beside_it(schema: Any, version: str, expected: Any) -> None:
    assert field_of(schema, version, **{"Pet": PET, "Kind": KIND, "a/b~c d": {"type": "integer"}}) == expected


def test_a_schema_that_contains_itself_goes_to_defs() -> None:
    tree = {
        "type": "object",
        "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": ref("Tree")}},
    }
    raw = operation(requestBody=body(ref("Tree")), responses=answer(ref("Tree")))
    tool = tool_of(raw, method="post", components={"schemas": {"Tree": tree}})
    inner = {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
    for schema in (tool.input_schema, tool.output_schema):
        assert schema["$defs"]["Tree"]["properties"]["children"] == inner
    check = Schema(tool.input_schema)
    assert check.problems({"value": 1, "children": [{"value": 2, "children": []}]}) == []
    assert check.problems({"children": [{"children": [{"value": "x"}]}]}) != []


def test_schemas_that_contain_each_other_keep_their_names_apart() -> None:
    schemas = {
        "A": {"type": "object", "properties": {"b": ref("B"), "a": ref("A")}},
        "B": {
            "type": "object",
            "properties": {"a": ref("A"), "own": ref("B/$defs/A")},
            "$defs": {"A": {"type": "object", "properties": {"x": ref("B/$defs/A")}}},
        },
    }
    output = tool_of(operation(responses=answer(ref("A"))), components={"schemas": schemas}).output_schema
    check = Schema(output)
    assert set(output["$defs"]) == {"A", "A_2"}
    assert check.problems({"b": {"a": {"b": {"own": {"x": {"x": {}}}}}}}) == []
    assert check.problems({"b": {"a": {"b": {"own": {"x": 5}}}}}) != []


def test_a_schema_that_writing_out_would_make_too_large_keeps_its_references() -> None:
    schemas: dict[str, Any] = {"S20": {"type": "string"}}
    for n in range(20):
        schemas[f"S{n}"] = {"type": "object", "properties": dict.fromkeys("lr", ref(f"S{n + 1}"))}
    raw = operation(responses=answer(ref("S0")), requestBody=body(ref("S0")))
    tool = tool_of(raw, method="post", components={"schemas": schemas})
    assert len(tool.output_schema["$defs"]) == 20
    assert tool.input_fields["l"] == {"$ref": "#/$defs/S1"}


def test_an_input_that_is_too_large_skips_and_an_output_that_is_too_large_is_left_out() -> None:
    wide = {"type": "object", "properties": {f"q{m}": {"type": "string"} for m in range(100)}}
    huge = {"type": "object", "properties": {f"p{n}": wide for n in range(60)}}
    assert "more than 5000 parts" in reason_of(operation(requestBody=body(huge)), method="post")
    found = import_of(operation(responses=answer(huge)))
    assert found.tools[0].output_schema == {}
    assert "more than 5000 parts" in found.warnings[0]


def test_what_only_a_caller_sends_is_no_part_of_the_output() -> None:
    schema = {
        "type": "object",
        "properties": {"password": {"type": "string", "writeOnly": True}, "id": {"type": "integer", "readOnly": True}},
        "required": ["password", "id"],
    }
    assert tool_of(operation(responses=answer(schema))).output_schema == {
        "type": "object",
        "properties": {"id": {"type": "integer"}},
        "required": ["id"],
    }


CIRCLE = {"A": ref("B"), "B": ref("A")}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("text", "not an object"),
        (None, "not an object"),
        ({"type": 5}, "the type"),
        ({"type": "colour"}, "the type"),
        ({"properties": []}, "the properties"),
        ({"properties": {"a": 5}}, "not an object"),
        ({"allOf": {}}, "the allOf"),
        ({"anyOf": [5]}, "not an object"),
        ({"items": "x"}, "not an object"),
        ({"enum": "x"}, "the enum"),
        ({"pattern": 5}, "the pattern"),
        ({"$ref": 5}, "is not text"),
        ({"$ref": "#/nowhere"}, "points to nothing"),
        ({"$ref": "#anchor"}, "not a path"),
        ({"$ref": ""}, "another document"),
        (ref("A"), "circle"),
    ],
)
def test_a_schema_or_reference_that_is_invalid_skips_the_operation_with_the_reason(schema: Any, expected: str) -> None:
    raw = operation(parameters=[parameter("a", schema={"allOf": [schema]})])
    assert expected in reason_of(raw, components={"schemas": CIRCLE})


@pytest.mark.parametrize("where", ["schema", "parameter", "body", "response", "path", "output"])
@pytest.mark.parametrize("pointer", ["file:///etc/passwd", "http://127.0.0.1:1/x.json#/A", "other.yaml#/A"])
def test_a_reference_to_another_document_is_never_followed_and_skips_the_operation(where: str, pointer: str) -> None:
    reference = {"$ref": pointer}
    raw = {
        "schema": operation(parameters=[parameter("a", schema=reference)]),
        "parameter": operation(parameters=[reference]),
        "body": operation(requestBody=reference),
        "response": operation(responses={"200": reference}),
        "output": operation(responses=answer({"type": "array", "items": reference})),
    }
    paths = {"/t": reference if where == "path" else {"post": raw[where]}, "/ok": {"get": operation("ok")}}
    found = imported(document(paths))
    assert [tool.tool_id for tool in found.tools] == ["ok"]
    assert "another document" in found.skipped[0]["reason"]
    assert pointer[:10] in found.skipped[0]["reason"]


def test_references_to_parameters_bodies_responses_and_paths_are_followed() -> None:
    components = {
        "parameters": {"Id": ref("RealId", "parameters"), "RealId": parameter("id", "path", required=True)},
        "requestBodies": {"Pet": body(ref("Pet"))},
        "responses": {"Pet": answer(ref("Pet"))["200"]},
        "schemas": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "pathItems": {
            "Pets": {
                "parameters": [ref("Id", "parameters")],
                "put": operation(requestBody=ref("Pet", "requestBodies"), responses={"200": ref("Pet", "responses")}),
            }
        },
    }
    found = imported(document({"/pets/{id}": ref("Pets", "pathItems")}, components=components))
    (tool,) = found.tools
    assert (list(tool.input_fields), found.warnings) == (["id", "name"], [])
    assert tool.output_schema == components["schemas"]["Pet"]
