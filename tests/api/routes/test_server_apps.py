"""The pages of MCP Apps are read through /servers, only `ui://` and only as a caller (S-11)."""

import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.routes.lifespans import configured, running
from tests.api.routes.test_servers import ANN, KEYS
from tests.fixtures.app_server import serve_in_thread
from tests.fixtures.apps_server import PAGE

pytestmark = pytest.mark.requirement("S-11")
DICE: dict[str, Any] = {
    "command": sys.executable,
    "args": [str(Path(__file__).parents[2] / "fixtures" / "apps_server.py")],
    "prefix": "",
    "timeout_s": 30,
}


async def test_a_tool_names_its_page_which_is_read_and_only_models_or_apps_see_their_tools(tmp_path: Path) -> None:
    async with running(configured(tmp_path, {"dice": DICE})) as (app, http):
        offers = (await http.get("/servers/dice")).json()["offers"]
        read = (await http.post("/servers/dice/resources/read", json={"uri": PAGE})).json()
        for_models = [tool.name for tool in await app.state.plane.tools()]
    ui: dict[str, Any] = {tool["name"]: (tool["_meta"] or {}).get("ui") for tool in offers}
    assert ui["roll_dice"]["resourceUri"] == ui["history"]["resourceUri"] == PAGE
    assert for_models == ["forget", "loaded_dice", "roll_dice"]
    [page] = read["contents"]
    assert (page["uri"], page["mimeType"], page["_meta"]["ui"]["prefersBorder"]) == (
        PAGE,
        "text/html;profile=mcp-app",
        True,
    )
    assert "Roll again" in page["text"]


async def test_other_resources_and_servers_are_refused_with_the_reason(tmp_path: Path) -> None:
    async def read(server: str, uri: str) -> tuple[int, str]:
        response = await http.post(f"/servers/{server}/resources/read", json={"uri": uri})
        return response.status_code, str(response.json()["detail"])

    servers = {
        "dice": DICE,
        "down": {"command": "missing-program"},
        "slow": {**DICE, "prefix": "s_", "timeout_s": 0.001},
    }
    async with running(configured(tmp_path, servers)) as (_, http):
        outcomes = {
            "There is no MCP server": await read("x", PAGE),
            "should be 'ui'": await read("dice", "file:///etc/secret"),
            "did not send 'ui://dice/none.html': Resource not found": await read("dice", "ui://dice/none.html"),
            "too large": await read("dice", "ui://dice/large.html"),
            "temporarily unavailable": await read("down", PAGE),
            "within 0.001 seconds": await read("slow", PAGE),
        }
    for text, (_, detail) in outcomes.items():
        assert text in detail
    assert [status for status, _ in outcomes.values()] == [404, 422, 502, 502, 503, 504]


def test_with_authentication_a_page_is_for_identified_callers_only(tmp_path: Path) -> None:
    configured(tmp_path, {"dice": DICE})
    (tmp_path / "keys.py").write_text(KEYS, encoding="utf-8")
    langgraph_json = {
        "graphs": {"todo_agent": "toolweave.graphs.served:todo_agent"},
        "auth": {"path": "./keys.py:auth"},
        "http": {"app": "toolweave.api.app:app"},
    }
    (tmp_path / "langgraph.json").write_text(json.dumps(langgraph_json), encoding="utf-8")
    env = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_MCP_CONFIG": str(tmp_path / "mcp.jsonc")}
    with (
        serve_in_thread(tmp_path / "langgraph.json", tmp_path / "data", env) as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
    ):
        assert client.post("/servers/dice/reconnect", headers=ANN).json()["state"] == "ready"
        asked = [
            client.post("/servers/dice/resources/read", json={"uri": PAGE}, headers=headers)
            for headers in ({}, {"authorization": "Bearer eve"}, ANN)
        ]
    assert [response.status_code for response in asked] == [401, 401, 200]
