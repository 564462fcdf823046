"""An operation of an HTTP API is a LangChain tool like any other."""

import json
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolCall, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from tests.fixtures.scripted_model import ScriptedModel, calling
from tests.fixtures.shop_api import ShopApi
from tests.nodes.http_tools.hostile_api import calls, json_answer, operation, serving_operation
from tests.outbound.peers import text
from toolweave.graphs import build_agent_loop, http_tools
from toolweave.nodes.http_tools.api_calls import MAY_HAVE_RUN_HINT, ApiTool


def tools_of(shop: ShopApi) -> dict[str, ApiTool]:
    return {tool.name: tool for tool in http_tools(shop.tools(), calls())}


async def invoke(tool: ApiTool, **arguments: Any) -> ToolMessage:
    message = await tool.ainvoke(ToolCall(name=tool.name, args=arguments, id="call_1", type="tool_call"))
    assert isinstance(message, ToolMessage)
    return message


async def test_a_tool_is_described_by_its_configuration(shop: ShopApi) -> None:
    tool = tools_of(shop)["get_product"]
    described = convert_to_openai_tool(tool)["function"]
    assert described["name"] == "get_product"
    assert described["description"] == "Get one product with its name, price and category."
    assert described["parameters"]["properties"]["product_id"]["type"] == "integer"
    assert described["parameters"]["required"] == ["product_id"]
    always_fails = tools_of(shop)["always_fails"].operation
    (without,) = http_tools([always_fails.model_copy(update={"input_schema": {}})])
    assert convert_to_openai_tool(without)["function"]["parameters"] == {"type": "object", "properties": {}}


async def test_a_call_gives_the_answers_body_as_json_and_as_artifact(shop: ShopApi) -> None:
    message = await invoke(tools_of(shop)["get_product"], product_id=2)
    assert message.status == "success"
    product = json.loads(message.text)
    assert (product["id"], message.artifact) == (2, {"structured_content": product})
    assert (await tools_of(shop)["get_product"].ainvoke({"product_id": 2})) == message.text


@pytest.mark.requirement("W-05")
@pytest.mark.parametrize("arguments", [{}, {"product_id": "two"}, {"product_id": 2, "more": 1}, {"product_id": "../2"}])
async def test_wrong_arguments_are_an_error_and_nothing_is_sent(shop: ShopApi, arguments: dict[str, Any]) -> None:
    message = await invoke(tools_of(shop)["get_product"], **arguments)
    assert message.status == "error"
    assert message.text.startswith("The arguments do not fit: ")
    assert message.text.endswith("Correct them and call the tool again.")
    assert "an object of named arguments" in await tools_of(shop)["get_product"].ainvoke("2")
    assert shop.requests == []


async def test_arguments_may_have_any_name() -> None:
    names = ("config", "runtime", "run_manager", "self", "tool_call_id", "args", "kwargs", "callbacks")
    async with serving_operation(json_answer({})) as api:
        fields = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
        (tool,) = http_tools([api.tool.model_copy(update={"input_schema": fields})], calls())
        message = await invoke(tool, **dict.fromkeys(names, "x"))
    assert message.status == "success"
    assert api.peer.requests[0].line == f"GET /thing?{'&'.join(f'{name}=x' for name in names)} HTTP/1.1"


async def test_an_error_of_the_api_reaches_the_model_with_its_text(shop: ShopApi) -> None:
    message = await invoke(tools_of(shop)["update_product_price"], product_id=99_999, price=1)
    assert message.status == "error"
    assert "answered 404 Not Found" in message.text
    assert "There is no product 99999." in message.text
    assert MAY_HAVE_RUN_HINT not in message.text


