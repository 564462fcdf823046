"""The studio in headless Chromium against the real server (S-11)."""

import pytest

from tests.clients.javascript import Javascript, scenarios

pytestmark = [pytest.mark.requirement("S-11"), pytest.mark.timeout(360)]
# The web server of studio_admin.mjs is on this machine; the offline model writes scripts only if it is named.
SERVER_ENV = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1"}


@pytest.mark.parametrize(
    ("script", "scenario"), scenarios("studio_frame.mjs", "studio_tools.mjs", "studio_servers.mjs", "studio_admin.mjs")
)
def test_the_studio_works_with_our_graphs_and_servers(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)
