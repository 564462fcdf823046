"""Plain instructions through POST /workflow: the offline model chooses, and a real shop receives the request."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.api.routes.conftest import serve_ours
from tests.fixtures.app_server import AppProcess
from tests.fixtures.shop_api import SHOP_KEY, SHOP_KEY_VARIABLE, ShopApi, shop_api

SERVER_ENV = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1", SHOP_KEY_VARIABLE: SHOP_KEY}


@pytest.fixture(scope="module")
def shop() -> Iterator[ShopApi]:
    with shop_api() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppProcess]:
    """Serve in a process of its own: the served graphs read their settings once in each process."""
    with serve_ours(tmp_path_factory.mktemp("data"), SERVER_ENV) as process:
        yield process


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(server: AppProcess) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
async def tool_ids(http: httpx.AsyncClient, shop: ShopApi) -> list[str]:
    """Register the shop's operations as its document imports; give their ids."""
    imported = shop.imported()
    stored = await http.post("/tools/import", json={"tools": [tool.model_dump(mode="json") for tool in imported]})
    assert stored.status_code == 201, stored.text
    return [tool.tool_id for tool in imported]


async def _ask(text: str, http: httpx.AsyncClient, tool_ids: list[str], **more: Any) -> dict[str, Any]:
    response = await http.post("/workflow", json={"user_instructions": text, "tool_ids": tool_ids, **more})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.mark.requirement("W-02")
@pytest.mark.parametrize(
    ("text", "method", "path", "body"),
    [
        ("Show product 4", "GET", "/products/4", None),
        ("Show me order A-1001", "GET", "/orders/A-1001", None),
        ("Set the price of product 2 to 45 euros", "PUT", "/products/2/price", {"price": 45}),
    ],
)
async def test_the_request_that_plain_instructions_ask_for_arrives(
    text: str,
    method: str,
    path: str,
    body: dict[str, Any] | None,
    http: httpx.AsyncClient,
    shop: ShopApi,
    tool_ids: list[str],
) -> None:
    shop.clear()

    answer = await _ask(text, http, tool_ids)

    assert answer["status"] == "success"
    assert [(one.method, one.path, one.body) for one in shop.requests] == [(method, path, body)]


async def test_nothing_is_sent_for_instructions_that_no_tool_fits_or_that_say_more(
    http: httpx.AsyncClient, shop: ShopApi, tool_ids: list[str]
) -> None:
    shop.clear()

    for text in ("Tell me a joke", "Delete the product", "Delete product 4 and all its reviews"):
        answer = await _ask(text, http, tool_ids)

        assert (answer["status"], answer["error_stage"]) == ("error", "llm_selection")
        assert answer["http_spec"] is None
    assert shop.requests == []


@pytest.mark.requirement("W-07")
async def test_the_answer_in_words_says_that_the_offline_model_wrote_it(
    http: httpx.AsyncClient, tool_ids: list[str]
) -> None:
    answer = await _ask("Show me product 4", http, tool_ids, format_response=True)

    assert answer["status"] == "success"
    assert "- name: Fountain Pen" in answer["formatted_response"]
    assert answer["formatted_response"].endswith("(offline model)")
