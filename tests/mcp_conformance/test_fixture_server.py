"""A server with all that the conformance suite asks for, behind our middleware and our guard (C-01, C-06)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
import uvicorn

from tests.fixtures.mcp_server import held
from tests.fixtures.serving import serving_here
from tests.mcp_conformance.fixture_server import PATH, fixture_app
from tests.mcp_conformance.suite import SERVER_SCENARIOS, Findings, baseline, passed, server_findings, wrong
from toolweave.config.mcp import McpServerConfig
from toolweave.config.settings import Settings
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.plane import open_tool_plane

pytestmark = pytest.mark.timeout(360)

BASELINE = baseline("fixture")


@asynccontextmanager
async def fixture_server() -> AsyncIterator[str]:
    guarded, app = fixture_app(Settings())
    async with app.lifespan(app), serving_here(uvicorn.Config(guarded, lifespan="off", log_config=None)) as url:
        yield f"{url}{PATH}"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def url() -> AsyncIterator[str]:
    async with held(fixture_server()) as served:
        yield served


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def findings(node: str, url: str, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return await server_findings(node, url, tmp_path_factory.mktemp("results"))


@pytest.mark.parametrize("scenario", [name for name in SERVER_SCENARIOS if name not in BASELINE])
async def test_a_scenario_passes_behind_our_middleware(scenario: str, findings: Findings) -> None:
    assert passed(findings[scenario]), wrong(findings[scenario])


@pytest.mark.parametrize("scenario", BASELINE)
async def test_a_scenario_of_the_baseline_does_not_pass(scenario: str, findings: Findings) -> None:
    assert not passed(findings[scenario]), "it passes: take it out of baseline.yml"


async def test_our_connection_layer_takes_up_a_stream_that_the_server_closed_during_a_call(url: str) -> None:
    # What server-sse-polling wants, in a version of the protocol that has it.
    async with open_tool_plane([McpServerConfig(name="fixture", transport="http", url=url)]) as plane:
        await plane.wait_for_servers(timeout_s=60)
        result = await plane.call("fixture", "test_reconnection", {}, CallContext())
    assert [getattr(content, "text", "") for content in result.content] == ["Reconnected."], result
