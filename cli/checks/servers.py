"""Check mcp.jsonc and every MCP server it names by starting it."""

import asyncio

from toolweave.cli.checks.finding import Finding, failure
from toolweave.cli.server_survey import Surveyed, survey, trial_settings
from toolweave.config.mcp import served_mcp_config
from toolweave.config.mcp_place import mcp_place
from toolweave.config.settings import Settings
from toolweave.errors import ToolweaveError
from toolweave.servers.connections.oauth.place import token_place

SIGN_IN = "toolweave servers login"
ADVICE = {
    "down": 'Correct its command or URL in mcp.jsonc, or disable it there with "enabled": false.',
    "connecting": "It is slow; see whether it starts by itself in a terminal.",
    "misconfigured": "Correct its entry in mcp.jsonc.",
}


def check_servers(settings: Settings) -> list[Finding]:
    """Read the mcp file that counts, start the servers, list their tools, stop them."""
    with trial_settings(settings) as trial:
        try:
            config = served_mcp_config(trial)
        except ToolweaveError as error:
            return [failure("mcp.jsonc", error)]
        warnings = [Finding("warn", "mcp.jsonc", f"{warning}.") for warning in config.warnings]
        found = asyncio.run(survey(config.servers, token_place(settings)))
    read = Finding("ok", "mcp.jsonc", f"{mcp_place(settings).in_words()}.")
    return [*warnings, read, *(_finding(server) for server in found)]


def _finding(server: Surveyed) -> Finding:
    subject = f"server {server.name}"
    if server.state == "ready":
        return Finding("ok", subject, f"{len(server.tools)} tools in {server.ready_ms} ms.")
    if server.state == "disabled":
        return Finding("ok", subject, "disabled.")
    reason = server.reason or "no answer yet"
    # That one says by itself what to do.
    advice = None if SIGN_IN in reason else ADVICE.get(server.state)
    return Finding("fail", subject, f"{server.state}: {reason}", advice)
