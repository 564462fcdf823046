"""A model that writes another request than the configuration's: it is told so, and nothing of it is sent (W-05)."""

import json
from typing import Any

import pytest

from tests.fixtures.shop_api import ShopApi
from tests.nodes.model_at import saying
from tests.nodes.workflow.selecting import RIGHT, Endpoint, calls_to_loopback, choosing, send, some


def order(shop: ShopApi, **changed: Any) -> dict[str, Any]:
    return {"method": "GET", "url": f"{shop.url}/orders/A-1001", **changed}


@pytest.mark.requirement("W-05")
async def test_a_request_that_the_model_writes_along_is_compared_and_ours_is_taken(
    endpoint: Endpoint, shop: ShopApi
) -> None:
    headers = {"Authorization": "Bearer of-the-model", "X-Evil": "1\r\nX-Also: 2"}

    made = await endpoint.attempt(some(shop, "get_order"), choosing(**RIGHT, http_spec=order(shop, headers=headers)))

    assert made.spec["headers"] == {}
    await send(calls_to_loopback(), some(shop, "get_order"), made)
    [arrived] = shop.requests
    assert not {"authorization", "x-evil", "x-also"} & arrived.headers.keys()


DIFFERENT: dict[str, tuple[dict[str, Any], str]] = {
    "method": ({"method": "DELETE"}, "method must be GET, not DELETE"),
    "host": ({"url": "http://evil.example/orders/A-1001"}, "not http://evil.example"),
    "path": ({"url": "/orders/A-1002"}, "url must be"),
    "encoded dots": ({"url": "/orders/%2e%2e/products/1"}, "url"),
    "line break": ({"url": "/orders/A-1001\r\nX-Evil: 1"}, "url cannot be used"),
    "query": ({"query": {"all": "1"}}, "all"),
    "body": ({"body": {"status": "paid"}}, "body"),
}


@pytest.mark.requirement("W-05")
@pytest.mark.parametrize(("changed", "problem"), DIFFERENT.values(), ids=DIFFERENT)
async def test_a_request_that_is_not_the_configurations_is_never_sent(
    endpoint: Endpoint, shop: ShopApi, changed: dict[str, Any], problem: str
) -> None:
    tools = some(shop, "get_order", "cancel_order")
    other = choosing(**RIGHT, http_spec=order(shop, **changed))

    made = await endpoint.attempt(tools, other, other)

    assert problem in made.repair
    assert problem in made.said
    await send(calls_to_loopback(), tools, made)
    assert shop.requests == []


@pytest.mark.requirement("W-05")
async def test_a_bare_request_of_another_place_is_never_sent(endpoint: Endpoint, shop: ShopApi) -> None:
    tools = some(shop, "get_order")
    for url in ("http://evil.example/orders/A-1", f"{shop.url}/orders/a/../../products/1", f"{shop.url}/products/1"):
        bare = saying(json.dumps({"method": "GET", "url": url}))

        made = await endpoint.attempt(tools, bare, bare)

        await send(calls_to_loopback(), tools, made)
        assert made.failure is not None
    assert shop.requests == []
