"""AG-UI's own JavaScript client against the server (S-10)."""

from pathlib import Path

import pytest

from tests.clients.javascript import Javascript, scenarios

LANGGRAPH_JSON = Path(__file__).parent / "app" / "other_clients.json"
SERVER_ENV = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_MCP_CONFIG": str(LANGGRAPH_JSON.with_name("no_servers.jsonc"))}

# The first test may have to install the client.
pytestmark = [pytest.mark.requirement("S-10"), pytest.mark.timeout(360)]


@pytest.mark.parametrize(("script", "scenario"), scenarios("ag_ui.mjs"))
def test_the_ag_ui_client_works_unchanged(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)
