"""@langchain/langgraph-sdk 1.15 under Node, unchanged, against our server; and 2.0.0, which npm calls the latest."""

from pathlib import Path

import pytest

from tests.clients.javascript import Javascript, scenarios

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
SCRIPTS = ("assistants.mjs", "threads.mjs", "runs.mjs", "joining.mjs", "store.mjs", "crons.mjs", "older_sdk.mjs")

# The first test may have to install the client.
pytestmark = [pytest.mark.requirement("S-01"), pytest.mark.timeout(360)]


@pytest.mark.parametrize(("script", "scenario"), scenarios(*SCRIPTS))
def test_the_javascript_sdk_works_unchanged(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)
