"""MCP Apps in the studio, in headless Chromium against the real server and a real MCP server (S-11)."""

from pathlib import Path

import httpx
import pytest

from tests.clients.javascript import Javascript, scenarios
from tests.fixtures.app_server import AppServer

APP = Path(__file__).parent / "app"
LANGGRAPH_JSON = APP / "studio_apps.json"
SERVER_ENV = {"TOOLWEAVE_MCP_CONFIG": str(APP / "studio_apps.jsonc"), "TOOLWEAVE_MODEL": "offline"}
pytestmark = [
    pytest.mark.requirement("S-11"),
    pytest.mark.timeout(360),
    pytest.mark.databases("sqlite", reason="the page is tested; the other modules here test the API on each database"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module", autouse=True)
def dice_server(app_server: AppServer) -> None:
    """Wait until the MCP server has connected."""
    answer = httpx.post(f"{app_server.url}/servers/dice/reconnect", timeout=60)
    assert answer.json()["state"] == "ready"


@pytest.mark.parametrize(("script", "scenario"), scenarios("studio_apps.mjs"))
def test_the_apps_of_tools(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)
