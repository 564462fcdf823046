"""How a request's body becomes fields, and when it stays one."""

from typing import Any

import pytest

from tests.servers.registry.openapi_documents import body, operation, places, reason_of, ref, request, tool_of
from toolweave.tool_config import ToolConfig

NAME = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]}


def posted(schema: Any, *, required: bool = True, **more: Any) -> ToolConfig:
    raw = operation(requestBody=body(schema, required=required))
    return tool_of(raw, method="post", **more)


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


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "object"},
        {**NAME, "additionalProperties": {"type": "integer"}},
        {**NAME, "minProperties": 1},
        {"oneOf": [NAME, {"type": "object", "properties": {"id": {"type": "integer"}}}]},
        {"allOf": [NAME, {"oneOf": [{"required": ["age"]}, {"required": ["name"]}]}]},
        True,
    ],
)
def test_a_body_that_fields_cannot_express_is_one_field(schema: Any) -> None:
    tool = posted(schema)
    assert (places(tool), tool.required_fields) == ({"body": "body.$"}, ("body",))


def test_an_optional_body_is_one_optional_field() -> None:
    tool = posted(NAME, required=False)
    assert (places(tool), tool.required_fields) == ({"body": "body.$"}, ())
    assert request(tool).body is None
    assert request(tool, body={"name": "A"}).body == {"name": "A"}
    loose = posted({"type": "object", "properties": {"note": {"type": "string"}}}, required=False)
    assert loose.field_mappings.request == {}


def test_all_of_is_one_object_with_the_properties_of_each() -> None:
    schemas = {
        "Base": {"type": "object", "properties": {"id": {"readOnly": True}, "kind": {"type": "string"}}},
        "Named": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "kind": {"minLength": 1}},
            "required": ["name"],
        },
        "Pet": {"allOf": [ref("Base"), ref("Named")], "required": ["kind", "tag"]},
    }
    tool = posted(ref("Pet"), components={"schemas": schemas})
    assert tool.input_fields == {
        "kind": {"allOf": [{"type": "string"}, {"minLength": 1}]},
        "name": {"type": "string"},
        "tag": {},
    }
    assert set(tool.required_fields) == {"kind", "name", "tag"}


def test_what_only_the_api_sets_is_no_field_on_any_level() -> None:
    stamp = {"type": "string", "readOnly": True}
    item = {"type": "object", "required": ["id", "n"], "properties": {"id": stamp, "n": {"type": "integer"}}}
    properties = {"id": stamp, "made": ref("Stamp"), "item": item}
    schema = {"type": "object", "required": ["id", "item"], "properties": properties}
    tool = posted(schema, components={"schemas": {"Stamp": stamp}})
    assert tool.input_schema == {
        "type": "object",
        "properties": {"item": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}},
        "required": ["item"],
    }


@pytest.mark.parametrize(
    ("media_types", "sent"),
    [
        (["application/vnd.api+json"], "application/vnd.api+json"),
        (["application/merge-patch+json; charset=utf-8"], "application/merge-patch+json; charset=utf-8"),
        (["application/json; charset=utf-8"], None),
        (["application/*"], None),
        (["*/*", "application/x+json"], "application/x+json"),
        (["application/xml", "application/hal+json", "APPLICATION/JSON"], None),
    ],
)
def test_the_content_type_of_a_request_is_the_plainest_json_of_the_body(
    media_types: list[str], sent: str | None
) -> None:
    content = {media_type: {"schema": NAME} for media_type in media_types}
    tool = tool_of(operation(requestBody={"required": True, "content": content}), method="patch")
    assert tool.input_schema == NAME
    assert tool.api.headers == request(tool, name="A").headers == ({"Content-Type": sent} if sent else {})


@pytest.mark.parametrize(
    ("schema", "media_type", "expected"),
    [
        (NAME, "multipart/form-data", "only JSON is sent"),
        (NAME, "text/json\r\n", "only JSON is sent"),
        (NAME, "application/x\r\nA: b+json", ""),  # no header can have this value
        ({"type": "object", "properties": {"__proto__": {"type": "string"}}}, "application/json", "__proto__"),
    ],
)
def test_an_operation_whose_body_cannot_be_sent_is_skipped(schema: Any, media_type: str, expected: str) -> None:
    reason = reason_of(operation(requestBody=body(schema, media_type=media_type)), method="put")
    assert expected in reason
    assert reason.isprintable()


@pytest.mark.parametrize(
    ("request_body", "fields"),
    [
        ({"content": {}}, {}),
        (body({"type": "object", "additionalProperties": False}), {}),
        (body({"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "null"}]}), {"a": {}}),
        ({**body({"type": "array"}), "description": "Items."}, {"body": {"type": "array", "description": "Items."}}),
    ],
)
def test_a_body_has_fields_for_the_values_that_a_caller_may_send(request_body: Any, fields: Any) -> None:
    assert tool_of(operation(requestBody=request_body), method="post").input_fields == fields
