"""Check mcp.jsonc and every MCP server it names by starting it."""

import asyncio

from toolweave.cli.doctor import Finding, failure
from toolweave.cli.servers import Needs, Surveyed, advice, needs_of, survey, trial_settings
from toolweave.config.mcp import mcp_place, mcp_variables, served_mcp_config
from toolweave.config.mcp_entry import read_mcp_file
from toolweave.config.settings import Settings
from toolweave.errors import ToolweaveError
from toolweave.servers.connections.oauth.place import token_place


def check_servers(settings: Settings) -> list[Finding]:
    """Read the mcp file that counts, start the servers, list their tools, stop them."""
    with trial_settings(settings) as trial:
        try:
            config = served_mcp_config(trial)
        except ToolweaveError as error:
            return [failure("mcp.jsonc", error)]
        warnings = [Finding("warn", "mcp.jsonc", f"{warning}.") for warning in config.warnings]
        found = asyncio.run(survey(config.servers, token_place(settings)))
    needs = {
        each.name: needs_of(each.name, each.raw, mcp_variables(settings), settings.data_dir)
        for each in read_mcp_file(config.path).servers
    }
    read = Finding("ok", "mcp.jsonc", f"{mcp_place(settings).in_words()}.")
    wanted = [_finding(server, needs[server.name]) for server in found if server.state != "disabled"]
    off = [server.name for server in found if server.state == "disabled"]
    return [*warnings, read, *wanted, *([Finding("ok", "disabled servers", f"{', '.join(off)}.")] if off else [])]


def _finding(server: Surveyed, needs: Needs) -> Finding:
    subject = f"server {server.name}"
    if server.state == "ready":
        return Finding("ok", subject, f"{len(server.tools)} tools in {server.ready_ms} ms.")
    reason = server.reason or "no answer yet"
    return Finding("fail", subject, f"{server.state}: {reason}", advice(server, needs))
