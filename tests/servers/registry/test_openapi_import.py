"""Which operations of a document become tools, under which id, and why the rest does not."""

import json
from typing import Any

import pytest

from tests.fixtures.shop_api import shop_application
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
    the_tool,
    tool_of,
)
from toolweave.servers.registry.openapi.importing import readable_tools
from toolweave.tool_config import ApiAuth


@pytest.mark.requirement("W-01")
def test_every_operation_of_the_shop_becomes_a_tool_without_a_warning() -> None:
    shop = {**shop_application().openapi(), "servers": [{"url": "http://127.0.0.1:8000"}]}
    found = imported(json.dumps(shop))
    declared = {one["operationId"] for path_item in shop["paths"].values() for one in path_item.values()}
    assert {tool.tool_id for tool in found.tools} == declared
    assert len(declared) >= 12
    assert (found.skipped, found.warnings) == ([], [])


def test_the_description_of_a_tool_has_every_text_of_its_operation() -> None:
    raw = operation(
        "getThing",
        summary="Get a thing",
        description="Things are numbered from 1.",
        responses={"200": {"description": "The thing with its parts"}},
        deprecated=True,
    )
    found = import_of(raw)
    (tool,) = found.tools
    assert tool.name == "Get a thing"
    assert tool.description == (
        "Get a thing\n\nThings are numbered from 1.\n\nReturns: The thing with its parts\n\n"
        "Deprecated: the API advises not to use it."
    )
    assert found.warnings == ["GET /things: it is deprecated"]


@pytest.mark.parametrize(
    ("raw", "tool_id", "name"),
    [
        ({"operationId": "listUserOrders"}, "listUserOrders", "List user orders"),
        ({"operationId": "orders.list/all v2"}, "orders_list_all_v2", "Orders list all v2"),
        ({"operationId": "__hidden__"}, "hidden__", "Hidden"),
        ({"operationId": "日本"}, "get_users_id_orders", "日本"),
        ({"operationId": "x" * 100}, "x" * 64, "X" + "x" * 99),
        ({}, "get_users_id_orders", "GET /users/{id}/orders"),
        ({"operationId": "export"}, "export_get", "Export"),
        ({"operationId": "Import", "summary": "Take in"}, "Import_get", "Take in"),
        # References let one long text stand in thousands of operations: only its beginning is read.
        ({"operationId": "!" * 20_000 + "late"}, "get_users_id_orders", "GET /users/{id}/orders"),
        ({"operationId": "Import", "summary": " " * 20_000 + "late"}, "Import_get", "Import"),
    ],
)
def test_ids_and_names_come_from_the_operation(raw: dict[str, Any], tool_id: str, name: str) -> None:
    path_item = {"parameters": [parameter("id", "path", required=True)], "get": {"responses": {}, **raw}}
    tool = the_tool(document({"/users/{id}/orders": path_item}))
    assert (tool.tool_id, tool.name) == (tool_id, name)
    assert tool.description == name


def test_an_operation_of_fastapi_gets_the_name_of_its_function_if_no_other_tool_has_it() -> None:
    names = {"get": "get_pet", "put": "_hidden", "post": "export", "delete": "TAKEN", "patch": ""}
    pets = {method: operation(f"{name}_pets_{method}") for method, name in names.items()}
    found = imported(document({"/pets": pets, "/taken": {"get": operation("taken")}}))
    ids = "get_pet hidden export_pets_post TAKEN_pets_delete pets_patch taken"
    assert " ".join(tool.tool_id for tool in readable_tools(found, {})) == ids


def test_tool_ids_are_unique_and_begin_with_the_prefix() -> None:
    long = "x" * 80
    found = imported(
        document({f"/{n}": {"get": operation("same"), "put": operation(long)} for n in range(3)}), prefix="pets-"
    )
    assert [tool.tool_id for tool in found.tools] == [
        *("pets-same", "pets-" + "x" * 59, "pets-same_2"),
        *("pets-" + "x" * 57 + "_2", "pets-same_3", "pets-" + "x" * 57 + "_3"),
    ]


def test_operations_are_chosen_by_globs_over_ids_and_paths_and_by_tags() -> None:
    whole = document(
        {
            "/pets": {"get": operation("listPets", tags=["pets"]), "post": operation("addPet", tags=["pets", "write"])},
            "/shops": {"get": operation("listShops", tags="no list"), "delete": operation("closeShop")},
        }
    )

    def chosen(**options: Any) -> set[str]:
        return {tool.tool_id for tool in imported(whole, **options).tools}

    assert chosen() == {"listPets", "addPet", "listShops", "closeShop"}
    assert chosen(operations=("list*",)) == {"listPets", "listShops"}
    assert chosen(operations=("GET /s*", "addPet")) == {"listShops", "addPet"}
    assert chosen(tags=("write",)) == {"addPet"}
    assert chosen(tags=("pets",), operations=("GET *",)) == {"listPets"}
    assert imported(whole, operations=("nope",)).warnings == ["the document has no operation that you selected"]
    assert imported(document({})).warnings == ["the document has no operation"]
    assert imported({"openapi": "3.1.0", "webhooks": {"x": {"post": operation()}}}).tools == []


