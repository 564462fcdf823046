"""POST /workflow turns an instruction into one request to a registered API, and always says what came of it (W-02)."""

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
from tests.api.routes.tool_bodies import config
from tests.fixtures.app_server import AppProcess, serve_in_thread
from tests.fixtures.shop_api import SHOP_KEY, ShopApi, shop_api
from toolweave.nodes.workflow.state import WorkflowOutput

SERVER_ENV = {
    "TOOLWEAVE_MODEL": "offline",
    "TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1",
    "TOOL_SHOP_KEY": SHOP_KEY,
}
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
    """Serve the shop, with its tools and one that converts money registered."""
    with shop_api() as shop, httpx.Client(base_url=server.url, timeout=60) as http:
        tools = [tool.model_dump(mode="json") for tool in shop.tools()]
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
        answer = http.post("/tools/import", json={"tools": [*tools, convert, wait]})
        assert answer.status_code == 201, answer.text
        yield shop


async def run(http: httpx.AsyncClient, instructions: str, *tool_ids: str, **more: Any) -> dict[str, Any]:
    answer = await http.post("/workflow", json={"user_instructions": instructions, "tool_ids": tool_ids, **more})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    assert told.keys() == KEYS
    return told


async def threads(http: httpx.AsyncClient) -> int:
    count: int = (await http.post("/threads/count", json={})).json()
    return count


@pytest.mark.requirement("W-02")
async def test_an_instruction_becomes_a_request_and_its_answer(http: httpx.AsyncClient, shop: ShopApi) -> None:
    before = await threads(http)
    told = await run(http, "Get the product 2", "get_product", "place_order")
    assert (told["status"], told["selected_tool"], told["error"], told["error_stage"]) == (
        "success",
        "Get product",
        None,
        None,
    )
    assert (told["http_spec"]["method"], told["http_spec"]["url"]) == ("GET", f"{shop.url}/products/2")
    assert (told["raw_response"]["status_code"], told["raw_response"]["body"]["id"]) == (200, 2)
    assert told["raw_response"]["execution_time_ms"] > 0
    assert (told["formatted_response"], told["warning"]) == (None, None)
    assert shop.requests[-1].path == "/products/2"
    assert await threads(http) == before, "nothing is left behind"


async def test_the_answer_is_told_in_words_when_that_is_asked_for(http: httpx.AsyncClient, shop: ShopApi) -> None:
    told = await run(http, "Get the product 2", "get_product", format_response=True)
    assert told["raw_response"]["body"]["name"] in told["formatted_response"]
    plain = await run(
        http, "Get the product 2", "get_product", format_response=False, response_format_instructions="In one line"
    )
    assert plain["formatted_response"] is None


async def test_a_credential_goes_to_the_api_and_into_no_answer(http: httpx.AsyncClient, shop: ShopApi) -> None:
    told = await run(http, "Echo the headers", "echo_headers")
    assert shop.requests[-1].headers["x-api-key"] == SHOP_KEY
    assert told["status"] == "success"
    assert SHOP_KEY not in json.dumps(told)


@pytest.mark.requirement("W-03")
async def test_unknown_ids_are_all_named(http: httpx.AsyncClient, shop: ShopApi) -> None:
    count = len(shop.requests)
    told = await run(http, "Get the product 2", "nobody", "get_product", "../etc", "no one")
    assert (told["status"], told["error_stage"], told["http_spec"]) == ("error", "tool_retrieval", None)
    assert [name for name in ("nobody", "../etc", "no one") if name not in told["error"]] == []
    assert "get_product" not in told["error"]
    assert len(shop.requests) == count


async def test_a_wish_that_no_tool_fulfils_is_a_selection_error(http: httpx.AsyncClient, shop: ShopApi) -> None:
    count = len(shop.requests)
    told = await run(http, "Write a poem about the sea", "get_product", "place_order")
    assert (told["status"], told["error_stage"], told["raw_response"]) == ("error", "llm_selection", None)
    assert told["error"]
    assert len(shop.requests) == count


@pytest.mark.requirement("W-02")
async def test_an_api_that_fails_is_an_execution_error_with_its_answer(http: httpx.AsyncClient, shop: ShopApi) -> None:
    told = await run(http, "Get the product 404", "get_product")
    assert (told["status"], told["error_stage"]) == ("error", "api_execution")
    assert (told["raw_response"]["status_code"], "404" in told["error"]) == (404, True)
    told = await run(http, "The warehouse always fails", "always_fails")
    assert (told["error_stage"], told["raw_response"]["status_code"]) == ("api_execution", 500)
    told = await run(http, "Wait for 20 seconds", "slow_answer")
    assert (told["error_stage"], told["raw_response"]) == ("api_execution", None)


