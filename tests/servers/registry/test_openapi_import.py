"""What of a document becomes a tool, under which id, and what is said about the rest."""

import json
from typing import Any

import pytest

from tests.fixtures.shop_api import shop_application
from tests.servers.registry.openapi_documents import (
    API,
    answer,
    body,
    document,
    imported,
    operation,
    parameter,
    reason_of,
    request,
    the_tool,
    tool_of,
)
from toolweave.tool_config import ApiAuth


@pytest.fixture(scope="module")
def shop() -> dict[str, Any]:
    return {**shop_application().openapi(), "servers": [{"url": "http://127.0.0.1:8000"}]}


@pytest.mark.requirement("W-01")
def test_every_operation_of_the_shop_becomes_a_tool_without_a_warning(shop: dict[str, Any]) -> None:
    found = imported(json.dumps(shop))
    declared = {one["operationId"] for path_item in shop["paths"].values() for one in path_item.values()}
    assert {tool.tool_id for tool in found.tools} == declared
    assert len(declared) >= 12
    assert (found.skipped, found.warnings) == ([], [])


def test_the_shops_tools_are_as_flat_as_its_operations_allow(shop: dict[str, Any]) -> None:
    tools = {tool.tool_id: tool for tool in imported(shop).tools}

    order = tools["place_order"]
    assert set(order.input_fields) == {"idempotency_key", "customer_id", "items", "note"}
    assert order.required_fields == ("customer_id", "items")
    assert {name: str(place) for name, place in order.field_mappings.request.items()} == {
        "idempotency_key": "header.idempotency-key"
    }
    assert order.output_schema["properties"]["status"]["enum"] == ["pending", "shipped", "delivered", "cancelled"]

    price = tools["update_product_price"]
    assert (price.api.method, price.api.path, set(price.required_fields)) == (
        "PUT",
        "/products/{product_id}/price",
        {"product_id", "price"},
    )
    assert price.api.auth == ApiAuth(
        type="api_key", location="header", name="X-Api-Key", value="{env:TOOL_CORNER_SHOP_API_KEY_HEADER}"
    )
    built = request(price, product_id=7, price=12.5)
    assert (built.url, built.body) == ("http://127.0.0.1:8000/products/7/price", {"price": 12.5})


def test_an_operation_is_described_by_all_that_the_document_says() -> None:
    tool = tool_of(
        operation(
            "getThing",
            summary="Get a thing",
            description="Things are numbered from 1.",
            responses={"200": {"description": "The thing with its parts"}},
        )
    )
    assert tool.name == "Get a thing"
    assert tool.description == "Get a thing\n\nThings are numbered from 1.\n\nReturns: The thing with its parts"


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


def test_tool_ids_are_unique_and_begin_with_the_prefix() -> None:
    long = "x" * 80
    found = imported(
        document({f"/{n}": {"get": operation("same"), "put": operation(long)} for n in range(3)}), prefix="pets-"
    )
    assert [tool.tool_id for tool in found.tools] == [
        *("pets-same", "pets-" + "x" * 59, "pets-same_2"),
        *("pets-" + "x" * 57 + "_2", "pets-same_3", "pets-" + "x" * 57 + "_3"),
    ]


def test_a_deprecated_operation_is_kept_and_says_so() -> None:
    found = imported(document({"/things": {"get": operation(deprecated=True)}}))
    assert "Deprecated" in found.tools[0].description
    assert found.warnings == ["GET /things: it is deprecated"]


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
    nothing = imported(whole, operations=("nope",))
    assert (nothing.tools, nothing.warnings) == ([], ["the document has no operation that you selected"])


def test_a_document_without_operations_gives_none_and_says_so() -> None:
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
                "x-path": {"get": operation()},
            }
        )
    )
    assert [tool.tool_id for tool in found.tools] == ["ok", "delete_broken"]
    reasons = {skipped["operation"]: skipped["reason"] for skipped in found.skipped}
    assert set(reasons) == {
        *("GET /broken", "PUT /broken", "POST /broken", "PATCH /broken", "HEAD /broken", "OPTIONS /broken"),
        *("TRACE /broken", "/broken2", "GET /br oken3", "GET /a/../b"),
    }
    assert "parameter 'x'" in reasons["GET /broken"]
    assert "only JSON is sent" in reasons["POST /broken"]
    assert "dot segments" in reasons["GET /a/../b"]


def test_a_fragment_of_a_path_is_no_part_of_it() -> None:
    assert tool_of(operation(), path="/#Action=List").api.path == "/"


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


def test_an_output_that_cannot_be_read_costs_the_output_and_not_the_tool() -> None:
    for schema in ({"type": "colour"}, {"$ref": "#/components/schemas/None"}, [1]):
        found = imported(document({"/things": {"get": operation(responses=answer(schema))}}))
        assert found.tools[0].output_schema == {}
        assert "no output_schema" in found.warnings[0]


def test_auth_for_all_replaces_what_the_document_wants() -> None:
    auth = ApiAuth(type="bearer", value="{env:TOOL_MINE}")
    raw = operation(security=[{"nowhere": []}], requestBody=body({"type": "object", "properties": {"a": {}}}))
    tool = the_tool(document({"/things": {"post": raw}}), auth=auth, base_url="http://localhost:1/x")
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
        ([{"url": "//cdn.example/x"}], "https://cdn.example/x"),
        ([], "https://docs.example"),
    ],
)
def test_the_first_server_is_the_base_url(servers: list[Any], expected: str) -> None:
    whole = {**document({"/things": {"get": operation()}}), "servers": servers}
    assert the_tool(whole, document_url="https://docs.example/specs/openapi.json").api.base_url == expected


def test_servers_of_a_path_and_of_an_operation_win() -> None:
    whole = document(
        {
            "/a": {
                "servers": [{"url": "https://path.example"}],
                "get": operation("a"),
                "put": operation("b", servers=[{"url": "https://operation.example"}]),
            },
            "/b": {"get": operation("c")},
        }
    )
    urls = {tool.tool_id: tool.api.base_url for tool in imported(whole).tools}
    assert urls == {"a": "https://path.example", "b": "https://operation.example", "c": API}


def test_a_get_operation_whose_body_must_be_given_is_skipped() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert "none is sent with GET" in reason_of(operation(requestBody=body(schema)))
    found = imported(document({"/things": {"delete": operation(requestBody=body(schema, required=False))}}))
    assert found.tools[0].input_fields == {}
    assert found.warnings == ["DELETE /things: its body is left out: none is sent with DELETE"]
