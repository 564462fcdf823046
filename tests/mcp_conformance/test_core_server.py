"""The core server at /ai/mcp of the real application, judged by clients that are not ours (C-01)."""

import asyncio
import json
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.fixtures.app_server import AppServer
from tests.mcp_conformance.suite import (
    HERE,
    SERVER_SCENARIOS,
    SIGN_IN_SCENARIOS,
    Findings,
    baseline,
    passed,
    run,
    server_findings,
    wrong,
)

pytestmark = pytest.mark.timeout(360)

NOT_APPLICABLE = baseline("core")
SAYS_NOTHING = baseline("says_nothing_of_core")
SERVER_ENV = {"TOOLWEAVE_MCP_CONFIG": str(HERE / "no_servers.jsonc"), "TOOLWEAVE_FILE_ROOTS": str(HERE)}
INSPECTOR = HERE / "node_modules/@modelcontextprotocol/inspector-cli/build/cli.js"
CORE_TOOLS = {"query_database", "execute_job", "check_job_status", "read_file", "search_files"}
READ = ("--method", "tools/call", "--tool-name", "read_file", "--tool-arg", "path=package.json")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def findings(node: str, app_server: AppServer, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return await server_findings(node, f"{app_server.url}/ai/mcp", tmp_path_factory.mktemp("results"))


@pytest.mark.requirement("C-01")
@pytest.mark.parametrize("scenario", [name for name in SERVER_SCENARIOS if name not in NOT_APPLICABLE | SAYS_NOTHING])
async def test_a_scenario_that_applies_passes(scenario: str, findings: Findings) -> None:
    assert passed(findings[scenario]), wrong(findings[scenario])


@pytest.mark.parametrize("scenario", NOT_APPLICABLE)
async def test_a_scenario_that_does_not_apply_does_not_pass_either(scenario: str, findings: Findings) -> None:
    assert not passed(findings[scenario]), "it passes: take it out of baseline.yml"


@pytest.mark.parametrize("scenario", SAYS_NOTHING)
async def test_a_scenario_that_passes_without_its_tool_is_left_to_the_fixture_server(
    scenario: str, findings: Findings
) -> None:
    assert passed(findings[scenario]), "it does say something: take it out of baseline.yml"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def inspected(node: str, app_server: AppServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Ask the inspector for the tools and one call, over both transports at once."""
    over_http = (f"{app_server.url}/ai/mcp", "--transport", "http")
    settings = {"TOOLWEAVE_FILE_ROOTS": str(HERE), "TOOLWEAVE_DATA_DIR": str(tmp_path_factory.mktemp("data"))}
    variables = [part for name, value in settings.items() for part in ("-e", f"{name}={value}")]
    over_stdio = (sys.executable, *variables, "-m", "toolweave.servers.core")

    def ask(*arguments: str) -> Coroutine[Any, Any, str]:
        return run(node, str(INSPECTOR), "--cli", *arguments)

    output = await asyncio.gather(
        ask(*over_http, "--method", "tools/list"),
        ask(*over_http, *READ),
        ask(*over_stdio, "--method", "tools/list"),
        ask(*over_stdio, *READ),
    )
    names = ("http list", "http call", "stdio list", "stdio call")
    return {name: _json(text) for name, text in zip(names, output, strict=True)}


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_the_inspector_lists_our_tools(transport: str, inspected: dict[str, Any]) -> None:
    listed = inspected[f"{transport} list"]["tools"]
    assert {tool["name"] for tool in listed} == CORE_TOOLS
    assert all(tool["description"] and tool["inputSchema"]["type"] == "object" for tool in listed)


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_the_inspector_calls_our_tools(transport: str, inspected: dict[str, Any]) -> None:
    answer = inspected[f"{transport} call"]["structuredContent"]
    assert answer["status"] == "success", answer
    assert "toolweave-mcp-conformance-tests" in json.dumps(answer["data"])


def _json(output: str) -> Any:
    """Find the answer among what the programs write to the terminal."""
    assert "\n{" in f"\n{output}", output
    return json.JSONDecoder().raw_decode(output[f"\n{output}".index("\n{") :])[0]


def test_every_reason_is_of_a_scenario() -> None:
    known = set(SERVER_SCENARIOS)
    assert NOT_APPLICABLE.keys() | SAYS_NOTHING.keys() | baseline("fixture").keys() <= known
    assert baseline("sign_in").keys() <= set(SIGN_IN_SCENARIOS)


def test_the_lock_file_names_no_registry() -> None:
    assert Path(HERE / "package-lock.json").read_text(encoding="utf-8").count('"resolved"') == 0
