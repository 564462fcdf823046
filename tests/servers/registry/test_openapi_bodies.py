"""How a request's body becomes fields, and when it stays one."""

from typing import Any

import pytest

from tests.servers.registry.openapi_documents import body, operation, reason_of, request, tool_of
from toolweave.tool_config import ToolConfig

NAME = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]}


def posted(schema: Any, *, required: bool = True, media_type: str = "application/json", **more: Any) -> ToolConfig:
    raw = operation(requestBody=body(schema, required=required, media_type=media_type))
    return tool_of(raw, method="post", **more)


def is_whole(tool: ToolConfig) -> bool:
    return {name: str(place) for name, place in tool.field_mappings.request.items()} == {"body": "body.$"}


def test_the_properties_of_a_body_are_fields_by_their_own_names() -> None:
    tool = posted(NAME)
    assert tool.input_schema == NAME
    assert tool.field_mappings.request == {}
    assert request(tool, name="A", age=3).body == {"name": "A", "age": 3}


def test_properties_whose_names_are_no_field_names_lead_back_to_them() -> None:
    names = ["first name", "it's", "back\\slash", "a.b", "日本", 'q"uote', "_id", "$ref"]
    tool = posted({"type": "object", "properties": {name: {"type": "integer"} for name in names}})
    values = {field: number for number, field in enumerate(tool.input_fields)}
    assert request(tool, **values).body == {name: number for number, name in enumerate(names)}
    assert "_id" in tool.input_fields


def test_a_property_that_no_body_may_hold_skips_the_operation() -> None:
    schema = {"type": "object", "properties": {"__proto__": {"type": "string"}}}
    assert "__proto__" in reason_of(operation(requestBody=body(schema)), method="post")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "string"},
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {**NAME, "additionalProperties": {"type": "integer"}},
        {**NAME, "minProperties": 1},
        {"oneOf": [NAME, {"type": "object", "properties": {"id": {"type": "integer"}}}]},
        {"anyOf": [NAME, {"type": "string"}]},
        {"allOf": [NAME, {"oneOf": [{"required": ["age"]}, {"required": ["name"]}]}]},
        {},
        True,
    ],
)
def test_a_body_that_fields_cannot_say_is_one_field(schema: Any) -> None:
    tool = posted(schema)
    assert is_whole(tool)
    assert tool.required_fields == ("body",)


def test_a_body_that_may_be_left_out_is_left_out_whole() -> None:
    tool = posted(NAME, required=False)
    assert is_whole(tool)
    assert tool.required_fields == ()
    assert request(tool).body is None
    assert request(tool, body={"name": "A"}).body == {"name": "A"}
    loose = posted({"type": "object", "properties": {"note": {"type": "string"}}}, required=False)
    assert loose.field_mappings.request == {}


def test_a_body_that_may_be_null_may_be_left_out() -> None:
    tool = posted({"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "null"}]})
    assert (list(tool.input_fields), tool.required_fields) == (["a"], ())


def test_all_of_is_one_object_with_the_properties_of_each() -> None:
    schemas = {
        "Base": {
            "type": "object",
            "properties": {"id": {"type": "integer", "readOnly": True}, "kind": {"type": "string"}},
        },
        "Pet": {
            "allOf": [
                {"$ref": "#/components/schemas/Base"},
                {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "kind": {"minLength": 1}},
                    "required": ["name"],
                },
            ],
            "required": ["kind", "tag"],
        },
    }
    tool = posted({"$ref": "#/components/schemas/Pet"}, components={"schemas": schemas})
    assert tool.input_fields == {
        "kind": {"allOf": [{"type": "string"}, {"minLength": 1}]},
        "name": {"type": "string"},
        "tag": {},
    }
    assert set(tool.required_fields) == {"kind", "name", "tag"}


def test_what_only_the_api_sets_is_no_field_on_any_level() -> None:
    stamp = {"type": "string", "readOnly": True}
    components = {"schemas": {"Stamp": stamp}}
    tool = posted(
        {
            "type": "object",
            "required": ["id", "item"],
            "properties": {
                "id": stamp,
                "made": {"$ref": "#/components/schemas/Stamp"},
                "item": {
                    "type": "object",
                    "required": ["id", "n"],
                    "properties": {"id": stamp, "n": {"type": "integer"}},
                },
            },
        },
        components=components,
    )
    assert tool.input_schema == {
        "type": "object",
        "properties": {"item": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}},
        "required": ["item"],
    }


@pytest.mark.parametrize("media_type", ["application/vnd.api+json", "application/merge-patch+json; charset=utf-8"])
def test_another_json_media_type_is_the_content_type_of_the_request(media_type: str) -> None:
    tool = posted(NAME, media_type=media_type)
    assert tool.api.headers == request(tool, name="A").headers == {"Content-Type": media_type}


@pytest.mark.parametrize("media_type", ["application/json; charset=utf-8", "*/*", "application/*", "APPLICATION/JSON"])
def test_a_media_type_that_means_json_needs_no_header(media_type: str) -> None:
    assert posted(NAME, media_type=media_type).api.headers == {}


def test_plain_json_is_preferred() -> None:
    raw = operation(
        requestBody={
            "required": True,
            "content": {
                "application/xml": {"schema": {"type": "string"}},
                "application/hal+json": {"schema": {"type": "array"}},
                "application/json": {"schema": NAME},
            },
        }
    )
    assert tool_of(raw, method="patch").input_schema == NAME


@pytest.mark.parametrize(
    ("media_type", "expected"),
    [
        ("multipart/form-data", "only JSON is sent"),
        ("application/x-www-form-urlencoded", "only JSON is sent"),
        ("application/octet-stream", "only JSON is sent"),
        ("text/json\r\n", "only JSON is sent"),
        ("application/x\r\nA: b+json", ""),  # no header can have this value
    ],
)
def test_a_body_that_is_not_json_skips_the_operation(media_type: str, expected: str) -> None:
    reason = reason_of(operation(requestBody=body(NAME, media_type=media_type)), method="put")
    assert expected in reason
    assert reason.isprintable()


def test_a_body_without_content_is_none() -> None:
    assert tool_of(operation(requestBody={"content": {}}), method="post").input_fields == {}


def test_the_description_of_a_body_is_that_of_its_field() -> None:
    raw = operation(requestBody={**body({"type": "array", "items": {}}), "description": "What to add."})
    assert tool_of(raw, method="post").input_fields["body"]["description"] == "What to add."


def test_an_object_without_properties_of_its_own_takes_nothing() -> None:
    assert posted({"type": "object", "additionalProperties": False}).input_fields == {}