@pytest.mark.parametrize(
    "base_url",
    ["http://127.0.0.2:9", "http://[::1]", "http://169.254.169.254", "http://10.1.2.3"],
)
async def test_a_private_host_is_stored_and_refused_only_when_it_is_called(
    http: httpx.AsyncClient, base_url: str
) -> None:
    tool = (await http.post("/tools", json=config(base_url=base_url))).json()
    told = await run(http, 'Get the weather of the city "Berlin"', tool["tool_id"])
    assert (told["status"], told["error_stage"], told["raw_response"]) == ("error", "api_execution", None)
    assert "TOOLWEAVE_OUTBOUND_ALLOW" in told["error"]


@pytest.mark.slow
async def test_two_hundred_at_once_get_each_their_own_answer(http: httpx.AsyncClient, shop: ShopApi) -> None:
    before = await threads(http)
    amounts = range(1, 201)
    tools = ("convert_currency", "get_product", "search_products")
    told = await asyncio.gather(*(run(http, f"Convert {amount} from EUR to USD", *tools) for amount in amounts))
    assert [(each["status"], each["error"]) for each in told] == [("success", None)] * 200
    assert [each["raw_response"]["body"]["amount"] for each in told] == [*amounts]
    assert [each["raw_response"]["body"]["result"] for each in told] == [amount * 1.25 for amount in amounts]
    assert await threads(http) == before


async def test_a_client_that_leaves_takes_its_run_with_it(
    server: AppProcess, http: httpx.AsyncClient, shop: ShopApi
) -> None:
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
        ({"user_instructions": None}, ["user_instructions"]),
        ({"user_instructions": 5}, ["user_instructions"]),
        ({"tool_ids": []}, ["tool_ids"]),
        ({"tool_ids": ["x"] * 501}, ["tool_ids"]),
        ({"tool_ids": "get_product"}, ["tool_ids"]),
        ({"tool_ids": [""]}, ["tool_ids", 0]),
        ({"tool_ids": [5]}, ["tool_ids", 0]),
        ({"tool_ids": ["x" * 201]}, ["tool_ids", 0]),
        ({"format_response": "yes"}, ["format_response"]),
        ({"format_response": 1}, ["format_response"]),
        ({"format_response": None}, ["format_response"]),
        ({"response_format_instructions": "x" * 20_001}, ["response_format_instructions"]),
        ({"response_format_instructions": {}}, ["response_format_instructions"]),
        ({"unknown": "x"}, ["unknown"]),
    ],
)
async def test_a_wrong_field_is_422_and_named(http: httpx.AsyncClient, wrong: dict[str, Any], place: list[Any]) -> None:
    answer = await http.post("/workflow", json=BODY | wrong)
    assert (answer.status_code, answer.json()["detail"][0]["loc"]) == (422, ["body", *place])
    assert len(answer.content) < 1_000


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"{}",
        b"[" * 100_000,
        json.dumps(BODY).encode("utf-16"),
        json.dumps(BODY).encode()[:-1] + b', "tool_ids": ["place_order"]}',
        b'{"tool_ids": ["get_product"], "user_instructions": "\xff"}',
        rb'{"tool_ids": ["get_product"], "user_instructions": "\ud800"}',
    ],
)
async def test_a_body_that_is_no_request_is_422(http: httpx.AsyncClient, body: bytes) -> None:
    answer = await http.post("/workflow", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, bool(answer.json()["detail"])) == (422, True)


@pytest.mark.parametrize("path", ["/workflow", "/tools", "/chat/stream"])
async def test_json_that_is_not_called_json_is_422_and_the_header_is_named(http: httpx.AsyncClient, path: str) -> None:
    for headers in ({"content-type": "application/x-www-form-urlencoded"}, {"content-type": "text/plain"}, {}):
        answer = await http.post(path, content=json.dumps(BODY), headers=headers)
        assert (answer.status_code, "content-type: application/json" in answer.json()["detail"]) == (422, True)
    answer = await http.post(
        "/workflow", content=b"[]", headers={"content-type": "application/vnd.x+json; charset=utf-8"}
    )
    assert answer.json()["detail"][0]["loc"] == ["body"]


