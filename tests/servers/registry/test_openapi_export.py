"""What an exported document says, and that it comes back as the same tools."""

import json
from typing import Any

import pytest
from openapi_pydantic import OpenAPI

from tests.fixtures.shop_api import shop_application
from tests.fixtures.shop_tools import shop_tools
from tests.servers.registry.openapi_documents import imported
from tests.servers.registry.test_openapi_clinic import DOCUMENT
from toolweave.servers.registry.openapi.exporting import export_openapi
from toolweave.tool_config import ToolConfig

SHOP = {**shop_application().openapi(), "servers": [{"url": "http://127.0.0.1:8000"}]}


def config(tool_id: str = "tool", **more: Any) -> ToolConfig:
    api = {"base_url": "https://a.example", "path": "/x", "method": "GET", **more.pop("api", {})}
    return ToolConfig.model_validate({"tool_id": tool_id, "name": "Tool", "description": "Tool.", "api": api, **more})


def again(configs: list[ToolConfig]) -> list[ToolConfig]:
    exported = json.loads(json.dumps(export_openapi(configs)))
    OpenAPI.model_validate(exported)
    found = imported(exported)
    assert found.skipped == []
    return found.tools


def without_own_words(exported: dict[str, Any]) -> dict[str, Any]:
    for path_item in exported["paths"].values():
        for entry in path_item.values():
            if isinstance(entry, dict):
                entry.pop("x-toolweave", None)
    return exported


@pytest.mark.parametrize("document", [SHOP, DOCUMENT], ids=["shop", "clinic"])
def test_imported_tools_come_back_the_same_even_from_the_plain_document(document: Any) -> None:
    tools = imported(document).tools
    assert again(tools) == tools
    plain = imported(without_own_words(export_openapi(tools))).tools
    for tool, before in zip(plain, tools, strict=True):
        assert (tool.tool_id, tool.api, tool.places) == (before.tool_id, before.api, before.places)
        assert tool.required_fields == before.required_fields
        if "$defs" not in before.input_schema:
            assert tool.input_schema == before.input_schema


def test_the_plain_document_says_nearly_all_of_the_shops_tools() -> None:
    exported = export_openapi(imported(SHOP).tools)
    assert "x-toolweave" not in json.dumps(exported).replace("x-toolweave-variable", "")
    assert set(exported["paths"]) == set(SHOP["paths"])
    stated = exported["paths"]["/products/{product_id}/price"]["put"]
    assert stated["operationId"] == "update_product_price"
    assert [one["name"] for one in stated["parameters"]] == ["product_id"]
    assert stated["requestBody"]["content"]["application/json"]["schema"]["required"] == ["price"]


@pytest.mark.requirement("W-01")
def test_registered_tools_come_back_the_same() -> None:
    tools = shop_tools("http://127.0.0.1:8000")
    assert again(tools) == tools


NESTED: dict[str, Any] = {
    "api": {"method": "POST", "headers": {"X-Version": "2"}, "timeout_s": 3.5},
    "input_schema": {
        "type": "object",
        "properties": {
            "city": {"$ref": "#/$defs/Text"},
            "zip": {"type": "string"},
            "first": {"type": "string"},
            "q": {"type": "object"},
            "tree": {"$ref": "#/$defs/Tree"},
        },
        "required": ["city"],
        "additionalProperties": False,
        "anyOf": [{"required": ["zip"]}, {"required": ["first"]}],
        "$defs": {
            "Text": {"type": "string"},
            "Tree": {"type": "object", "properties": {"inner": {"$ref": "#/$defs/Tree"}}},
        },
    },
    "output_schema": {
        "type": "object",
        "properties": {"id": {"$ref": "#/$defs/Text"}},
        "$defs": {"Text": {"type": "integer"}},
    },
    "field_mappings": {
        "request": {
            "city": "body.address.city",
            "zip": "body.address.zip",
            "first": "body.names[0]",
            "q": "query.q[x]",
        },
        "response": {"id": "$.data.id"},
    },
}


