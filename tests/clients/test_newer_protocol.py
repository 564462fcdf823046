"""Clients of the newer protocol: client.threads.stream of SDK 1.15, and @langchain/react 1.1 in jsdom."""

from pathlib import Path

import pytest

from tests.clients.javascript import Javascript, scenarios

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
SCRIPTS = ("thread_stream.mjs", "react_stream.mjs")

# The first test may have to install the client.
pytestmark = [pytest.mark.requirement("S-01"), pytest.mark.timeout(360)]


@pytest.mark.parametrize(("script", "scenario"), scenarios(*SCRIPTS))
def test_clients_of_the_newer_protocol_work_unchanged(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)
