"""Tools come in and go out, many at once: as they are shown, and as OpenAPI documents (W-01)."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
import yaml
from fastapi import FastAPI

from tests.api.routes.tool_bodies import KEY, config, created, stored
from tests.fixtures.app_server import AppServer
from tests.fixtures.shop_api import ShopApi, shop_api
from tests.servers.registry.openapi_bombs import ONE_OPERATION, STILL_TOOLS, WHOLE
from toolweave.api.routes.tools import MAX_IMPORTS, run_in_import_thread

SERVER_ENV = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1", "TOOLWEAVE_TOOL_ENV": "TOOL_*"}
YAML = {"content-type": "application/yaml"}


@pytest.fixture(scope="module")
def shop() -> Iterator[ShopApi]:
    with shop_api() as shop:
        yield shop


def document(title: str, paths: dict[str, Any], **more: Any) -> dict[str, Any]:
    info = {"title": title, "version": "1"}
    return {"openapi": "3.1.0", "info": info, "servers": [{"url": "https://api.example.org"}], "paths": paths, **more}


def operation(operation_id: str, **more: Any) -> dict[str, Any]:
    return {"get": {"operationId": operation_id, "summary": "Get it", "responses": {}, **more}}


async def test_an_export_is_imported_unchanged(http: httpx.AsyncClient, app_server: AppServer) -> None:
    tools = [
        await created(http, auth={**KEY, "value": "s3cret"}),
        await created(http, headers={"X-Token": "{env:TOOL_A}"}),
    ]
    export = await http.get("/tools/export")
    assert export.headers["content-disposition"] == 'attachment; filename="tools.json"'
    assert [tool for tool in tools if tool not in export.json()["tools"]] == []
    before = await stored(app_server, tools[0]["tool_id"])
    answer = await http.post("/tools/import", json={**export.json(), "on_conflict": "replace"})
    assert answer.status_code == 201
    assert answer.json()["tools"] == export.json()["tools"]
    assert (answer.json()["created"], len(answer.json()["replaced"])) == ([], len(export.json()["tools"]))
    assert await stored(app_server, tools[0]["tool_id"]) == before
    assert (await http.get("/tools/export")).json() == export.json()


async def test_deleted_tools_are_imported_from_an_export_once_their_secrets_are_sent(http: httpx.AsyncClient) -> None:
    plain, secret = await created(http), await created(http, auth={**KEY, "value": "s3cret"})
    for tool in (plain, secret):
        assert (await http.delete(f"/tools/{tool['tool_id']}")).status_code == 204
    answer = await http.post("/tools/import", json={"tools": [plain, secret]})
    assert answer.status_code == 422
    assert [problem["loc"] for problem in answer.json()["detail"]] == [["body", "tools", 1, "api", "auth", "value"]]
    assert (await http.get(f"/tools/{plain['tool_id']}")).status_code == 404, "all or none"
    secret["api"]["auth"]["value"] = "written anew"
    answer = await http.post("/tools/import", json={"tools": [plain, secret]})
    assert (answer.status_code, answer.json()["created"]) == (201, [plain["tool_id"], secret["tool_id"]])
    assert answer.json()["tools"][0] == plain


async def test_taken_ids_are_refused_skipped_or_replaced_on_request(http: httpx.AsyncClient) -> None:
    old, new = await created(http), config()
    changed = {**old, "name": "Changed"}
    refused = await http.post("/tools/import", json={"tools": [changed, new]})
    assert refused.status_code == 409
    assert old["tool_id"] in refused.json()["detail"]
    assert (await http.get(f"/tools/{new['tool_id']}")).status_code == 404
    skipped = (await http.post("/tools/import", json={"tools": [changed, new], "on_conflict": "skip"})).json()
    assert (skipped["created"], skipped["replaced"], [tool["tool_id"] for tool in skipped["tools"]]) == (
        [new["tool_id"]],
        [],
        [new["tool_id"]],
    )
    assert skipped["skipped"] == [
        {"operation": "GET /weather/{city}", "reason": "there is a tool of this tool_id already"}
    ]
    assert (await http.get(f"/tools/{old['tool_id']}")).json() == old
    replaced = (await http.post("/tools/import", json={"tools": [changed], "on_conflict": "replace"})).json()
    assert (replaced["created"], replaced["replaced"], replaced["tools"]) == ([], [old["tool_id"]], [changed])


async def test_one_wrong_tool_refuses_all_and_is_named_by_its_place(http: httpx.AsyncClient) -> None:
    good = config()
    tools = [good, config(method="FLY"), config(auth={"type": "bearer", "value": "{env:HOME}"}), config()]
    answer = await http.post("/tools/import", json={"tools": tools})
    assert answer.status_code == 422
    assert [problem["loc"][:3] for problem in answer.json()["detail"]] == [["body", "tools", 1]]
    del tools[1]
    answer = await http.post("/tools/import", json={"tools": tools})
    assert [problem["loc"][:3] for problem in answer.json()["detail"]] == [["body", "tools", 1]]
    twice = await http.post("/tools/import", json={"tools": [good, good]})
    assert (twice.status_code, good["tool_id"] in twice.json()["detail"]) == (409, True)
    assert (await http.get(f"/tools/{good['tool_id']}")).status_code == 404


@pytest.mark.parametrize(
    "body", [b"{}", b'{"tools": []}', b'{"tools": {}}', b"[]", b'{"tools": [1]}', b'{"tools": [{}], "x": 1}']
)
async def test_a_body_that_is_no_export_is_422(http: httpx.AsyncClient, body: bytes) -> None:
    answer = await http.post("/tools/import", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, bool(answer.json()["detail"])) == (422, True)


@pytest.mark.requirement("W-01")
async def test_an_openapi_document_becomes_a_tool_for_each_operation(http: httpx.AsyncClient, shop: ShopApi) -> None:
    answer = await http.post("/tools/import/openapi", params={"prefix": "json_"}, json=shop.document)
    assert answer.status_code == 201, answer.text
    imported = answer.json()
    assert len(imported["tools"]) >= 12
    assert imported["created"] == [tool["tool_id"] for tool in imported["tools"]]
    assert (imported["skipped"], imported["replaced"]) == ([], [])
    tool = (await http.get("/tools/json_search_products")).json()
    assert tool in imported["tools"]
    assert (tool["api"]["base_url"], tool["api"]["path"], tool["api"]["method"]) == (shop.url, "/products", "GET")
    assert {"q", "category", "max_price"} <= tool["input_schema"]["properties"].keys()
    guarded = (await http.get("/tools/json_create_product")).json()
    assert guarded["api"]["auth"]["name"] == "X-Api-Key"
    assert guarded["api"]["auth"]["value"].startswith("{env:TOOL_CORNER_SHOP")


@pytest.mark.parametrize("way", ["raw yaml", "yaml in an object", "object", "url", "url of yaml"])
async def test_a_document_comes_as_yaml_in_an_object_or_from_a_url(
    http: httpx.AsyncClient, shop: ShopApi, way: str
) -> None:
    prefix, text = f"w{uuid4().hex[:8]}_", yaml.safe_dump(shop.document)
    requests: dict[str, dict[str, Any]] = {
        "raw yaml": {"content": text, "headers": YAML, "params": {"prefix": prefix, "operations": "get_*"}},
        "yaml in an object": {"json": {"document": text, "prefix": prefix, "operations": ["get_*"]}},
        "object": {"json": {"document": shop.document, "operations": ["get_*"]}, "params": {"prefix": prefix}},
        "url": {"json": {"url": f"{shop.url}/openapi.json", "prefix": prefix, "operations": ["get_*"]}},
        "url of yaml": {"json": {"url": f"{shop.url}/openapi.json#x", "prefix": prefix, "operations": ["get_*"]}},
    }
    answer = await http.post("/tools/import/openapi", **requests[way])
    assert answer.status_code == 201, answer.text
    ids = answer.json()["created"]
    assert f"{prefix}get_product" in ids
    assert [tool_id for tool_id in ids if not tool_id.startswith(f"{prefix}get_")] == []
    assert {tool["api"]["base_url"] for tool in answer.json()["tools"]} == {shop.url}


async def test_an_operation_with_a_forbidden_variable_is_skipped(http: httpx.AsyncClient) -> None:
    paths = {"/a": operation(f"a_{uuid4().hex}")}
    body = {"document": document("T", paths), "auth": {"type": "bearer", "value": "{env:HOME}"}}
    imported = (await http.post("/tools/import/openapi", json=body)).json()
    assert (imported["tools"], imported["created"]) == ([], [])
    assert "HOME" in imported["skipped"][0]["reason"]
    hidden = {**body, "auth": {"type": "bearer", "value": "***"}}
    imported = (await http.post("/tools/import/openapi", json=hidden)).json()
    assert (imported["created"], "***" in imported["skipped"][0]["reason"]) == ([], True)


async def test_a_credential_for_the_whole_document_is_stored_and_hidden(
    http: httpx.AsyncClient, app_server: AppServer
) -> None:
    name = f"a_{uuid4().hex}"
    body = {"document": document("T", {"/a": operation(name)}), "auth": {"type": "bearer", "value": "s3cret"}}
    answer = await http.post("/tools/import/openapi", json=body)
    assert ("s3cret" in answer.text, "***" in answer.text) == (False, True)
    assert (await stored(app_server, name))["api"]["auth"]["value"] == "s3cret"
    assert "s3cret" not in (await http.get("/tools/export")).text


async def test_an_import_again_is_refused_skipped_or_replaces(http: httpx.AsyncClient) -> None:
    name = f"again_{uuid4().hex}"
    first, second = (document("T", {"/a": operation(name, description=text)}) for text in ("One.", "Two."))
    statuses = []
    for body, on_conflict in ((first, "error"), (second, "error"), (second, "skip"), (second, "replace")):
        answer = await http.post("/tools/import/openapi", params={"on_conflict": on_conflict}, json=body)
        described = (await http.get(f"/tools/{name}")).json()["description"]
        statuses.append((answer.status_code, "Two." in described))
    assert statuses == [(201, False), (409, False), (201, False), (201, True)]


@pytest.mark.requirement("W-01")
async def test_operations_of_fastapi_are_named_after_functions_and_keep_their_ids(http: httpx.AsyncClient) -> None:
    first, second = FastAPI(servers=[{"url": "https://a.example"}]), FastAPI(servers=[{"url": "https://a.example"}])
    for path in ("/pets/one", "/shops/one"):
        first.add_api_route(path, lambda: None, name="read_one")
    first.add_api_route("/pets", lambda: None, name="add_pet", methods=["POST"], tags=["writing"])
    first.add_api_route("/old", lambda: None, name="old_one")
    second.add_api_route("/v2/pets", lambda: None, name="add_pet", methods=["POST"])
    prefix = f"p{uuid4().hex[:8]}_"
    await created(http, tool_id=f"{prefix}old_one_old_get", path="/old", input_schema={"type": "object"})
    url, ids = f"/tools/import/openapi?on_conflict=replace&prefix={prefix}", []
    for app in (first, first, second):
        tools = (await http.post(url, json=app.openapi())).json()["tools"]
        ids.append([tool["tool_id"].removeprefix(prefix) for tool in tools])
    expected = ["read_one_pets_one_get", "read_one_shops_one_get", "add_pet", "old_one_old_get"]
    assert ids == [expected, expected, ["add_pet_v2_pets_post"]]
    assert (await http.get(f"/tools/{prefix}add_pet")).json()["tags"] == ["writing"]


@pytest.mark.parametrize(
    ("url", "status", "reason"),
    [
        ("http://169.254.169.254/latest/meta-data", 422, "TOOLWEAVE_OUTBOUND_ALLOW"),
        ("file:///etc/passwd", 422, "http"),
        ("https://ann:pw@example.org/", 422, "credentials"),
        ("http://127.0.0.1:9/openapi.json", 502, "connection"),
        ("{shop}/nowhere", 502, "404"),
        ("{shop}/products", 422, "OpenAPI"),
    ],
)
async def test_a_document_is_fetched_under_the_outbound_policy(
    http: httpx.AsyncClient, shop: ShopApi, url: str, status: int, reason: str
) -> None:
    answer = await http.post("/tools/import/openapi", json={"url": url.replace("{shop}", shop.url)})
    assert (answer.status_code, reason.lower() in answer.text.lower()) == (status, True), answer.text


@pytest.mark.parametrize("shape", ONE_OPERATION)
async def test_an_operation_whose_references_expand_without_end_is_skipped(http: httpx.AsyncClient, shape: str) -> None:
    importing = asyncio.create_task(http.post("/tools/import/openapi", json=ONE_OPERATION[shape]))
    assert (await http.get("/tools")).is_success
    answer = await importing
    assert (answer.status_code, answer.json()["tools"]) == (201, [])
    (skipped,) = answer.json()["skipped"]
    assert skipped["operation"] == "POST /x0"
    assert " more than " in skipped["reason"] or "points to nothing" in skipped["reason"]


@pytest.mark.parametrize("shape", STILL_TOOLS)
async def test_an_operation_with_a_bounded_schema_becomes_a_small_tool(http: httpx.AsyncClient, shape: str) -> None:
    answer = await http.post("/tools/import/openapi", params={"on_conflict": "replace"}, json=STILL_TOOLS[shape])
    assert (answer.status_code, len(answer.json()["tools"])) == (201, 1)
    assert len(answer.content) < 50_000


@pytest.mark.parametrize(
    "shape", [pytest.param(shape, marks=[] if shape == "path items" else pytest.mark.slow) for shape in WHOLE]
)
async def test_a_document_whose_operations_are_too_much_together_is_422_with_what_to_do(
    http: httpx.AsyncClient, shape: str
) -> None:
    importing = asyncio.create_task(http.post("/tools/import/openapi", json=WHOLE[shape], timeout=120))
    assert (await http.get("/tools")).is_success
    answer = await importing
    assert answer.status_code == 422, answer.text[:500]
    assert "more than 6,000,000 steps" in answer.json()["detail"]
    assert re.search(r"so far up to ([A-Z]+ /|its paths:)", answer.json()["detail"])
    assert "chosen by `operations` or `tags`" in answer.json()["detail"]


@pytest.mark.slow
async def test_eight_endless_documents_at_once_delay_no_other_request(http: httpx.AsyncClient) -> None:
    endless = ONE_OPERATION["properties behind chains"]
    importing = [asyncio.create_task(http.post("/tools/import/openapi", json=endless)) for _ in range(8)]
    assert (await created(http))["tool_id"]
    assert {answer.status_code for answer in await asyncio.gather(*importing)} == {201}


async def test_an_import_is_refused_while_twenty_others_wait(http: httpx.AsyncClient) -> None:
    ended = threading.Event()
    waiting = [asyncio.create_task(run_in_import_thread(ended.wait, 60)) for _ in range(MAX_IMPORTS)]
    await asyncio.sleep(0)
    refused = await http.post("/tools/import/openapi", json=ONE_OPERATION["a long pointer"])
    ended.set()
    await asyncio.gather(*waiting)
    assert (refused.status_code, refused.json()["detail"]) == (
        503,
        "20 imports of tools are waiting already. Try again later.",
    )
    assert (await http.post("/tools/import/openapi", json=ONE_OPERATION["a long pointer"])).status_code == 201


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"", {}),
        (b"{}", {}),
        (b"openapi: 3.1.0\npaths: {}\nopenapi: 3.0.0", YAML),
        (b'{"swagger": "2.0", "paths": {}}', {}),
        (b'{"document": {}, "url": "http://example.org"}', {}),
        (b'{"document": "x", "unknown": 1}', {}),
        (b'{"document": {"openapi": "3.1.0", "paths": {}}, "base_url": ""}', {}),
        (b'{"document": {"openapi": "3.1.0", "paths": {}}, "auth": {"type": "bearer"}}', {}),
        (b'{"document": {"openapi": "3.1.0", "paths": {}}, "prefix": "../"}', {}),
    ],
)
async def test_a_body_that_is_no_document_is_422(http: httpx.AsyncClient, body: bytes, headers: dict[str, str]) -> None:
    answer = await http.post("/tools/import/openapi", content=body, headers=headers)
    assert (answer.status_code, bool(answer.json()["detail"])) == (422, True), answer.text


@pytest.mark.parametrize("params", [{"prefix": "a b"}, {"on_conflict": "maybe"}, {"unknown": "1"}])
async def test_an_unknown_choice_is_422(http: httpx.AsyncClient, params: dict[str, str]) -> None:
    answer = await http.post("/tools/import/openapi", params=params, json=document("T", {"/a": operation("never")}))
    assert answer.status_code == 422
    assert (await http.get("/tools/never")).status_code == 404


async def test_a_document_of_many_operations_delays_no_other_request(http: httpx.AsyncClient) -> None:
    prefix = f"op{uuid4().hex[:8]}_"
    schema = {"type": "object", "properties": {f"f{number}": {"type": "string"} for number in range(20)}}
    body = {"requestBody": {"content": {"application/json": {"schema": schema}}}}
    paths = {f"/p{number}": {"post": {"operationId": f"{prefix}{number}", **body}} for number in range(100)}
    importing = asyncio.create_task(http.post("/tools/import/openapi", content=json.dumps(document("T", paths))))
    lives = [(await http.get("/health/live")).status_code for _ in range(5)]
    answer = await importing
    assert (answer.status_code, len(answer.json()["created"]), lives) == (201, 100, [200] * 5)


@pytest.mark.slow
async def test_others_are_answered_while_large_tools_are_read(http: httpx.AsyncClient) -> None:
    fields = {f"field_{number}": {"type": "string", "maxLength": 100} for number in range(300)}
    schema = {"type": "object", "properties": {"city": {"type": "string"}, **fields}}
    tools = [config(input_schema=schema) for _ in range(12)]
    importing = asyncio.create_task(http.post("/tools/import", json={"tools": tools}))
    answered = 0
    while not importing.done():
        assert (await http.get("/tools", params={"limit": 1})).status_code == 200
        answered += 1
    assert (await importing).status_code == 201
    assert answered >= 10
