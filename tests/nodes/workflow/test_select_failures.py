"""A model that declines, fails, or sits behind an endpoint that knows less than OpenAI's."""

import json

import pytest

from tests.fixtures.openai_wire import WireCall, WireTurn
from tests.fixtures.shop_api import ShopApi
from tests.nodes.model_at import USAGE, saying
from tests.nodes.workflow.selecting import RIGHT, Endpoint, brief, choosing, some


@pytest.mark.parametrize(
    "turn",
    [
        choosing(reason="Which order do you mean?"),
        choosing(tool_id="none", reason="Which order do you mean?"),
        choosing(tool_id="get_order", arguments={}, reason="Which order do you mean?"),
        saying('{"reason": "Which order do you mean?"}'),
    ],
    ids=brief,
)
async def test_a_reason_is_an_answer_and_gets_no_repair_turn(endpoint: Endpoint, shop: ShopApi, turn: WireTurn) -> None:
    made = await endpoint.attempt(some(shop, "get_order", "get_product"), turn)

    assert "Which order do you mean?" in made.error
    assert len(made.requests) == 1
    assert made.failure is not None
    assert len(made.failure.model_usage) == 1


async def test_the_usage_of_both_turns_is_counted_if_the_repair_turn_fails(endpoint: Endpoint, shop: ShopApi) -> None:
    cut = WireTurn(text="{", finish_reason="length", usage=USAGE)

    made = await endpoint.attempt(some(shop, "get_order"), choosing(tool_id="nowhere"), cut)

    assert "cut off at its length limit" in made.error
    assert made.failure is not None
    assert [usage["output_tokens"] for usage in made.failure.model_usage] == [20, 20]


@pytest.mark.parametrize(
    "turn",
    [
        WireTurn(status=400, error="gemma:2b does not support tools"),
        WireTurn(status=404, error="No endpoints found that support tool use."),
        WireTurn(status=500, error="tools param requires --jinja flag"),
        WireTurn(status=400, error="tools[0].function_declarations[0].parameters: bad"),
    ],
    ids=brief,
)
async def test_an_endpoint_without_functions_gets_a_prompt_for_json(
    endpoint: Endpoint, shop: ShopApi, turn: WireTurn
) -> None:
    made = await endpoint.attempt(some(shop, "get_order"), turn, saying(json.dumps(RIGHT)))

    assert made.update is not None
    assert made.update["selection"] == RIGHT
    assert "tools" not in made.requests[1].body
    assert '{"tool_id"' in made.requests[1].messages[0]["content"]


async def test_an_endpoint_without_stream_options_is_called_without(endpoint: Endpoint, shop: ShopApi) -> None:
    refusal = WireTurn(status=422, error="Extra inputs are not permitted: stream_options")

    made = await endpoint.attempt(some(shop, "get_order"), refusal, choosing(**RIGHT))

    assert made.update is not None
    assert ["stream_options" in request.body for request in made.requests] == [True, False]
    assert made.requests[1].tool_names == ["choose_request"]


_DEEP = '{"tool_id": "get_order", "arguments": {"order_id": ' + "[" * 100_000 + "]" * 100_000 + "}}"


@pytest.mark.parametrize(
    "turn",
    [
        WireTurn(calls=(WireCall("choose_request", _DEEP),), piece=20_000),
        WireTurn(text=_DEEP, piece=20_000),
        # The end of the thoughts is searched once, not from each beginning: that would take half a minute.
        WireTurn(text="<think>" * 30_000, piece=20_000),
        WireTurn(text="{" * 200_000, piece=20_000),
    ],
    ids=brief,
)
async def test_a_hostile_answer_gets_the_repair_turn(endpoint: Endpoint, shop: ShopApi, turn: WireTurn) -> None:
    made = await endpoint.attempt(some(shop, "get_order"), turn, choosing(**RIGHT))

    assert made.update is not None
    assert made.update["selection"] == RIGHT
    assert len(made.requests) == 2
