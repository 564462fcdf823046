"""How each stage of the workflow fails: what the answer says, what was sent, and what the log keeps (W-02, D-11)."""

import asyncio
import socket
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
from toolweave.nodes.workflow.failure import failure_message, seconds_until_failure
from toolweave.tool_config import ToolConfig

GARBAGE = WireTurn(text="I would rather talk about the weather.")


class ShakyRegistry:
    """A registry that cannot be read so many times."""

    def __init__(self, shop: ShopApi, failures: int) -> None:
        self._tools = FixedToolConfigs(tuple(shop.tools()))
        self.failures = failures

    async def find(self, tool_ids: Sequence[str]) -> Mapping[str, ToolConfig]:
        if self.failures:
            self.failures -= 1
            raise PersistenceError("disk /srv/secret-place is full")
        return await self._tools.find(tool_ids)


class ChangingRegistry:
    """A registry whose tools are others from the third look on: when the request is about to be sent."""

    def __init__(self, before: Sequence[ToolConfig], after: Sequence[ToolConfig]) -> None:
        self._before, self._after = FixedToolConfigs(tuple(before)), FixedToolConfigs(tuple(after))
        self.looks = 0

    async def find(self, tool_ids: Sequence[str]) -> Mapping[str, ToolConfig]:
        self.looks += 1
        return await (self._before if self.looks < 3 else self._after).find(tool_ids)


def changed(tool: ToolConfig, **api: Any) -> ToolConfig:
    return tool.model_copy(update={"api": tool.api.model_copy(update=api)})


def tool_of(shop: ShopApi, tool_id: str) -> ToolConfig:
    return next(tool for tool in shop.tools() if tool.tool_id == tool_id)


def failed(answer: dict[str, Any], stage: str) -> str:
    """Check that an answer tells of a failure of this stage, and give its text."""
    assert (answer["status"], answer["error_stage"]) == ("error", stage)
    assert empty(answer, "formatted_response", "warning")
    assert isinstance(answer["error"], str)
    return answer["error"]


@pytest.mark.requirement("W-03")
async def test_unknown_ids_are_all_named_and_no_model_is_asked(shop: ShopApi) -> None:
    with shop_workflow(shop) as ask:
        answer = await ask("Get it", "get_product", "nothing", "get_order", "nobody", "nothing")

    assert failed(answer, "tool_retrieval") == "There is no tool registered as nothing, nobody."
    assert empty(answer, "selected_tool", "http_spec", "raw_response", "output")
    assert (ask.prompts, sent(shop)) == ([], [])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"user_instructions": "   "}, "user_instructions must not be blank"),
        ({"user_instructions": ""}, "user_instructions must have 1 or more characters"),
        ({"user_instructions": None}, "user_instructions is required"),
        ({"user_instructions": ["get it"]}, "user_instructions must be a string"),
        ({"user_instructions": "x" * 100_001}, "user_instructions must have 100000 or fewer"),
        ({"tool_ids": []}, "tool_ids must hold 1 or more"),
        ({"tool_ids": "get_product"}, "tool_ids must be a list"),
        ({"tool_ids": {"get_product": 1}}, "tool_ids must be a list"),
        ({"tool_ids": [7, None]}, "tool_ids.0 must be a string; tool_ids.1 must be a string"),
        ({"tool_ids": ["x"] * 501}, "tool_ids must hold 500 or fewer"),
        ({"tool_ids": ["\ud800"]}, "tool_ids.0 is wrong"),
        ({"format_response": "yes"}, "format_response must be true or false"),
        ({"response_format_instructions": 7}, "response_format_instructions must be a string"),
    ],
)
async def test_an_input_that_is_none_is_explained(shop: ShopApi, given: dict[str, Any], told: str) -> None:
    wanted: Any = {"user_instructions": "Get it", "tool_ids": ["get_product"], **given}
    with shop_workflow(shop) as ask:
        answer = await ask.graph.ainvoke(wanted)

    assert answer.keys() == KEYS
    assert failed(answer, "tool_retrieval").startswith(f"The workflow cannot start: {told}")
    assert ask.prompts == []


