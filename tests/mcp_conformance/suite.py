"""Run the MCP conformance suite, an implementation that is not ours, and read what it found.

Its package is locked to the last version that runs on Node 20. The inspector is installed without its web page: the
package of its command line holds the same program as `mcp-inspector --cli`, byte by byte, at a quarter of the size.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
PROGRAM = HERE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
RUN_BOUND_S = 60.0

SERVER_SCENARIOS = (
    *("server-initialize", "logging-set-level", "ping", "completion-complete", "tools-list", "tools-call-simple-text"),
    *("tools-call-image", "tools-call-audio", "tools-call-embedded-resource", "tools-call-mixed-content"),
    *("tools-call-with-logging", "tools-call-error", "tools-call-with-progress", "tools-call-sampling"),
    *("tools-call-elicitation", "json-schema-2020-12", "elicitation-sep1034-defaults", "server-sse-polling"),
    *("server-sse-multiple-streams", "elicitation-sep1330-enums", "resources-list", "resources-read-text"),
    *("resources-read-binary", "resources-templates-read", "resources-subscribe", "resources-unsubscribe"),
    *("prompts-list", "prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource"),
    *("prompts-get-with-image", "dns-rebinding-protection"),
)
SIGN_IN_SCENARIOS = (
    *("auth/metadata-default", "auth/metadata-var1", "auth/metadata-var2", "auth/metadata-var3", "auth/basic-cimd"),
    *("auth/scope-from-www-authenticate", "auth/scope-from-scopes-supported", "auth/scope-omitted-when-undefined"),
    *("auth/scope-step-up", "auth/scope-retry-limit", "auth/token-endpoint-auth-basic"),
    *("auth/token-endpoint-auth-post", "auth/token-endpoint-auth-none", "auth/resource-mismatch"),
    *("auth/pre-registration", "auth/2025-03-26-oauth-metadata-backcompat"),
    *("auth/2025-03-26-oauth-endpoint-fallback", "auth/client-credentials-jwt", "auth/client-credentials-basic"),
)


@dataclass(frozen=True)
class Check:
    """One finding: its id, SUCCESS, INFO, WARNING or FAILURE, and what was wrong."""

    id: str
    status: str
    error: str
    details: Mapping[str, Any]


Findings = Mapping[str, list[Check]]


def passed(checks: list[Check]) -> bool:
    """Say whether a scenario passed: it found something, and nothing wrong; a warning is something wrong."""
    return any(check.status == "SUCCESS" for check in checks) and not wrong(checks)


def wrong(checks: list[Check]) -> list[Check]:
    return [check for check in checks if check.status in ("FAILURE", "WARNING")]


def baseline(part: str) -> dict[str, str]:
    """Give the scenarios that do not apply, with the reasons."""
    read: dict[str, dict[str, str]] = yaml.safe_load((HERE / "baseline.yml").read_text(encoding="utf-8"))
    return read[part]


async def server_findings(node: str, url: str, results: Path) -> Findings:
    """Run all server scenarios against a server."""
    output = await run(node, str(PROGRAM), "server", "--url", url, "--suite", "all", "-o", str(results))
    return _by_scenario(results, output)


def _by_scenario(results: Path, output: str) -> Findings:
    found = {folder.name.removeprefix("server-"): folder for folder in results.iterdir()}
    findings = {
        scenario: _checks(folder)
        for scenario in SERVER_SCENARIOS
        for name, folder in found.items()
        if name.startswith(f"{scenario}-20")
    }
    assert len(found) == len(findings) == len(SERVER_SCENARIOS), f"other scenarios than expected:\n{output}"
    return findings


async def client_checks(node: str, command: str, scenario: str, results: Path) -> tuple[list[Check], str]:
    """Run one client scenario with a client's command; gives what it found, and what was written meanwhile."""
    options = ("client", "--command", command, "--scenario", scenario, "-o", str(results))
    output = await run(node, str(PROGRAM), *options)
    return _checks(_only(results)), output


async def run(*command: str) -> str:
    """Run a program to its end, whatever its exit code, and give all that it wrote."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=HERE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(RUN_BOUND_S):
            written, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return written.decode(errors="replace")


def _only(results: Path) -> Path:
    (found,) = results.rglob("checks.json")
    return found.parent


def _checks(folder: Path) -> list[Check]:
    return [
        Check(check["id"], check["status"], check.get("errorMessage", ""), check.get("details", {}))
        for check in json.loads((folder / "checks.json").read_text(encoding="utf-8"))
    ]
