"""The held-back instructions through POST /workflow: the offline model chooses, and a real shop sees what arrives."""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.api.routes.conftest import serve_ours
from tests.fixtures.app_server import AppProcess
from tests.fixtures.shop_api import SHOP_KEY, SHOP_KEY_VARIABLE, ArrivedRequest, ShopApi, shop_api
from tests.nodes.offline_model.operations.instructions import Instruction, instructions_of
from tests.nodes.offline_model.operations.judging import fits
from toolweave.tool_config import ToolConfig

SERVER_ENV = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1", SHOP_KEY_VARIABLE: SHOP_KEY}
RIGHT_AT_LEAST = 0.88


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
async def tools(http: httpx.AsyncClient, shop: ShopApi) -> dict[str, ToolConfig]:
    """Register the shop's operations as its document imports; give them by id."""
    imported = {tool.tool_id: tool for tool in shop.imported()}
    given = {"tools": [tool.model_dump(mode="json") for tool in imported.values()]}
    stored = await http.post("/tools/import", json=given)
    assert stored.status_code == 201, stored.text
    return imported


@pytest.mark.requirement("W-02")
async def test_of_the_held_back_instructions_the_right_request_arrives(
    http: httpx.AsyncClient, shop: ShopApi, tools: dict[str, ToolConfig]
) -> None:
    # The server's clock is today's: what is said relative to a day is left to the tests that set the model's clock.
    instructions = [one for one in instructions_of("held") if "placed_since" not in one.arguments]
    verdicts = [await _is_right(one, http, shop, tools) for one in instructions]

    assert len(verdicts) >= 60
    assert sum(verdicts) / len(verdicts) >= RIGHT_AT_LEAST


async def test_nothing_is_sent_for_instructions_that_no_tool_fits(
    http: httpx.AsyncClient, shop: ShopApi, tools: dict[str, ToolConfig]
) -> None:
    shop.clear()

    for text in ("Tell me a joke", "Delete the product"):
        answer = await _ask(text, http, tools)

        assert (answer["status"], answer["error_stage"]) == ("error", "llm_selection")
        assert answer["http_spec"] is None
    assert shop.requests == []


@pytest.mark.requirement("W-07")
async def test_the_answer_is_told_in_words_that_say_who_told_it(
    http: httpx.AsyncClient, shop: ShopApi, tools: dict[str, ToolConfig]
) -> None:
    answer = await _ask("Show me product 4", http, tools, format_response=True)

    assert answer["status"] == "success"
    assert "- name: Fountain Pen" in answer["formatted_response"]
    assert answer["formatted_response"].endswith("(offline model)")


async def _is_right(
    instruction: Instruction, http: httpx.AsyncClient, shop: ShopApi, tools: dict[str, ToolConfig]
) -> bool:
    shop.clear()
    answer = await _ask(instruction.text, http, tools)
    if instruction.tool is None:
        return bool(answer["error_stage"] == "llm_selection" and not shop.requests)
    if len(shop.requests) != 1:
        return False
    [request] = shop.requests
    tool = tools[instruction.tool]
    path = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", tool.api.path), request.path)
    same = request.method == tool.api.method and path is not None
    return same and fits(_arrived(request, path.groupdict() if path else {}, tool), _as_sent(instruction.arguments))


async def _ask(text: str, http: httpx.AsyncClient, tools: dict[str, ToolConfig], **more: Any) -> dict[str, Any]:
    body = {"user_instructions": text, "tool_ids": list(tools), **more}
    response = await http.post("/workflow", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def _arrived(request: ArrivedRequest, path: dict[str, str], tool: ToolConfig) -> dict[str, Any]:
    """Give the arguments that a request carries, by the names of the tool's input; texts where they arrive as such."""
    headers = {name: request.headers.get(name.replace("_", "-")) for name in tool.input_fields}
    given = {name: value for name, value in headers.items() if value is not None}
    arrived: dict[str, Any] = _as_sent({**given, **dict(request.query), **path, **(request.body or {})})
    return arrived


def _as_sent(value: Any) -> Any:
    """Write numbers as a URL would, so that what arrives in one compares with what was wanted."""
    if isinstance(value, dict):
        return {name: _as_sent(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_as_sent(inner) for inner in value]
    if isinstance(value, str) and re.fullmatch(r"-?\d+(?:\.\d+)?", value):
        value = float(value)
    return f"{float(value):g}" if isinstance(value, int | float) else value