def test_a_broken_operation_takes_no_other_one_down() -> None:
    found = imported(
        document(
            {
                "/ok": {"get": operation("ok")},
                "/broken": {
                    "get": operation(parameters=[{"name": "x"}]),
                    "put": operation(parameters={"x": 1}),
                    "post": operation(requestBody={"content": {"text/xml": {}}}),
                    "patch": operation(summary={"a": 1}),
                    "delete": "no operation",
                    "head": operation(parameters=[parameter("a", schema={"type": "colour"})]),
                    "options": operation(),
                    "trace": operation(),
                },
                "/broken2": [],
                "/br oken3": {"get": operation()},
                "/a/../b": {"get": operation()},
                "/#fragment": {"get": operation("without_fragment")},
                "x-path": {"get": operation()},
            }
        )
    )
    assert {tool.tool_id: tool.api.path for tool in found.tools} == {
        "ok": "/ok",
        "delete_broken": "/broken",
        "without_fragment": "/",
    }
    reasons = {skipped["operation"]: skipped["reason"] for skipped in found.skipped}
    assert set(reasons) == {
        *("GET /broken", "PUT /broken", "POST /broken", "PATCH /broken", "HEAD /broken", "OPTIONS /broken"),
        *("TRACE /broken", "/broken2", "GET /br oken3", "GET /a/../b"),
    }
    assert "parameter 'x'" in reasons["GET /broken"]
    assert "only JSON is sent" in reasons["POST /broken"]
    assert "dot segments" in reasons["GET /a/../b"]


def test_the_first_answer_for_success_with_json_is_the_output() -> None:
    answers = {
        "default": answer({"type": "boolean"})["200"],
        "400": answer({"type": "null"})["200"],
        "204": {"description": "Nothing"},
        "201": answer({"type": "integer"})["200"],
        "2XX": answer({"type": "string"})["200"],
    }
    assert tool_of(operation(responses=answers)).output_schema == {"type": "integer"}
    del answers["201"]
    assert tool_of(operation(responses=answers)).output_schema == {"type": "string"}
    assert tool_of({"operationId": "without"}).output_schema == {}


@pytest.mark.parametrize("schema", [{"type": "colour"}, ref("None"), [1]])
def test_a_tool_whose_output_cannot_be_read_has_none(schema: Any) -> None:
    found = import_of(operation(responses=answer(schema)))
    assert found.tools[0].output_schema == {}
    assert "no output_schema" in found.warnings[0]


def test_auth_for_all_replaces_what_the_document_wants() -> None:
    auth = ApiAuth(type="bearer", value="{env:TOOL_MINE}")
    raw = operation(security=[{"nowhere": []}], requestBody=body({"type": "object", "properties": {"a": {}}}))
    (tool,) = imported(document({"/things": {"post": raw}}), auth=auth, base_url="http://localhost:1/x").tools
    assert (tool.api.auth, tool.api.base_url) == (auth, "http://localhost:1/x")


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        ([{"url": "https://one.example/api/"}, {"url": "https://two.example"}], "https://one.example/api"),
        (
            [
                {
                    "url": "https://{region}.example:{port}/{v}",
                    "variables": {"region": {"default": "eu"}, "port": {"default": "8443"}, "v": {"default": "v2"}},
                }
            ],
            "https://eu.example:8443/v2",
        ),
        ([{"url": "/api/v3"}], "https://docs.example/api/v3"),
        ([{"url": "../v3"}], "https://docs.example/v3"),
        ([], "https://docs.example"),
    ],
)
def test_the_first_server_of_the_operation_its_path_or_the_document_is_the_base_url(
    servers: list[Any], expected: str
) -> None:
    paths = {
        "/a": {
            "servers": [{"url": "https://path.example"}],
            "get": operation("of_path"),
            "put": operation("own", servers=[{"url": "https://operation.example"}]),
        },
        "/b": {"get": operation("of_document")},
    }
    whole = {**document(paths), "servers": servers}
    found = imported(whole, document_url="https://docs.example/specs/openapi.json")
    assert {tool.tool_id: tool.api.base_url for tool in found.tools} == {
        "of_path": "https://path.example",
        "own": "https://operation.example",
        "of_document": expected,
    }


def test_a_get_operation_whose_body_must_be_given_is_skipped() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert "none is sent with GET" in reason_of(operation(requestBody=body(schema)))
    found = import_of(operation(requestBody=body(schema, required=False)), method="delete")
    assert found.tools[0].input_fields == {}
    assert found.warnings == ["DELETE /things: its body is left out: none is sent with DELETE"]
