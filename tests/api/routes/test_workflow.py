"""POST /workflow turns an instruction into one request to a registered API and returns its outcome (W-02)."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.api.routes.conftest import serve_ours
from tests.api.routes.lifespans import configured, running
from tests.api.routes.tool_bodies import config, created
from tests.fixtures.app_server import AppProcess, serve_in_thread
from tests.fixtures.shop_api import SHOP_KEY, ShopApi, shop_api
from toolweave.nodes.workflow.state import WorkflowOutput

SERVER_ENV = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1", "TOOL_SHOP_KEY": SHOP_KEY}
KEYS = set(WorkflowOutput.__annotations__)
BOUND_S = 60.0
MONEY = {"type": "string", "enum": ["EUR", "USD", "GBP", "JPY", "CHF", "SEK"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppProcess]:
    """Serve in a process of its own: the served graphs read their settings once in each process."""
    with serve_ours(tmp_path_factory.mktemp("data"), SERVER_ENV) as process:
        yield process


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(server: AppProcess) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def shop(server: AppProcess) -> Iterator[ShopApi]:
    """Serve the shop; register its tools, those of its OpenAPI document, and one that converts money."""
    with shop_api() as shop, httpx.Client(base_url=server.url, timeout=60) as http:
        tools = [tool.model_dump(mode="json") for tool in shop.tools()]
        imported = [tool.model_dump(mode="json") | {"tool_id": f"doc_{tool.tool_id}"} for tool in shop.imported()]
        convert = {
            "tool_id": "convert_currency",
            "name": "Convert currency",
            "description": "Convert an amount of money into another currency.",
            "api": {"base_url": shop.url, "path": "/currency/convert", "method": "GET"},
            "input_schema": {
                "type": "object",
                "properties": {"amount": {"type": "number"}, "from": MONEY, "to": MONEY},
                "required": ["amount", "from", "to"],
            },
        }
        wait = {**next(tool for tool in tools if tool["tool_id"] == "slow_answer"), "tool_id": "very_slow"}
        wait["api"] = {**wait["api"], "timeout_s": 100}
        answer = http.post("/tools/import", json={"tools": [*tools, *imported, convert, wait]})
        assert answer.status_code == 201, answer.text
        yield shop


async def run(http: httpx.AsyncClient, instructions: str, *tool_ids: str, **more: Any) -> dict[str, Any]:
    ids = {"tool_ids": tool_ids} if tool_ids else {}
    response = await http.post("/workflow", json={"user_instructions": instructions, **ids, **more})
    assert response.status_code == 200, response.text
    output: dict[str, Any] = response.json()
    assert output.keys() == KEYS
    return output


async def threads(http: httpx.AsyncClient) -> int:
    count: int = (await http.post("/threads/count", json={})).json()
    return count


@pytest.mark.requirement("W-02")
async def test_an_instruction_becomes_a_request_and_its_response(http: httpx.AsyncClient, shop: ShopApi) -> None:
    before = await threads(http)
    output = await run(http, "Get the product 2", "get_product", "place_order")
    expected = {"status": "success", "selected_tool": "Get product", "error": None, "error_stage": None}
    expected |= {"formatted_response": None, "warning": None}
    assert output.items() >= expected.items()
    assert (output["http_spec"]["method"], output["http_spec"]["url"]) == ("GET", f"{shop.url}/products/2")
    assert (output["raw_response"]["status_code"], output["raw_response"]["body"]["id"]) == (200, 2)
    assert output["raw_response"]["execution_time_ms"] > 0
    assert shop.requests[-1].path == "/products/2"
    assert await threads(http) == before, "the run leaves no thread"


@pytest.mark.requirement("W-02")
@pytest.mark.parametrize(
    ("text", "method", "path", "body"),
    [
        ("Show product 4", "GET", "/products/4", None),
        ("Show me order A-1001", "GET", "/orders/A-1001", None),
        ("Set the price of product 2 to 45 euros", "PUT", "/products/2/price", {"price": 45}),
    ],
)
async def test_the_offline_model_chooses_the_request_of_plain_instructions(
    http: httpx.AsyncClient, shop: ShopApi, text: str, method: str, path: str, body: Any
) -> None:
    shop.clear()
    output = await run(http, text, *[f"doc_{tool.tool_id}" for tool in shop.imported()])
    assert output["status"] == "success"
    assert [(request.method, request.path, request.body) for request in shop.requests] == [(method, path, body)]


@pytest.mark.requirement("W-02")
async def test_without_ids_the_tool_is_found_among_hundreds_also_right_after_a_change(
    http: httpx.AsyncClient, shop: ShopApi
) -> None:
    many = [config(name=f"List invoices of the year {number}") for number in range(300)]
    assert (await http.post("/tools/import", json={"tools": many})).status_code == 201
    found = await run(http, "Convert 8 from EUR to USD")
    assert (found["status"], found["raw_response"]["body"]["result"]) == ("success", 10)
    gizmo = {"name": "Get gizmo", "description": "Get the gizmo.", "input_schema": {}, "tags": ["gizmos"]}
    await created(http, path="/products/2", base_url=shop.url, **gizmo)
    for more in ({}, {"tags": ["gizmos", "others"]}):
        assert (await run(http, "Get the gizmo", **more))["selected_tool"] == "Get gizmo"


async def test_a_credential_is_sent_to_the_api_and_is_not_in_the_response(
    http: httpx.AsyncClient, shop: ShopApi
) -> None:
    output = await run(http, "Echo the headers", "echo_headers")
    assert shop.requests[-1].headers["x-api-key"] == SHOP_KEY
    assert (output["status"], SHOP_KEY in json.dumps(output)) == ("success", False)


@pytest.mark.requirement("W-07")
async def test_the_response_is_formatted_on_request(http: httpx.AsyncClient, shop: ShopApi) -> None:
    output = await run(http, "Get the product 4", "get_product", format_response=True)
    assert "- name: Fountain Pen" in output["formatted_response"]
    assert output["formatted_response"].endswith("(offline model)")
    options = {"format_response": False, "response_format_instructions": "In one line"}
    assert (await run(http, "Get the product 2", "get_product", **options))["formatted_response"] is None


@pytest.mark.requirement("W-02", "W-03")
@pytest.mark.parametrize(
    ("text", "tool_ids", "stage", "problem"),
    [
        ("Get the product 2", ["nobody", "get_product", "../etc"], "tool_retrieval", r"nobody.*\.\./etc"),
        ("Write a poem about the sea", ["get_product", "place_order"], "llm_selection", "."),
        ("Delete the product", ["doc_delete_product"], "llm_selection", "."),
        ("Delete product 4 and all its reviews", ["doc_delete_product"], "llm_selection", "."),
    ],
    ids=["unknown tools", "no tool fits", "an argument is missing", "a part is not covered"],
)
async def test_nothing_is_sent_if_no_request_can_be_chosen(
    http: httpx.AsyncClient, shop: ShopApi, text: str, tool_ids: list[str], stage: str, problem: str
) -> None:
    shop.clear()
    output = await run(http, text, *tool_ids)
    assert (output["status"], output["error_stage"]) == ("error", stage)
    assert (output["http_spec"], output["raw_response"]) == (None, None)
    assert re.search(problem, output["error"])
    assert "get_product" not in output["error"]
    assert shop.requests == []


@pytest.mark.requirement("W-02")
@pytest.mark.parametrize(
    ("text", "tool_id", "status"),
    [
        ("Get the product 404", "get_product", 404),
        ("The warehouse always fails", "always_fails", 500),
        ("Wait for 20 seconds", "slow_answer", None),
    ],
)
async def test_an_api_that_fails_is_an_execution_error_with_its_response(
    http: httpx.AsyncClient, shop: ShopApi, text: str, tool_id: str, status: int | None
) -> None:
    output = await run(http, text, tool_id)
    assert (output["status"], output["error_stage"]) == ("error", "api_execution")
    assert (output["raw_response"] or {}).get("status_code") == status
    assert str(status or "within 0.3 s") in output["error"]


@pytest.mark.parametrize("base_url", ["http://127.0.0.2:9", "http://169.254.169.254"])
async def test_a_private_host_is_stored_and_refused_only_when_it_is_called(
    http: httpx.AsyncClient, base_url: str
) -> None:
    tool = await created(http, base_url=base_url)
    output = await run(http, 'Get the weather of the city "Berlin"', tool["tool_id"])
    assert (output["status"], output["error_stage"], output["raw_response"]) == ("error", "api_execution", None)
    assert "TOOLWEAVE_OUTBOUND_ALLOW" in output["error"]


@pytest.mark.slow
async def test_two_hundred_requests_at_once_get_their_own_responses(http: httpx.AsyncClient, shop: ShopApi) -> None:
    before = await threads(http)
    amounts = range(1, 201)
    tools = ("convert_currency", "get_product", "search_products")
    outputs = await asyncio.gather(*(run(http, f"Convert {amount} from EUR to USD", *tools) for amount in amounts))
    assert [(each["status"], each["error"]) for each in outputs] == [("success", None)] * 200
    assert [each["raw_response"]["body"]["amount"] for each in outputs] == [*amounts]
    assert [each["raw_response"]["body"]["result"] for each in outputs] == [amount * 1.25 for amount in amounts]
    assert await threads(http) == before


async def test_the_run_ends_when_its_client_leaves(server: AppProcess, http: httpx.AsyncClient, shop: ShopApi) -> None:
    before, arrived = await threads(http), len(shop.requests)
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as leaving:
        leaver = asyncio.create_task(run(leaving, "Wait for 95 seconds", "very_slow"))
        async with asyncio.timeout(BOUND_S):
            while len(shop.requests) == arrived:
                assert await threads(http) <= before + 1
        assert await threads(http) == before + 1
        leaver.cancel()
        with suppress(asyncio.CancelledError):
            await leaver
    async with asyncio.timeout(BOUND_S):
        while await threads(http) != before:
            pass


BODY = {"user_instructions": "Get the product 2", "tool_ids": ["get_product"]}


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"user_instructions": ""}, ["user_instructions"]),
        ({"user_instructions": " \n\t\u2003"}, ["user_instructions"]),
        ({"user_instructions": "x" * 100_001}, ["user_instructions"]),
        ({"user_instructions": 5}, ["user_instructions"]),
        ({"tool_ids": []}, ["tool_ids"]),
        ({"tool_ids": ["x"] * 501}, ["tool_ids"]),
        ({"tool_ids": "get_product"}, ["tool_ids"]),
        ({"tool_ids": [""]}, ["tool_ids", 0]),
        ({"tool_ids": ["x" * 201]}, ["tool_ids", 0]),
        ({"tags": []}, ["tags"]),
        ({"tags": [5]}, ["tags", 0]),
        ({"format_response": "yes"}, ["format_response"]),
        ({"format_response": None}, ["format_response"]),
        ({"response_format_instructions": "x" * 20_001}, ["response_format_instructions"]),
        ({"unknown": "x"}, ["unknown"]),
    ],
)
async def test_a_wrong_field_is_422_and_named(http: httpx.AsyncClient, wrong: dict[str, Any], place: list[Any]) -> None:
    answer = await http.post("/workflow", json=BODY | wrong)
    assert (answer.status_code, answer.json()["detail"][0]["loc"]) == (422, ["body", *place])
    assert len(answer.content) < 1_000


@pytest.mark.parametrize("path", ["/workflow", "/tools", "/chat/stream"])
async def test_a_body_that_is_no_json_object_is_422(http: httpx.AsyncClient, path: str) -> None:
    for body in (b"", b"null", b"[]", b"{}", b"{", b"[" * 100_000, b'{"a": 1, "a": 2}', rb'{"message": "\ud800"}'):
        response = await http.post(path, content=body, headers={"content-type": "application/json"})
        assert (response.status_code, bool(response.json()["detail"])) == (422, True)


@pytest.mark.parametrize("path", ["/workflow", "/tools", "/chat/stream"])
async def test_json_with_another_content_type_is_422_and_the_header_is_named(
    http: httpx.AsyncClient, path: str
) -> None:
    for headers in ({"content-type": "application/x-www-form-urlencoded"}, {"content-type": "text/plain"}, {}):
        response = await http.post(path, content=json.dumps(BODY), headers=headers)
        assert (response.status_code, "content-type: application/json" in response.json()["detail"]) == (422, True)
    response = await http.post(path, content=b"[]", headers={"content-type": "application/vnd.x+json; charset=utf-8"})
    assert response.json()["detail"][0]["loc"] == ["body"]


async def test_odd_and_long_instructions_are_answered(http: httpx.AsyncClient, shop: ShopApi) -> None:
    for text in ("\x00", "💥" * 20_000, "{env:TOOL_SHOP_KEY}", "Get product 2\r\nHost: evil"):
        assert SHOP_KEY not in json.dumps(await run(http, text, "get_product", "search_products"))
    output = await run(http, "x " * 50_000, *[f"{number}".rjust(200, "x") for number in range(500)])
    assert (output["error_stage"], "499" in output["error"]) == ("tool_retrieval", True)


async def test_the_published_document_describes_the_request_and_the_response(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    post = document["paths"]["/workflow"]["post"]
    response = post["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert schemas[response]["properties"].keys() == KEYS
    request = post["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert schemas[request]["required"] == ["user_instructions"]
    assert {"get", "put", "delete"} <= document["paths"]["/tools/{tool_id}"].keys()
    assert [name for name in KEYS - {"metadata"} if not schemas[response]["properties"][name].get("description")] == []
    assert [name for name, field in schemas[request]["properties"].items() if not field.get("description")] == []


async def test_the_published_document_names_the_errors_of_each_route_and_resolves_all_references(
    http: httpx.AsyncClient,
) -> None:
    document = (await http.get("/openapi.json")).json()
    ours = {path: routes for path, routes in document["paths"].items() if path.startswith("/tools")}
    statuses = {
        f"{method} {path}": operation["responses"].keys()
        for path, routes in ours.items()
        for method, operation in routes.items()
    }
    assert [route for route, named in statuses.items() if not {"401", "503"} <= named] == []
    json_body = ours["/tools/import/openapi"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert {"document", "url", "auth", "on_conflict"} <= json_body["anyOf"][0]["properties"].keys()
    references = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(ours)))
    assert references - document["components"]["schemas"].keys() == set()


BROKEN_GRAPH = """
from typing import TypedDict