@pytest.mark.parametrize("given", [{}, {"user_instructions": None}, {"question": "What does it cost?"}])
async def test_an_input_without_anything_is_explained(shop: ShopApi, given: Any) -> None:
    with shop_workflow(shop) as ask:
        answer = await ask.graph.ainvoke(given)

    assert failed(answer, "tool_retrieval") == (
        "The workflow cannot start: user_instructions is required; tool_ids is required."
    )


async def test_an_input_cannot_set_what_the_stages_write(shop: ShopApi) -> None:
    forged: Any = {
        "user_instructions": "Get product 1",
        "tool_ids": ["get_product"],
        "selection": {"tool_id": "place_order", "arguments": {}},
        "http_spec": {"method": "DELETE", "url": f"{shop.url}/products/1"},
        "raw_response": {"status_code": 200},
        "failure": {"stage": "api_execution", "message": "forged"},
    }
    with shop_workflow(shop, chosen("get_product", {"product_id": 1})) as ask:
        answer = await ask.graph.ainvoke(forged)

    assert (answer["status"], answer["http_spec"]["method"]) == ("success", "GET")
    assert sent(shop) == ["GET /products/1"]


async def test_a_registry_that_cannot_be_read_for_a_moment_is_asked_again(shop: ShopApi) -> None:
    with shop_workflow(shop, chosen("get_product", {"product_id": 1}), tools=ShakyRegistry(shop, 2)) as ask:
        answer = await ask("Get it", "get_product")

    assert answer["status"] == "success"


async def test_a_registry_that_cannot_be_read_is_told_of_in_plain_words(shop: ShopApi) -> None:
    with logged() as records, shop_workflow(shop, tools=ShakyRegistry(shop, 99)) as ask:
        answer = await ask("Get it", "get_product")

    assert failed(answer, "tool_retrieval") == "The tools could not be looked up. The reason is in the server's log."
    [record] = records
    assert "PersistenceError: disk /srv/secret-place is full" in record["message"]


@pytest.mark.requirement("W-05")
@pytest.mark.parametrize(
    ("turn", "told"),
    [
        (WireTurn(status=500), "The model endpoint failed with status 500"),
        (WireTurn(status=401), "The model endpoint rejected the API key"),
        (WireTurn(text="Hello", cut_after=1), "The model"),
        (WireTurn(text="I choose", finish_reason="length"), "cut off at its length limit"),
        (WireTurn(), "The model returned an empty answer"),
    ],
)
async def test_a_model_that_fails_is_an_error_of_the_selection(shop: ShopApi, turn: WireTurn, told: str) -> None:
    with shop_workflow(shop, turn, repeat=True) as ask:
        answer = await ask("Get product 1", "get_product")

    assert told in failed(answer, "llm_selection")
    assert empty(answer, "selected_tool", "http_spec", "raw_response")
    assert sent(shop) == []


@pytest.mark.requirement("W-05")
async def test_a_model_that_says_nothing_in_time_is_an_error_of_the_selection(shop: ShopApi) -> None:
    with shop_workflow(shop, WireTurn(text="Hm", silent_after=0), timeout_s=0.3) as ask:
        answer = await ask("Get product 1", "get_product")

    assert "did not answer in time (TOOLWEAVE_MODEL_TIMEOUT_S)" in failed(answer, "llm_selection")
    assert sent(shop) == []


@pytest.mark.requirement("W-05")
async def test_one_answer_that_cannot_be_used_is_repaired(shop: ShopApi) -> None:
    with shop_workflow(shop, GARBAGE, chosen("get_product", {"product_id": 1})) as ask:
        answer = await ask("Get product 1", "get_product")

    assert answer["status"] == "success"
    assert answer["metadata"]["usage"]["calls"] == {"llm_selection": 2}
    assert "cannot be sent" in ask.prompts[1]
    assert sent(shop) == ["GET /products/1"]