@pytest.mark.parametrize(
    "text", ["\x00", "💥" * 20_000, "{env:TOOL_SHOP_KEY}", "Get product 2\r\nHost: evil", "../" * 500]
)
async def test_odd_instructions_are_answered(http: httpx.AsyncClient, shop: ShopApi, text: str) -> None:
    told = await run(http, text, "get_product", "search_products")
    assert SHOP_KEY not in json.dumps(told)


async def test_instructions_and_ids_as_long_as_they_may_be_are_answered(http: httpx.AsyncClient, shop: ShopApi) -> None:
    told = await run(http, "x " * 50_000, *[f"{number}".rjust(200, "x") for number in range(500)])
    assert (told["error_stage"], "499" in told["error"]) == ("tool_retrieval", True)


async def test_the_published_document_describes_the_request_and_the_answer(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    post = document["paths"]["/workflow"]["post"]
    named = post["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert schemas[named]["properties"].keys() == KEYS
    asked = post["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert schemas[asked]["required"] == ["user_instructions", "tool_ids"]
    assert {"get", "put", "delete"} <= document["paths"]["/tools/{tool_id}"].keys()
    assert [name for name in KEYS - {"metadata"} if not schemas[named]["properties"][name].get("description")] == []
    assert [name for name, field in schemas[asked]["properties"].items() if not field.get("description")] == []


async def test_the_published_document_names_what_each_route_refuses_and_leads_nowhere_astray(
    http: httpx.AsyncClient,
) -> None:
    document = (await http.get("/openapi.json")).json()
    ours = {path: routes for path, routes in document["paths"].items() if path.startswith("/tools")}
    told = {
        f"{method} {path}": operation["responses"].keys()
        for path, routes in ours.items()
        for method, operation in routes.items()
    }
    assert [route for route, statuses in told.items() if not {"401", "503"} <= statuses] == []
    json_body = ours["/tools/import/openapi"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert {"document", "url", "auth", "on_conflict"} <= json_body["anyOf"][0]["properties"].keys()
    led_to = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(ours)))
    assert led_to - document["components"]["schemas"].keys() == set()


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
def test_a_graph_that_crashes_or_is_not_there_is_502_and_says_nothing_of_it(tmp_path: Path, graphs: str) -> None:
    (tmp_path / "broken.py").write_text(BROKEN_GRAPH, encoding="utf-8")
    served = {"graphs": {graphs: "./broken.py:graph"}, "http": {"app": "toolweave.api.app:app"}}
    (tmp_path / "langgraph.json").write_text(json.dumps(served), encoding="utf-8")
    with serve_in_thread(tmp_path / "langgraph.json", tmp_path / "data", {"TOOLWEAVE_MODEL": "offline"}) as server:
        answer = httpx.post(f"{server.url}/workflow", json=BODY, timeout=60)
    assert answer.status_code == 502
    assert "s3cret" not in answer.text
    assert answer.json()["detail"].startswith("The workflow failed.")


async def test_without_an_api_it_is_503(tmp_path: Path) -> None:
    async with running(configured(tmp_path, {})) as (_, http):
        answer = await http.post("/workflow", json=BODY)
    assert (answer.status_code, answer.json()["detail"].startswith("The workflow cannot be reached")) == (503, True)


async def test_without_its_database_tools_are_503_the_workflow_says_so_and_the_rest_works(
    app_process: AppProcess, tmp_path: Path
) -> None:
    broken = tmp_path / "data" / "tools.db"
    broken.mkdir(parents=True)
    app_process.start()
    async with httpx.AsyncClient(base_url=app_process.url, timeout=60) as http:
        answer = await http.get("/tools")
        assert (answer.status_code, "tools.db" in answer.json()["detail"]) == (503, True)
        told = await run(http, "Get the product 2", "get_product")
        assert (told["status"], told["error_stage"]) == ("error", "tool_retrieval")
        assert (await http.get("/health/live")).status_code == 200
        broken.rmdir()
        created = await http.post("/tools", json=config())
        assert created.status_code == 201, "it is there again as soon as the cause is gone"
        assert (await http.get(f"/tools/{created.json()['tool_id']}")).json() == created.json()
        told = await run(http, "Get the weather", created.json()["tool_id"])
        assert told["error_stage"] != "tool_retrieval"
