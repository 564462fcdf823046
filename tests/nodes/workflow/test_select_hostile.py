"""Answers that are made to stall or break whoever reads them get the repair turn like any other, and soon."""

import pytest

from tests.fixtures.openai_wire import WireCall, WireTurn
from tests.fixtures.shop_api import ShopApi
from tests.nodes.workflow.selecting import RIGHT, Endpoint, brief, choosing, some

_DEEP = '{"tool_id": "get_order", "arguments": {"order_id": ' + "[" * 100_000 + "]" * 100_000 + "}}"


@pytest.mark.parametrize(
    "turn",
    [
        WireTurn(calls=(WireCall("choose_request", _DEEP),), piece=20_000),
        WireTurn(text=_DEEP, piece=20_000),
        # An end is looked for once, not from each beginning on: that would take half a minute.
        WireTurn(text="<think>" * 30_000, piece=20_000),
        WireTurn(text="{" * 200_000, piece=20_000),
    ],
    ids=brief,
)
async def test_an_answer_without_end_is_repaired(endpoint: Endpoint, shop: ShopApi, turn: WireTurn) -> None:
    made = await endpoint.attempt(some(shop, "get_order"), turn, choosing(**RIGHT))

    assert made.update is not None
    assert made.update["selection"] == RIGHT
    assert len(made.requests) == 2
