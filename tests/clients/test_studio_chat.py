"""The studio's chat in headless Chromium, with graphs that tests can hold (S-07, S-11)."""

from pathlib import Path

import pytest

from tests.clients.javascript import Javascript, scenarios

LANGGRAPH_JSON = Path(__file__).parent / "app" / "studio_chat.json"
pytestmark = [
    pytest.mark.requirement("S-11"),
    pytest.mark.timeout(360),
    pytest.mark.databases("sqlite", reason="the page is tested; the other modules here test the API on each database"),
    pytest.mark.slow,
]


@pytest.mark.parametrize(("script", "scenario"), scenarios("studio_chat.mjs"))
def test_the_chat_of_the_studio(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)


@pytest.mark.requirement("S-07")
@pytest.mark.parametrize(("script", "scenario"), scenarios("studio_interrupts.mjs"))
def test_human_in_the_loop_in_the_studio(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)