from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    user_instructions: str


def crash(state: State) -> State:
    raise RuntimeError("s3cret in the text of a crash")


graph = StateGraph(State).add_node("crash", crash).add_edge(START, "crash").add_edge("crash", END).compile()
"""


@pytest.mark.parametrize("graphs", ["workflow", "other"])
def test_a_graph_that_crashes_or_is_absent_is_502_without_details(tmp_path: Path, graphs: str) -> None:
    (tmp_path / "broken.py").write_text(BROKEN_GRAPH, encoding="utf-8")
    served = {"graphs": {graphs: "./broken.py:graph"}, "http": {"app": "toolweave.api.app:app"}}
    (tmp_path / "langgraph.json").write_text(json.dumps(served), encoding="utf-8")
    with serve_in_thread(tmp_path / "langgraph.json", tmp_path / "data", {"TOOLWEAVE_MODEL": "offline"}) as server:
        answer = httpx.post(f"{server.url}/workflow", json=BODY, timeout=60)
    assert answer.status_code == 502
    assert "s3cret" not in answer.text
    assert answer.json()["detail"].startswith("The workflow failed.")


async def test_without_an_api_the_workflow_is_503(tmp_path: Path) -> None:
    async with running(configured(tmp_path, {})) as (_, http):
        answer = await http.post("/workflow", json=BODY)
    assert (answer.status_code, answer.json()["detail"].startswith("The workflow cannot be reached")) == (503, True)


async def test_without_the_database_tools_are_503_the_workflow_names_the_stage_and_the_rest_works(
    app_process: AppProcess, tmp_path: Path
) -> None:
    broken = tmp_path / "data" / "tools.db"
    broken.mkdir(parents=True)
    app_process.start()
    async with httpx.AsyncClient(base_url=app_process.url, timeout=60) as http:
        answer = await http.get("/tools")
        assert (answer.status_code, "tools.db" in answer.json()["detail"]) == (503, True)
        output = await run(http, "Get the product 2", "get_product")
        assert (output["status"], output["error_stage"]) == ("error", "tool_retrieval")
        assert (await http.get("/health/live")).status_code == 200
        broken.rmdir()
        tool = await created(http)
        assert (await http.get(f"/tools/{tool['tool_id']}")).json() == tool
        output = await run(http, "Get the weather", tool["tool_id"])
        assert output["error_stage"] != "tool_retrieval"