@pytest.mark.parametrize(
    "more",
    [
        {},
        NESTED,
        {"input_schema": {"type": "object", "properties": {"x": {"$ref": "#/properties/y"}, "y": {"type": "integer"}}}},
        {"input_schema": {"type": "object", "properties": {"a": True, "b": False, "c": {}}, "required": []}},
        {
            "input_schema": {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "properties": {"a": {"type": ["string", "null"]}},
            }
        },
        {
            "input_schema": {
                "properties": {
                    "l": {"type": "array", "items": {"type": "object"}},
                    "o": {"type": "object", "properties": {"p": {}}},
                }
            }
        },
        {
            "api": {"path": "/a/{b}/{c-d}"},
            "input_schema": {"properties": {"b": {"type": "integer"}, "x": {"type": "string"}}},
            "field_mappings": {"request": {"x": "path.c-d"}},
        },
        {
            "api": {"method": "PUT"},
            "input_schema": {"properties": {"all": {"type": "array"}}},
            "field_mappings": {"request": {"all": "body.$"}},
        },
        {
            "api": {"method": "POST"},
            "input_schema": {"properties": {"f": {}}},
            "field_mappings": {"request": {"f": "body.$[1]"}},
        },
        {
            "api": {"method": "POST", "headers": {"content-type": "application/x+json"}},
            "input_schema": {"properties": {"f": {}}},
        },
        {
            "api": {"method": "POST", "headers": {"Content-Type": "text/plain"}},
            "input_schema": {"properties": {"f": {}}},
        },
        {
            "api": {"method": "DELETE", "timeout_s": 0.25},
            "output_schema": {"type": "array", "prefixItems": [{"type": "string"}]},
        },
        {"name": "Two\nlines " + "x" * 300, "description": "Said\r\n otherwise. "},
        {"name": " ", "description": " "},
        {"api": {"method": "HEAD", "path": "/", "base_url": "http://[::1]:8000/base"}},
    ],
)
def test_a_tool_that_openapi_has_no_words_for_comes_back_the_same(more: dict[str, Any]) -> None:
    tool = config(**more)
    assert again([tool]) == [tool]


def test_tools_of_one_path_on_several_servers_are_all_there() -> None:
    tools = [
        config("a"),
        config("b", api={"base_url": "https://b.example"}),
        config("c"),
        config("d", api={"method": "POST"}),
        config("e", api={"base_url": "https://b.example", "method": "POST"}),
        config("f-", api={"path": "/y/{id}"}, input_schema={"properties": {"id": {}}}),
        config("g_", api={"path": "/y/{key}", "method": "PUT"}, input_schema={"properties": {"key": {}}}),
    ]
    assert {tool.tool_id: tool for tool in again(tools)} == {tool.tool_id: tool for tool in tools}


def test_definitions_of_one_name_that_differ_are_kept_apart() -> None:
    def tree(kind: str) -> dict[str, Any]:
        node = {"type": "object", "properties": {"v": {"type": kind}, "n": {"$ref": "#/$defs/N"}}}
        return {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": node}}

    tools = [config("a", input_schema=tree("string")), config("b", input_schema=tree("integer"), api={"path": "/b"})]
    tools.append(config("c", input_schema=tree("string"), output_schema=tree("string"), api={"path": "/c"}))
    assert again(tools) == tools
    assert len(export_openapi(tools)["components"]["schemas"]) == 2


@pytest.mark.parametrize(
    "api",
    [
        {"auth": {"type": "bearer", "value": "{env:TOOL_A_KEY}"}},
        {"auth": {"type": "basic", "value": "{env:TOOL_A_KEY}"}},
        {"auth": {"type": "api_key", "name": "X-Key", "value": "{env:TOOL_A_KEY}"}},
        {
            "auth": {"type": "api_key", "name": "key", "location": "query", "value": "{env:TOOL_A_KEY}"},
            "headers": {"X-Secret": "{env:TOOL_B}", "Authorization": "Bearer {env:TOOL_C}"},
        },
    ],
)
def test_references_to_variables_come_back(api: dict[str, Any]) -> None:
    tool = config(api=api)
    assert again([tool]) == [tool]


@pytest.mark.requirement("W-08")
@pytest.mark.parametrize(
    "api",
    [
        {"auth": {"type": "bearer", "value": "hunter2-secret"}},
        {"auth": {"type": "basic", "value": "name:hunter2-secret"}},
        {"auth": {"type": "api_key", "name": "X-Key", "value": "Token hunter2-secret"}},
        {"headers": {"X-Api-Key": "hunter2-secret", "Authorization": "Bearer hunter2-secret"}},
    ],
)
def test_no_credential_is_exported(api: dict[str, Any]) -> None:
    tool = config(api=api)
    exported = export_openapi([tool])
    assert "hunter2-secret" not in json.dumps(exported)
    (found,) = again([tool])
    assert "{env:TOOL_REGISTERED_TOOLS_CREDENTIAL" in found.model_dump_json()


def test_no_tools_make_a_valid_document() -> None:
    assert OpenAPI.model_validate(export_openapi([])).paths == {}
    assert again([]) == []
