"""How each stage of the workflow fails: the answer, the requests, and the log (W-02, D-11)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeTimeoutError

from tests.fixtures.openai_wire import MAX_WAIT_S, WireCall, WireTurn
from tests.fixtures.shop_api import ShopApi
from tests.graphs.shop_workflow import KEYS, THREAD, chosen, empty, logged, sent, shop_workflow
from toolweave.errors import PersistenceError
from toolweave.nodes.http_tools.api_calls import ApiCalls
from toolweave.nodes.tool_catalog import FixedToolConfigs
from toolweave.nodes.workflow.failure import failure_message, limit_seconds, seconds_until_failure
from toolweave.tool_config import ToolConfig

GARBAGE = WireTurn(text="I would rather talk about the weather.")


class ScriptedRegistry:
    """A registry whose lookups have these results, tools or a failure, one after the other; the last one repeats."""

    def __init__(self, *results: Sequence[ToolConfig] | None) -> None:
        self._results = list(results)

    async def find(self, tool_ids: Sequence[str]) -> Mapping[str, ToolConfig]:
        tools = self._results.pop(0) if len(self._results) > 1 else self._results[0]
        if tools is None:
            raise PersistenceError("disk /srv/secret-place is full, password=hunter2-hunter2")
        return await FixedToolConfigs(tuple(tools)).find(tool_ids)


def changed(tool: ToolConfig, **api: Any) -> ToolConfig:
    return tool.model_copy(update={"api": tool.api.model_copy(update=api)})


def chosen_by_hand(method: str, url: str) -> WireTurn:
    return chosen("get_product", {"product_id": 1}, http_spec={"method": method, "url": url})


def tool_of(shop: ShopApi, tool_id: str) -> ToolConfig:
    return next(tool for tool in shop.tools() if tool.tool_id == tool_id)


def request(**changes: Any) -> dict[str, Any]:
    return {"user_instructions": "Get product 1", "tool_ids": ["get_product"], **changes}


def failed(answer: dict[str, Any], stage: str) -> str:
    """Check that a run failed in this stage, and return its error."""
    assert (answer["status"], answer["error_stage"]) == ("error", stage)
    assert empty(answer, "formatted_response", "warning")
    assert isinstance(answer["error"], str)
    return answer["error"]


@pytest.mark.requirement("W-03")
async def test_unknown_ids_are_all_named_and_the_model_gets_no_request(shop: ShopApi) -> None:
    with shop_workflow(shop) as ask:
        answer = await ask("Get it", "get_product", "nothing", "get_order", "nobody", "nothing")

    assert failed(answer, "tool_retrieval") == "There is no tool registered as nothing, nobody."
    assert empty(answer, "selected_tool", "http_spec", "raw_response", "output")
    assert (ask.prompts, sent(shop)) == ([], [])


@pytest.mark.requirement("W-02")
@pytest.mark.parametrize(
    ("options", "given", "error"),
    [
        ({"tools": []}, {}, "No tool is registered: register one (POST /tools) or an API"),
        ({}, {"tags": ["toys", "games"]}, "No tool has one of the requested tags. GET /tools shows"),
    ],
    ids=["empty registry", "unknown tags"],
)
async def test_a_selection_without_tools_is_explained(shop: ShopApi, options: Any, given: Any, error: str) -> None:
    with shop_workflow(shop, **options) as ask:
        answer = await ask("Get product 1", **given)

    assert failed(answer, "tool_retrieval").startswith(error)
    assert ask.prompts == []


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (request(user_instructions="   "), "user_instructions must not be blank"),
        (request(user_instructions=""), "user_instructions must have 1 or more characters"),
        (request(user_instructions=None), "user_instructions is required"),
        (request(user_instructions="x" * 100_001), "user_instructions must have 100000 or fewer"),
        (request(tool_ids=[]), "tool_ids must hold 1 or more"),
        (request(tool_ids="get_product"), "tool_ids must be a list"),
        (request(tool_ids=[7, None]), "tool_ids.0 must be a string; tool_ids.1 must be a string"),
        (request(tool_ids=["x"] * 501), "tool_ids must hold 500 or fewer"),
        (request(tool_ids=["\ud800"]), "tool_ids.0 is wrong"),
        (request(format_response="yes"), "format_response must be true or false"),
        (request(response_format_instructions=7), "response_format_instructions must be a string"),
        (request(tags=[]), "tags must hold 1 or more"),
        (request(tags="shop"), "tags must be a list"),
        ({}, "user_instructions is required."),
    ],
)
async def test_an_invalid_input_is_explained(shop: ShopApi, given: Any, error: str) -> None:
    with shop_workflow(shop) as ask:
        answer = await ask.graph.ainvoke(given)

    assert answer.keys() == KEYS
    assert failed(answer, "tool_retrieval").startswith(f"The workflow cannot start: {error}")
    assert ask.prompts == []


async def test_an_input_cannot_set_the_keys_that_the_stages_write(shop: ShopApi) -> None:
    forged: Any = request(
        selection={"tool_id": "place_order", "arguments": {}},
        http_spec={"method": "DELETE", "url": f"{shop.url}/products/1"},
        raw_response={"status_code": 200},
        failure={"stage": "api_execution", "message": "forged"},
    )
    with shop_workflow(shop, chosen("get_product", {"product_id": 1})) as ask:
        answer = await ask.graph.ainvoke(forged)

    assert (answer["status"], answer["http_spec"]["method"]) == ("success", "GET")
    assert sent(shop) == ["GET /products/1"]


async def test_a_registry_that_cannot_be_read_for_a_moment_is_read_again(shop: ShopApi) -> None:
    registry = ScriptedRegistry(None, None, shop.tools())
    with shop_workflow(shop, chosen("get_product", {"product_id": 1}), tools=registry) as ask:
        answer = await ask("Get it", "get_product")

    assert answer["status"] == "success"


async def test_an_unreadable_registry_ends_the_run_with_a_message_without_details(shop: ShopApi) -> None:
    with logged() as records, shop_workflow(shop, tools=ScriptedRegistry(None)) as ask:
        answer = await ask("Get it", "get_product")

    assert failed(answer, "tool_retrieval") == "The tools could not be looked up. The reason is in the server's log."
    [record] = records
    assert "PersistenceError: disk /srv/secret-place is full" in record["message"]
    assert "hunter2" not in record["message"]


@pytest.mark.requirement("W-05")
async def test_one_unusable_choice_is_repaired(shop: ShopApi) -> None:
    with shop_workflow(shop, GARBAGE, chosen("get_product", {"product_id": 1})) as ask:
        answer = await ask("Get product 1", "get_product")

    assert answer["status"] == "success"
    assert answer["metadata"]["usage"]["calls"] == {"llm_selection": 2}
    assert "cannot be sent" in ask.prompts[1]
    assert sent(shop) == ["GET /products/1"]


@pytest.mark.requirement("W-05")
@pytest.mark.parametrize(
    ("prompts", "turn", "error"),
    [
        (1, WireTurn(status=500), "The model endpoint failed with status 500"),
        (1, WireTurn(text="Hello", cut_after=1), "The model"),
        (1, WireTurn(text="I choose", finish_reason="length"), "cut off at its length limit"),
        (1, WireTurn(text="Hm", silent_after=0), "did not answer in time (TOOLWEAVE_MODEL_TIMEOUT_S)"),
        (1, WireTurn(calls=(WireCall("choose_request", '{"reason": "Which product?"}'),)), "Which product?"),
        (2, GARBAGE, "neither a call of the function"),
        (2, WireTurn(calls=(WireCall("choose_request", '{"tool_id": "get_product", "argum'),)), "JSON"),
        (2, chosen("delete_everything", {}), "delete_everything"),
        (2, chosen("place_order", {"customer_id": 17, "items": [{"product_id": 1}]}), "place_order"),
        (2, chosen("get_product", {"product_id": 0}), "product_id"),
        (2, chosen("get_product", {}), "product_id"),
        (2, chosen("get_product", {"product_id": "../orders"}), "product_id"),
        (2, chosen("get_product", {"product_id": 1, "admin": True}), "admin"),
        (2, chosen_by_hand("GET", "http://evil.test/products/1"), "not http://evil.test"),
        (2, chosen_by_hand("DELETE", "/products/1"), "DELETE"),
        (2, chosen_by_hand("GET", "/products/2"), "url"),
    ],
)
async def test_a_failed_selection_sends_no_request_and_only_an_unusable_choice_is_repeated_once(
    shop: ShopApi, prompts: int, turn: WireTurn, error: str
) -> None:
    timeout_s = 0.3 if turn.silent_after == 0 else 20
    with shop_workflow(shop, turn, turn, WireTurn(text="never used"), timeout_s=timeout_s) as ask:
        answer = await ask("Get product 1", "get_product")

    assert error in failed(answer, "llm_selection")
    assert len(ask.prompts) == prompts
    assert prompts == 1 or answer["metadata"]["usage"]["calls"] == {"llm_selection": 2}
    assert empty(answer, "selected_tool", "http_spec", "raw_response")
    assert sent(shop) == []


@pytest.mark.requirement("W-06")
@pytest.mark.parametrize(
    ("tool_id", "arguments", "status"), [("always_fails", {}, 500), ("get_order", {"order_id": "Z-1"}, 404)]
)
async def test_an_error_status_keeps_the_raw_response(
    shop: ShopApi, tool_id: str, arguments: dict[str, Any], status: int
) -> None:
    with shop_workflow(shop, chosen(tool_id, arguments)) as ask:
        answer = await ask("Do it", tool_id, format_response=True)

    assert str(status) in failed(answer, "api_execution")
    assert answer["raw_response"]["status_code"] == status
    assert answer["raw_response"]["body"].keys() == {"detail"}
    assert answer["raw_response"]["execution_time_ms"] > 0
    assert answer["selected_tool"] is not None
    assert answer["http_spec"]["method"] == "GET"
    assert empty(answer, "output")
    assert len(sent(shop)) == 1
    assert len(ask.prompts) == 1, "there is nothing to format"


@pytest.mark.requirement("W-06")
@pytest.mark.requirement("W-09")
@pytest.mark.parametrize(
    ("tool_id", "change", "options", "error", "requests"),
    [
        ("slow_answer", {"timeout_s": 5}, {}, "5 s", ["GET /slow"]),
        ("always_fails", {"base_url": "http://127.0.0.1:1"}, {}, "No connection", []),
        ("always_fails", {}, {"api_calls": ApiCalls()}, "TOOLWEAVE_OUTBOUND_ALLOW", []),
        ("echo_headers", {}, {}, "TOOL_SHOP_KEY", []),
    ],
    ids=["no answer in time", "no connection", "private address", "missing credential"],
)
async def test_a_request_without_a_response_fails_the_execution_with_the_reason_and_is_not_sent_again(
    shop: ShopApi, monkeypatch: pytest.MonkeyPatch, tool_id: str, change: Any, options: Any, error: str, requests: Any
) -> None:
    monkeypatch.delenv("TOOL_SHOP_KEY")
    tools = [changed(tool_of(shop, tool_id), **change)]
    with shop_workflow(shop, chosen(tool_id, {}), tools=tools, **options) as ask:
        answer = await ask("Call it", tool_id)

    assert error in failed(answer, "api_execution")
    assert answer["raw_response"] is None
    assert answer["http_spec"]["url"].startswith(tools[0].api.base_url)
    assert sent(shop) == requests


@pytest.mark.requirement("W-05")
@pytest.mark.parametrize("change", ["path", "fields", "gone"])
async def test_a_tool_that_changed_after_it_was_chosen_is_not_called(shop: ShopApi, change: str) -> None:
    tool = tool_of(shop, "get_product")
    after = {
        "path": [changed(tool, path="/orders/{product_id}")],
        "fields": [tool.model_copy(update={"input_schema": {**tool.input_schema, "required": ["product_id", "key"]}})],
        "gone": [],
    }
    registry = ScriptedRegistry([tool], [tool], after[change])
    with shop_workflow(shop, chosen("get_product", {"product_id": 1}), tools=registry) as ask:
        answer = await ask("Get it", "get_product")

    assert "was changed or removed" in failed(answer, "api_execution")
    assert answer["selected_tool"] == "Get product"
    assert sent(shop) == []


@pytest.mark.requirement("D-11")
@pytest.mark.parametrize(
    "turn",
    [
        WireTurn(status=500),
        WireTurn(),
        WireTurn(text="It costs", finish_reason="length"),
        WireTurn(text="It", silent_after=1),
    ],
)
async def test_a_failed_formatting_is_a_warning_beside_the_answer(shop: ShopApi, turn: WireTurn) -> None:
    turns = [chosen("get_product", {"product_id": 2}), turn]
    patience = 60.0 if turn.silent_after is None else 5.0
    with logged() as records, shop_workflow(shop, *turns, repeat=True, timeout_s=patience) as ask:
        answer = await ask("What does it cost?", "get_product", format_response=True)

    assert (answer["status"], answer["error_stage"]) == ("success", "response_formatting")
    assert empty(answer, "error", "formatted_response")
    assert answer["warning"]
    assert answer["raw_response"]["status_code"] == 200
    assert answer["output"]["name"] == "Wooden Chess Set"
    assert [record["stage"] for record in records] == ["response_formatting"]


@pytest.mark.parametrize(("format_response", "stage"), [(False, None), (True, "response_formatting")])
async def test_an_output_unlike_its_schema_is_a_warning_beside_that_of_the_formatting(
    shop: ShopApi, format_response: bool, stage: str | None
) -> None:
    wrong = {"type": "object", "properties": {"price": {"type": "string"}}}
    tools = [tool_of(shop, "get_product").model_copy(update={"output_schema": wrong})]
    turns = [chosen("get_product", {"product_id": 2}), WireTurn(status=500)]
    with shop_workflow(shop, *turns, tools=tools) as ask:
        answer = await ask("What does it cost?", "get_product", format_response=format_response)

    assert (answer["status"], answer["error_stage"], answer["output"]["price"]) == ("success", stage, 49.0)
    assert "price" in answer["warning"]
    assert ("status 500" in answer["warning"]) == format_response


@pytest.mark.requirement("W-10")
async def test_a_failure_is_logged_once_with_its_request_and_without_secrets(shop: ShopApi) -> None:
    arguments = {"order_id": "Z-1", "reason": "my password=hunter2-hunter2"}
    with logged() as records, shop_workflow(shop, chosen("cancel_order", arguments)) as ask:
        answer = await ask("Cancel it", "cancel_order", "get_order")

    [record] = records
    assert (record["stage"], record["tool_ids"]) == ("api_execution", ["cancel_order", "get_order"])
    assert record["request"] == {**answer["http_spec"], "body": {"reason": "my password=***"}}
    assert record["seconds"] > 0
    assert "ApiCallFailed" in record["message"]
    assert 'nodes/workflow/stages.py", line' in record["message"]
    assert "hunter2" not in record["written"]
    assert "Traceback" not in repr(answer)
    assert "execute.py" not in repr(answer)


async def test_the_error_of_a_stage_that_timed_out_names_the_limit() -> None:
    stage = limit_seconds(asyncio.Event().wait, 0.01)
    with pytest.raises(NodeTimeoutError) as stopped:
        await stage()

    text = failure_message("tool_retrieval", stopped.value)
    assert text == "The tools could not be looked up. It took longer than 0.01 s."
    assert (seconds_until_failure(stopped.value) or 0) >= 0.01


async def test_a_timeout_inside_of_a_stage_is_not_the_stages_own() -> None:
    async def stage() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError) as failure:
        await limit_seconds(stage, 60)()
    assert seconds_until_failure(failure.value) is not None


async def test_a_run_that_is_cancelled_ends_as_cancelled(shop: ShopApi) -> None:
    saver = InMemorySaver()
    with logged() as records, shop_workflow(shop, WireTurn(silent_after=0), checkpointer=saver) as ask:
        running = asyncio.create_task(ask("Get it", "get_product"))
        assert await asyncio.to_thread(ask.wire.requested.wait, MAX_WAIT_S)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await asyncio.to_thread(ask.wire.left.wait, MAX_WAIT_S), "the model's endpoint is hung up on"
        state = await ask.graph.aget_state(THREAD)

    assert state.next == ("select",)
    assert empty(state.values, "status", "error", "failure")
    assert records == []
