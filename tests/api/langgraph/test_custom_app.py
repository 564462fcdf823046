"""The application that langgraph.json names: its routes win, a mount at "/" comes last, mistakes are explained."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute

from toolweave.api.langgraph.custom_app import CustomRoutes, custom_openapi, load_custom_app
from toolweave.api.langgraph_client import StreamingAsgiTransport
from toolweave.config.langgraph_json import load_langgraph_json
from toolweave.errors import ConfigError

pytestmark = pytest.mark.requirement("S-02")


def said(text: str) -> Any:
    async def answer(_request: Any) -> PlainTextResponse:
        return PlainTextResponse(text)

    return answer


def merged(custom: Starlette) -> httpx.AsyncClient:
    ours: list[BaseRoute] = [Route("/threads", said("ours"), methods=["POST"]), Route("/docs", said("ours"))]
    routes = [CustomRoutes(custom, last=False), *ours, CustomRoutes(custom, last=True)]
    return httpx.AsyncClient(transport=StreamingAsgiTransport(Starlette(routes=routes)), base_url="http://127.0.0.1")


async def test_a_route_of_the_application_wins_over_ours() -> None:
    async with merged(Starlette(routes=[Route("/threads", said("theirs"), methods=["POST"])])) as http:
        assert (await http.post("/threads")).text == "theirs"


async def test_a_mount_at_the_root_does_not_swallow_the_api() -> None:
    page = Starlette(routes=[Route("/{path:path}", said("a page"))])
    async with merged(Starlette(routes=[Mount("/", app=page)])) as http:
        assert (await http.post("/threads")).text == "ours"
        assert (await http.get("/index.html")).text == "a page"


async def test_a_mount_below_the_root_wins_as_any_route() -> None:
    page = Starlette(routes=[Route("/x", said("mounted"))])
    async with merged(Starlette(routes=[Mount("/sub", app=page)])) as http:
        assert (await http.get("/sub/x")).text == "mounted"


async def test_the_same_path_with_another_method_stays_ours() -> None:
    async with merged(Starlette(routes=[Route("/threads", said("theirs"), methods=["PUT"])])) as http:
        assert [(await http.request(method, "/threads")).text for method in ("PUT", "POST")] == ["theirs", "ours"]


async def test_generated_documentation_is_ours_but_a_written_page_wins() -> None:
    generated, written = FastAPI(), FastAPI(docs_url=None)
    written.add_route("/docs", said("theirs"), include_in_schema=True)
    for app, text in ((generated, "ours"), (written, "theirs")):
        async with merged(app) as http:
            assert (await http.get("/docs")).text == text
    async with merged(generated) as http:
        assert (await http.get("/redoc")).status_code == 404


async def test_a_websocket_of_the_application_is_reached() -> None:
    seen: list[str] = []

    async def socket(websocket: Any) -> None:
        seen.append(websocket.url.path)
        await websocket.accept()
        await websocket.close()

    custom = Starlette(routes=[WebSocketRoute("/live", socket)])
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    scope = {
        "type": "websocket",
        "path": "/live",
        "headers": [],
        "query_string": b"",
        "root_path": "",
        "server": ("127.0.0.1", 80),
    }
    await Starlette(routes=[CustomRoutes(custom, last=False)])(scope, receive, send)
    assert (seen, sent) == (["/live"], ["websocket.accept", "websocket.close"])


def test_only_a_fastapi_application_describes_itself() -> None:
    assert custom_openapi(None) == custom_openapi(Starlette()) == custom_openapi(FastAPI(openapi_url=None)) == {}
    assert custom_openapi(FastAPI(title="Mine"))["info"]["title"] == "Mine"


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("./web.py:nothing", "has no 'nothing'"),
        ("./web.py:value", "is a int, not an application"),
        ("./absent.py:app", "cannot load"),
        ("./web.py:broken_name", "has no 'broken_name'"),
    ],
)
def test_an_application_that_cannot_be_served_is_named(tmp_path: Path, target: str, says: str) -> None:
    (tmp_path / "web.py").write_text("value = 3\n", encoding="utf-8")
    written = {"graphs": {"g": "./web.py:g"}, "http": {"app": target}}
    (tmp_path / "langgraph.json").write_text(json.dumps(written), encoding="utf-8")
    with pytest.raises(ConfigError, match=says):
        load_custom_app(load_langgraph_json(tmp_path / "langgraph.json"))
