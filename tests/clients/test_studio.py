"""The studio in headless Chromium against the real server (S-11)."""

import pytest

from tests.clients.javascript import Javascript, scenarios

pytestmark = [pytest.mark.requirement("S-11"), pytest.mark.timeout(360)]


@pytest.mark.parametrize(("script", "scenario"), scenarios("studio_frame.mjs"))
def test_the_frame_of_the_studio(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)


@pytest.mark.parametrize(("script", "scenario"), scenarios("studio_tools.mjs"))
def test_tool_calls_in_the_chat_of_the_studio(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)
