"""Signing in to servers of the conformance suite with our connection layer, the person being a program."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.mcp_conformance.client import SERVER, Client
from tests.mcp_conformance.suite import SIGN_IN_SCENARIOS, baseline, passed, wrong
from tests.servers.connections.oauth.guarded import PATIENCE_S, file_place, open_browser
from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_entry import OAuth
from toolweave.servers.connections.oauth.exchange import AuthorizationFault
from toolweave.servers.connections.oauth.login import sign_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(360)]

BASELINE = baseline("sign_in")
# In these the server, or we, refuse to the end.
REFUSED = ("auth/resource-mismatch", "auth/scope-retry-limit")


class Guest(Client):
    """Signs in first, and then calls the tool that every server of these scenarios has."""

    def __init__(self, scenario: str, folder: Path) -> None:
        super().__init__("test-tool")
        self._place = file_place(folder)
        self._by_itself = scenario.startswith("auth/client-credentials")

    async def use(self, url: str, context: dict[str, Any]) -> None:
        credentials = {name: context[name] for name in ("client_id", "client_secret") if name in context}
        config = McpServerConfig(name=SERVER, transport="http", url=url, auth=OAuth(**credentials))
        if self._by_itself:
            by_itself = OAuth(grant="client_credentials", issuer=await trusted_issuer(url), **credentials)
            config = replace(config, auth=by_itself)
        else:
            with suppress(AuthorizationFault):
                await sign_in(config, self._place, open_browser, timeout_s=PATIENCE_S)
        await self.call(config, self._place)


async def trusted_issuer(url: str) -> str:
    """Find out, as an operator does, where the server would send our secret."""
    origin = url.removesuffix("/mcp")
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.get(f"{origin}/.well-known/oauth-protected-resource/mcp")
    return str(answer.json()["authorization_servers"][0])


@pytest.mark.parametrize("scenario", [name for name in SIGN_IN_SCENARIOS if name not in BASELINE])
async def test_a_sign_in_scenario_passes(scenario: str, node: str, tmp_path: Path) -> None:
    guest = Guest(scenario, tmp_path / "tokens")
    checks = await guest.play(node, scenario, tmp_path / "results")
    assert passed(checks), wrong(checks)
    assert (guest.state == "ready") == (scenario not in REFUSED)


@pytest.mark.parametrize("scenario", BASELINE)
async def test_a_sign_in_scenario_of_the_baseline_does_not_pass(scenario: str, node: str, tmp_path: Path) -> None:
    checks = await Guest(scenario, tmp_path / "tokens").play(node, scenario, tmp_path / "results")
    assert not passed(checks), "it passes: take it out of baseline.yml"
