"""The JavaScript page of the examples in headless Chromium against the real server."""

import pytest

from tests.clients.javascript import Javascript, scenarios

pytestmark = [pytest.mark.requirement("S-01"), pytest.mark.timeout(360)]
SERVER_ENV = {"TOOLWEAVE_MODEL": "offline"}


@pytest.mark.databases("sqlite", reason="the page is the same for every database")
@pytest.mark.parametrize(("script", "scenario"), scenarios("example_page.mjs"))
def test_the_page_of_the_examples_chats(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)
