"""The application that langgraph.json names: its routes win, a mount at "/" comes last, errors name the cause."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket

from toolweave.api.langgraph.custom_app import CustomRoutes, custom_openapi, load_custom_app
from toolweave.api.langgraph_client import StreamingAsgiTransport
from toolweave.config.langgraph_json import load_langgraph_json
from toolweave.errors import ConfigError

pytestmark = pytest.mark.requirement("S-02")


def text(content: str) -> Any:
    async def respond(_request: Any) -> PlainTextResponse:
        return PlainTextResponse(content)

    return respond


def merged(custom: Starlette) -> httpx.AsyncClient:
    ours: list[BaseRoute] = [Route("/threads", text("ours"), methods=["POST"]), Route("/docs", text("ours"))]
    routes = [CustomRoutes(custom, last=False), *ours, CustomRoutes(custom, last=True)]
    return httpx.AsyncClient(transport=StreamingAsgiTransport(Starlette(routes=routes)), base_url="http://127.0.0.1")


PAGES = Starlette(routes=[Route("/{path:path}", text("a page"))])


@pytest.mark.parametrize(
    ("routes", "requests"),
    [
        pytest.param(
            [Route("/threads", text("theirs"), methods=["PUT"])],
            {"PUT /threads": "theirs", "POST /threads": "ours"},
            id="a route wins over ours, another method of its path is ours",
        ),
        pytest.param(
            [Mount("/", app=PAGES)],
            {"POST /threads": "ours", "GET /index.html": "a page"},
            id="a mount at the root does not hide the API",
        ),
        pytest.param([Mount("/sub", app=PAGES)], {"GET /sub/x": "a page"}, id="a mount below the root wins"),
    ],
)
async def test_a_route_of_the_application_wins_over_ours(routes: list[BaseRoute], requests: dict[str, str]) -> None:
    async with merged(Starlette(routes=routes)) as http:
        for request, content in requests.items():
            method, path = request.split()
            assert (await http.request(method, path)).text == content


async def test_generated_documentation_is_ours_but_a_written_page_wins() -> None:
    generated, written = FastAPI(), FastAPI(docs_url=None)
    written.add_route("/docs", text("theirs"), include_in_schema=True)
    async with merged(generated) as http:
        assert (await http.get("/docs")).text == "ours"
        assert (await http.get("/redoc")).status_code == 404
    async with merged(written) as http:
        assert (await http.get("/docs")).text == "theirs"


def test_a_websocket_of_the_application_is_reached() -> None:
    async def send_path(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text(websocket.url.path)
        await websocket.close()

    custom = Starlette(routes=[WebSocketRoute("/live", send_path)])
    served = Starlette(routes=[CustomRoutes(custom, last=False)])
    with TestClient(served).websocket_connect("/live") as socket:
        assert socket.receive_text() == "/live"


def test_only_a_fastapi_application_describes_itself() -> None:
    assert custom_openapi(None) == custom_openapi(Starlette()) == custom_openapi(FastAPI(openapi_url=None)) == {}
    assert custom_openapi(FastAPI(title="Mine"))["info"]["title"] == "Mine"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("./web.py:nothing", "has no 'nothing'"),
        ("./web.py:value", "is of the class int, not Starlette."),
        ("./absent.py:app", "cannot load"),
        ("./web.py:broken_name", "has no 'broken_name'"),
    ],
)
def test_an_application_that_cannot_be_served_is_named(tmp_path: Path, target: str, message: str) -> None:
    (tmp_path / "web.py").write_text("value = 3\n", encoding="utf-8")
    written = {"graphs": {"g": "./web.py:g"}, "http": {"app": target}}
    (tmp_path / "langgraph.json").write_text(json.dumps(written), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_custom_app(load_langgraph_json(tmp_path / "langgraph.json"))