@pytest.mark.requirement("W-05")
@pytest.mark.parametrize(
    ("turn", "told"),
    [
        (GARBAGE, "neither a call of the function"),
        (WireTurn(calls=(WireCall("choose_request", '{"tool_id": "get_product", "argum'),)), "JSON"),
        (chosen("delete_everything", {}), "delete_everything"),
        (chosen("place_order", {"customer_id": 17, "items": [{"product_id": 1}]}), "place_order"),
        (chosen("get_product", {"product_id": 0}), "product_id"),
        (chosen("get_product", {}), "product_id"),
        (chosen("get_product", {"product_id": "../orders"}), "product_id"),
        (chosen("get_product", {"product_id": 1, "admin": True}), "admin"),
        (
            chosen("get_product", {"product_id": 1}, http_spec={"method": "GET", "url": "http://evil.test/products/1"}),
            "not http://evil.test",
        ),
        (chosen("get_product", {"product_id": 1}, http_spec={"method": "DELETE", "url": "/products/1"}), "DELETE"),
        (chosen("get_product", {"product_id": 1}, http_spec={"method": "GET", "url": "/products/2"}), "url"),
    ],
)
async def test_a_choice_that_cannot_be_sent_twice_is_an_error_and_nothing_is_sent(
    shop: ShopApi, turn: WireTurn, told: str
) -> None:
    with shop_workflow(shop, turn, turn, WireTurn(text="never asked")) as ask:
        answer = await ask("Get product 1", "get_product")

    assert told in failed(answer, "llm_selection")
    assert len(ask.prompts) == 2
    assert answer["metadata"]["usage"]["calls"] == {"llm_selection": 2}
    assert empty(answer, "selected_tool", "http_spec", "raw_response")
    assert sent(shop) == []


async def test_a_model_that_declines_says_why_at_once(shop: ShopApi) -> None:
    reason = WireTurn(calls=(WireCall("choose_request", '{"reason": "Which product do you mean?"}'),))
    with shop_workflow(shop, reason) as ask:
        answer = await ask("Get it", "get_product")

    assert "Which product do you mean?" in failed(answer, "llm_selection")
    assert len(ask.prompts) == 1


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
async def test_an_api_that_takes_too_long_is_an_error_of_the_execution(shop: ShopApi) -> None:
    tools = [changed(tool_of(shop, "slow_answer"), timeout_s=5)]
    with shop_workflow(shop, chosen("slow_answer", {}), tools=tools) as ask:
        answer = await ask("Wait", "slow_answer")

    assert "5 s" in failed(answer, "api_execution")
    assert answer["raw_response"] is None
    assert sent(shop) == ["GET /slow"], "it may have been carried out, so it is not sent again"


@pytest.mark.requirement("W-06")
async def test_an_api_that_is_not_there_is_an_error_of_the_execution(shop: ShopApi) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        gone = f"http://127.0.0.1:{sock.getsockname()[1]}"
    tools = [changed(tool_of(shop, "get_product"), base_url=gone)]
    with shop_workflow(shop, chosen("get_product", {"product_id": 1}), tools=tools) as ask:
        answer = await ask("Get it", "get_product")

    assert "No connection" in failed(answer, "api_execution")
    assert answer["raw_response"] is None
    assert answer["http_spec"]["url"] == f"{gone}/products/1"


@pytest.mark.requirement("W-09")
async def test_a_private_address_that_nobody_allowed_is_refused(shop: ShopApi) -> None:
    with shop_workflow(shop, chosen("get_product", {"product_id": 1}), api_calls=ApiCalls()) as ask:
        answer = await ask("Get it", "get_product")

    assert "TOOLWEAVE_OUTBOUND_ALLOW" in failed(answer, "api_execution")
    assert sent(shop) == []


