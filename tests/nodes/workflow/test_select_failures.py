"""A model that declines, fails, or sits behind an endpoint that knows less than OpenAI's."""

import json

import pytest

from tests.fixtures.openai_wire import WireTurn
from tests.fixtures.shop_api import ShopApi
from tests.nodes.model_at import saying
from tests.nodes.workflow.selecting import RIGHT, Endpoint, brief, choosing, some


@pytest.mark.parametrize(
    "turn",
    [
        choosing(reason="Which order do you mean?"),
        choosing(tool_id=None, arguments=None, reason="Which order do you mean?"),
        choosing(tool_id="", arguments={}, reason="Which order do you mean?"),
        choosing(tool_id="none", reason="Which order do you mean?"),
        choosing(tool_id="get_order", reason="Which order do you mean?"),
        choosing(tool_id="get_order", arguments={}, reason="Which order do you mean?"),
        saying('{"reason": "Which order do you mean?"}'),
    ],
    ids=brief,
)
async def test_a_reason_is_an_answer_and_gets_no_repair_turn(endpoint: Endpoint, shop: ShopApi, turn: WireTurn) -> None:
    made = await endpoint.attempt(some(shop, "get_order", "get_product"), turn)

    assert "Which order do you mean?" in made.said
    assert len(made.requests) == 1
    assert made.failure is not None
    assert len(made.failure.model_usage) == 1


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        (WireTurn(status=500), "status 500"),
        (WireTurn(status=400, error="maximum context length"), "maximum context length"),
        (WireTurn(text="{", finish_reason="length"), "cut off at its length limit"),
        (WireTurn(text="I", finish_reason="content_filter"), "content filter"),
        (WireTurn(), "empty answer"),
    ],
    ids=brief,
)
async def test_a_model_that_fails_is_asked_no_second_time(
    endpoint: Endpoint, shop: ShopApi, turn: WireTurn, said: str
) -> None:
    made = await endpoint.attempt(some(shop, "get_order"), turn, choosing(**RIGHT))

    assert said in made.said
    assert len(made.requests) == 1


async def test_a_model_that_fails_at_the_repair_turn_does_not_hide_what_the_first_has_used(
    endpoint: Endpoint, shop: ShopApi
) -> None:
    made = await endpoint.attempt(some(shop, "get_order"), choosing(tool_id="nowhere"), WireTurn(status=500))

    assert "status 500" in made.said
    assert made.failure is not None
    assert [usage["output_tokens"] for usage in made.failure.model_usage] == [20]


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
async def test_an_endpoint_that_takes_no_functions_is_asked_for_json(
    endpoint: Endpoint, shop: ShopApi, turn: WireTurn
) -> None:
    made = await endpoint.attempt(some(shop, "get_order"), turn, saying(json.dumps(RIGHT)))

    assert made.update is not None
    assert made.update["selection"] == RIGHT
    assert "tools" not in made.requests[1].body
    assert '{"tool_id"' in made.requests[1].messages[0]["content"]


async def test_an_endpoint_that_counts_no_tokens_of_streams_is_asked_without(endpoint: Endpoint, shop: ShopApi) -> None:
    refusal = WireTurn(status=422, error="Extra inputs are not permitted: stream_options")

    made = await endpoint.attempt(some(shop, "get_order"), refusal, choosing(**RIGHT))

    assert made.update is not None
    assert ["stream_options" in request.body for request in made.requests] == [True, False]
    assert made.requests[1].tool_names == ["choose_request"]
