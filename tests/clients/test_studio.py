"""The studio in headless Chromium against the real server (S-11)."""

import pytest

from tests.clients.javascript import Javascript, scenarios

pytestmark = [pytest.mark.requirement("S-11"), pytest.mark.timeout(360)]
# The web server of studio_admin.mjs is on this machine; the offline model writes scripts only if it is named.
SERVER_ENV = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1"}


@pytest.mark.parametrize(("script", "scenario"), scenarios("studio_frame.mjs"))
def test_the_frame_of_the_studio(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)


@pytest.mark.parametrize(("script", "scenario"), scenarios("studio_servers.mjs"))
def test_the_mcp_servers_in_the_studio(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)


@pytest.mark.parametrize(("script", "scenario"), scenarios("studio_admin.mjs"))
def test_the_administration_in_the_studio(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)