@pytest.mark.parametrize(("method", "warned"), [("GET", False), ("HEAD", False), ("POST", True)])
async def test_a_change_whose_answer_is_lost_may_have_been_made(method: str, warned: bool) -> None:
    async with serving_operation(b"", method=method) as api:
        (tool,) = http_tools([api.tool], calls())
        message = await invoke(tool)
        assert message.status == "error"
        assert "broke off" in message.text
        assert (MAY_HAVE_RUN_HINT in message.text) is warned
    unsent = await invoke(http_tools([api.tool])[0])
    assert "is a loopback address" in unsent.text
    assert MAY_HAVE_RUN_HINT not in unsent.text


async def test_a_text_stays_a_text_and_warnings_follow_it() -> None:
    async with serving_operation(text("200 OK", "Zoë!".encode(), "Content-Type: text/plain")) as api:
        wanted = api.tool.model_copy(update={"output_schema": {"type": "object"}})
        (tool,) = http_tools([wanted], calls())
        message = await invoke(tool)
    answer, warning = message.text.split("\n\n[")
    assert (message.status, answer, message.artifact) == ("success", "Zoë!", None)
    assert "does not match output_schema" in warning


async def test_invisible_characters_of_an_answer_reach_no_model() -> None:
    sent = "\x1b[31mZoë\x1b[0m\u202e!\U000e0068\U000e0069 👩\u200d💻"
    async with serving_operation(text("200 OK", sent.encode(), "Content-Type: text/plain")) as api:
        (tool,) = http_tools([api.tool], calls())
        assert (await invoke(tool)).text == "Zoë! 👩\u200d💻"
    body = json.dumps({"name": "a\u202eb"}, ensure_ascii=False).encode()
    async with serving_operation(text("200 OK", body, "Content-Type: application/json")) as api:
        (tool,) = http_tools([api.tool], calls())
        message = await invoke(tool)
    assert (message.text, message.artifact) == ('{"name": "ab"}', {"structured_content": {"name": "a\u202eb"}})


async def test_a_long_answer_is_cut_with_a_notice_unless_a_store_takes_the_whole() -> None:
    async with serving_operation(text("200 OK", b"x" * 1_001)) as api:
        (tool,) = http_tools([api.tool], calls())
        tool = tool.model_copy(update={"max_result_chars": 1_000})
        cut = await invoke(tool)
        stored: list[str] = []

        async def store(whole: str, shown: int) -> str:
            stored.append(whole)
            return f"Read on from {shown}."

        read_on = await invoke(tool.with_result_store(store))
    notice = "\n[The answer was cut: 1000 of its 1001 characters are shown. Ask for less"
    assert cut.text.startswith("x" * 1_000 + notice)
    assert cut.artifact is None
    assert read_on.text.endswith("Read on from 1000.]")
    assert (stored, read_on.artifact) == (["x" * 1_001], {"kept_result": {"characters": 1_001}})


async def test_the_agent_loop_calls_operations_and_reads_on_in_long_answers(shop: ShopApi) -> None:
    tools = [tool.model_copy(update={"max_result_chars": 100}) for tool in http_tools(shop.tools(), calls())]
    model = ScriptedModel(
        turns=[
            calling(("search_products", {}, "call-1"), ("get_product", {"product_id": "x"}, "call-2")),
            calling(("read_tool_result", {"id": "call-1", "offset": 100, "limit": 50})),
            "done",
        ]
    )
    graph = build_agent_loop(tools=tools, model=model, store=InMemoryStore(), checkpointer=InMemorySaver())
    result = await graph.ainvoke({"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "t"}})
    first, wrong, more = [message for message in result["messages"] if isinstance(message, ToolMessage)]
    assert "[The answer was cut: 100 of its" in first.text
    assert wrong.text.startswith("The arguments do not fit: ")
    whole = await invoke(tools_of(shop)["search_products"])
    assert more.text.startswith(whole.text[100:150])
    assert "get_product" in model.offered[0]


def test_a_tool_shows_no_secret_when_it_is_printed() -> None:
    config = operation("https://api.example", auth={"type": "bearer", "value": "literal-secret"})
    assert "literal-secret" not in repr(http_tools([config]))
