"""useStream of @langchain/langgraph-sdk/react 1.15 in jsdom: the hook that chat user interfaces are made of."""

from pathlib import Path

import pytest

from tests.clients.javascript import Javascript, scenarios

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"

# The first test may have to install the client.
pytestmark = [pytest.mark.requirement("S-01"), pytest.mark.timeout(360)]


@pytest.mark.parametrize(("script", "scenario"), scenarios("use_stream.mjs"))
def test_use_stream_works_unchanged(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)