async def test_a_credential_that_is_missing_is_named_and_nothing_is_sent(
    shop: ShopApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOOL_SHOP_KEY")
    with shop_workflow(shop, chosen("echo_headers", {})) as ask:
        answer = await ask("Echo", "echo_headers")

    assert "TOOL_SHOP_KEY" in failed(answer, "api_execution")
    assert sent(shop) == []


@pytest.mark.requirement("W-05")
@pytest.mark.parametrize("change", ["path", "fields", "gone"])
async def test_a_tool_that_changed_after_it_was_chosen_is_not_called(shop: ShopApi, change: str) -> None:
    tool = tool_of(shop, "get_product")
    after = {
        "path": [changed(tool, path="/orders/{product_id}")],
        "fields": [tool.model_copy(update={"input_schema": {**tool.input_schema, "required": ["product_id", "key"]}})],
        "gone": [],
    }
    registry = ChangingRegistry([tool], after[change])
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
async def test_words_that_cannot_be_made_are_a_warning_and_the_answer_is_kept(shop: ShopApi, turn: WireTurn) -> None:
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


async def test_a_warning_of_the_output_stays_beside_that_of_the_words(shop: ShopApi) -> None:
    wrong = {"type": "object", "properties": {"price": {"type": "string"}}}
    tools = [tool_of(shop, "get_product").model_copy(update={"output_schema": wrong})]
    turns = [chosen("get_product", {"product_id": 2}), WireTurn(status=500)]
    with shop_workflow(shop, *turns, tools=tools) as ask:
        answer = await ask("What does it cost?", "get_product", format_response=True)

    assert answer["error_stage"] == "response_formatting"
    assert "price" in answer["warning"]
    assert "status 500" in answer["warning"]


@pytest.mark.requirement("W-10")
async def test_a_failure_is_logged_once_with_what_it_takes_to_look_into_it(shop: ShopApi) -> None:
    with logged() as records, shop_workflow(shop, chosen("always_fails", {})) as ask:
        answer = await ask("Ask the warehouse", "always_fails", "get_order")

    [record] = records
    assert (record["stage"], record["tool_ids"]) == ("api_execution", ["always_fails", "get_order"])
    assert record["request"] == answer["http_spec"]
    assert record["seconds"] > 0
    assert "ApiCallFailed" in record["message"]
    assert 'nodes/workflow/stages.py", line' in record["message"]
    assert "Traceback" not in repr(answer)
    assert "execute.py" not in repr(answer)


@pytest.mark.requirement("W-10")
async def test_secrets_in_a_request_are_hidden_in_the_log(shop: ShopApi) -> None:
    arguments = {"order_id": "Z-1", "reason": "my password=hunter2-hunter2"}
    with logged() as records, shop_workflow(shop, chosen("cancel_order", arguments)) as ask:
        answer = await ask("Cancel it", "cancel_order")

    assert answer["error_stage"] == "api_execution"
    [record] = records
    assert record["request"]["body"] == {"reason": "my password=***"}
    assert "hunter2" not in record["written"]


@pytest.mark.parametrize(("kind", "limit"), [("run", "run_timeout"), ("idle", "idle_timeout")])
def test_a_stage_that_is_stopped_at_its_time_limit_says_so(kind: Any, limit: str) -> None:
    stopped = NodeTimeoutError("retrieve", 30.2, kind=kind, **{limit: 30.0})

    assert failure_message("tool_retrieval", stopped) == "The tools could not be looked up. It took longer than 30 s."
    assert seconds_until_failure(stopped) == 30.2


async def test_a_run_that_is_cancelled_ends_as_cancelled(shop: ShopApi) -> None:
    saver = InMemorySaver()
    with logged() as records, shop_workflow(shop, WireTurn(silent_after=0), checkpointer=saver) as ask:
        running = asyncio.create_task(ask("Get it", "get_product"))
        assert await asyncio.to_thread(ask.wire.asked.wait, MAX_WAIT_S)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await asyncio.to_thread(ask.wire.left.wait, MAX_WAIT_S), "the model's endpoint is hung up on"
        state = await ask.graph.aget_state(THREAD)

    assert state.next == ("select",)
    assert empty(state.values, "status", "error", "failure")
    assert records == []
