"""The studio in headless Chromium against the real server (S-11)."""

import pytest

from tests.clients.javascript import Javascript, scenarios

pytestmark = [
    pytest.mark.requirement("S-11"),
    pytest.mark.timeout(360),
    pytest.mark.databases("sqlite", reason="the page is tested; the other modules here test the API on each database"),
]
# The web server of studio_admin.mjs is on this machine; the offline model writes scripts only if it is named.
SERVER_ENV = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1"}


@pytest.mark.parametrize(("script", "scenario"), scenarios("studio_frame.mjs", "studio_tools.mjs"))
def test_the_studio_chats_with_our_graphs(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)


@pytest.mark.slow
@pytest.mark.parametrize(("script", "scenario"), scenarios("studio_servers.mjs", "studio_admin.mjs"))
def test_the_studio_manages_our_servers_and_stores(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)
