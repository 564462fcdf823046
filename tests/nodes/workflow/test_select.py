"""Choosing a request over the real wire format: only the request of the configuration is sent (W-05)."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from tests.fixtures.openai_wire import WireTurn
from tests.fixtures.shop_api import ShopApi
from tests.nodes.model_at import calling, saying
from tests.nodes.workflow.selecting import RIGHT, Endpoint, brief, calls_to_loopback, choosing, select, send, some
from toolweave.errors import UnknownTools
from toolweave.nodes.chat_models import as_lazy_chat_model
from toolweave.nodes.offline_model.model import OfflineChatModel
from toolweave.nodes.tool_catalog import FixedToolConfigs
from toolweave.nodes.workflow.prompts import WorkflowModel
from toolweave.nodes.workflow.select import parse_choice, select_node
from toolweave.nodes.workflow.tool_descriptions import tool_candidates


@pytest.mark.requirement("W-05")
async def test_a_right_choice_becomes_the_request_of_the_configuration(endpoint: Endpoint, shop: ShopApi) -> None:
    tools = shop.tools()

    made = await endpoint.attempt(tools, choosing(**RIGHT), instructions="Where is order A-1001?")

    assert made.update is not None
    assert made.update["selection"] == RIGHT
    assert made.update["selected_tool"] == "Get order"
    assert made.spec == {"method": "GET", "url": f"{shop.url}/orders/A-1001", "headers": {}, "query": {}, "body": None}
    [request] = made.requests
    assert [message["role"] for message in request.messages] == ["system", "user"]
    assert request.messages[-1]["content"] == "Where is order A-1001?"
    assert request.tool_names == ["choose_request"]
    assert request.body["tool_choice"] == "required"
    assert "parallel_tool_calls" not in request.body
    assert "strict" not in request.body["tools"][0]["function"]


@pytest.mark.parametrize(
    "written",
    [
        calling({"order_id": "A-1001"}, "get_order"),
        calling(RIGHT, "whatever"),
        calling({"tool_id": "get_order", "arguments": '{"order_id": "A-1001"}'}, "choose_request"),
        calling({"tool_id": "get_order", "order_id": "A-1001"}, "choose_request"),
        calling(RIGHT | {"reason": "The user wants that order.", "http_spec": None}, "choose_request"),
        saying(json.dumps(RIGHT)),
        saying(f"Sure!\n```json\n{json.dumps(RIGHT, indent=1)}\n```\nThat is it."),
        saying(f'With {{order_id}} as {{"order_id": "A-1001"}} I choose {json.dumps(RIGHT)} now.'),
        saying(f'<think>Is it {{"tool_id": "cancel_order", "arguments": {{}}}}?</think>{json.dumps(RIGHT)}'),
        saying(json.dumps({"result": {"choice": RIGHT}})),
        saying(json.dumps({"name": "get_order", "parameters": {"order_id": "A-1001"}})),
    ],
    ids=[
        *("tool itself", "other name", "arguments as text", "flat", "all filled"),
        *("text", "fenced", "prose with other objects", "thoughts", "nested text", "tool's call as text"),
    ],
)
async def test_a_choice_is_read_in_any_form_that_endpoints_give_it(
    endpoint: Endpoint, shop: ShopApi, written: WireTurn
) -> None:
    for tools in (some(shop, "get_order", "cancel_order"), some(shop, "get_order")):
        made = await endpoint.attempt(tools, written)

        assert made.update is not None
        assert made.update["selection"] == RIGHT
        assert len(made.requests) == 1


def test_the_arguments_of_a_choice_are_not_read_as_a_choice() -> None:
    for arguments in ({"filter": {"tool_id": "other"}}, {"tool_id": 5}, {"reason": '{"tool_id": "other"}'}):
        assert parse_choice(AIMessage(json.dumps({"arguments": arguments})), ["only"]).arguments == arguments


@pytest.mark.requirement("W-05")
async def test_a_bare_request_is_taken_when_one_tool_was_offered(endpoint: Endpoint, shop: ShopApi) -> None:
    tools = some(shop, "search_products")
    bare = {"method": "get", "url": f"{shop.url}/products?q=lamp", "query": {"max_price": 20}, "headers": None}

    made = await endpoint.attempt(tools, saying(json.dumps(bare)))

    assert made.update is not None
    assert made.update["selection"] == {"tool_id": "search_products", "arguments": {"q": "lamp", "max_price": 20}}
    assert made.spec["query"] == {"q": "lamp", "max_price": 20}


async def test_a_bare_request_among_several_tools_needs_a_tool_id(endpoint: Endpoint, shop: ShopApi) -> None:
    made = await endpoint.attempt(
        some(shop, "get_order", "get_product"),
        saying(json.dumps({"method": "GET", "url": f"{shop.url}/orders/A-1001"})),
        choosing(**RIGHT),
    )

    assert "tool_id" in made.repair
    assert made.update is not None


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no tool_id": ({"arguments": {"order_id": "A-1001"}}, "tool_id must be one of"),
    "line break in a header": (
        {
            "tool_id": "place_order",
            "arguments": {"customer_id": 1, "items": [{"product_id": 1}], "key": "k\r\nX-Evil: 1"},
        },
        "key",
    ),
    "http_spec without url": ({**RIGHT, "http_spec": {"method": "GET"}}, "http_spec.url"),
    "unknown method": ({**RIGHT, "http_spec": {"method": "TRACE", "url": "x"}}, "http_spec.method"),
}


@pytest.mark.requirement("W-05")
@pytest.mark.parametrize(("written", "problem"), WRONG.values(), ids=WRONG)
async def test_a_choice_that_cannot_be_sent_is_repaired_at_the_second_try(
    endpoint: Endpoint, shop: ShopApi, written: dict[str, Any], problem: str
) -> None:
    tools = some(shop, "get_order", "place_order")

    made = await endpoint.attempt(tools, choosing(**written), choosing(**RIGHT), instructions="Show order A-1001.")

    assert problem in made.repair
    assert made.update is not None
    assert made.update["selection"] == RIGHT
    assert [message["role"] for message in made.requests[1].messages] == ["system", "user", "assistant", "user"]
    assert json.loads(made.requests[1].messages[2]["content"]) == written
    await send(calls_to_loopback(), tools, made)
    assert [(request.method, request.path) for request in shop.requests] == [("GET", "/orders/A-1001")]


@pytest.mark.parametrize(
    ("turn", "problem"),
    [
        (saying("I would ask for order A-1001."), "nor a JSON object"),
        (saying("{}"), "tool_id"),
        (saying('{"a": ' * 3_000), "nor a JSON object"),
        (saying('{"reason": "\\ud83d"}'), "nor a JSON object"),
        (calling('{"tool_id": "get_order", "argu', "choose_request"), "not one whole JSON object"),
        (calling('{"tool_id": "\\ud83d"}', "choose_request"), "not one whole JSON object"),
        (calling({}, "choose_request"), "tool_id"),
    ],
    ids=brief,
)
async def test_an_unreadable_choice_fails_after_two_attempts(
    endpoint: Endpoint, shop: ShopApi, turn: WireTurn, problem: str
) -> None:
    made = await endpoint.attempt(some(shop, "get_order", "get_product"), turn, turn, choosing(**RIGHT))

    assert problem in made.error
    assert len(made.requests) == 2


async def test_a_candidate_that_was_deleted_after_retrieve_is_named(shop: ShopApi) -> None:
    tools = shop.tools()
    node = select_node(FixedToolConfigs(()), WorkflowModel(as_lazy_chat_model(OfflineChatModel())))
    state: Any = {"user_instructions": "x", "tool_ids": ["get_order"], "candidates": tool_candidates(tools)}

    with pytest.raises(UnknownTools, match="get_order"):
        await node(state, {})


@pytest.mark.requirement("W-05")
async def test_the_headers_of_a_request_that_the_model_writes_are_not_sent(endpoint: Endpoint, shop: ShopApi) -> None:
    headers = {"Authorization": "Bearer of-the-model", "X-Evil": "1\r\nX-Also: 2"}
    spec = {"method": "GET", "url": f"{shop.url}/orders/A-1001", "headers": headers}

    made = await endpoint.attempt(some(shop, "get_order"), choosing(**RIGHT, http_spec=spec))

    await send(calls_to_loopback(), some(shop, "get_order"), made)
    [arrived] = shop.requests
    assert not {"authorization", "x-evil", "x-also"} & arrived.headers.keys()


async def test_the_offline_model_selects_without_a_network(shop: ShopApi) -> None:
    update = await select(OfflineChatModel(), shop.tools(), "Show me the order A-1001")

    assert update["selection"] == RIGHT
