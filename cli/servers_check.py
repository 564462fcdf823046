"""Start MCP servers for a moment and say how that went: `toolweave servers check` and `toolweave servers tools`."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console

from toolweave.cli.servers import (
    AsJson,
    ConfigFile,
    DataFolder,
    Needs,
    ServersConfig,
    Surveyed,
    advice,
    read_servers,
    survey,
    trial_settings,
)
from toolweave.cli.servers_state import signature
from toolweave.cli.terminal import compact, shortened, stdout_console, styled
from toolweave.cli.tools import show_state
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import served_mcp_config

PATIENCE_S = 30.0
Names = Annotated[list[str] | None, typer.Argument(help="Servers of mcp.jsonc.", show_default="all that are enabled")]


def check(names: Names = None, config: ConfigFile = None, data_dir: DataFolder = None, as_json: AsJson = False) -> None:
    """Start the servers, say how long that takes, list their tools, measure some pings, and stop them again.

    A server that is disabled is started if it is named. The exit code is 1 when one does not come up; what to do about
    it is said.
    """
    servers = read_servers(config, data_dir)
    found = tried(servers, names or [])
    needs = servers.needs()
    failed = [each for each in found if each.state != "ready"]
    if as_json:
        print(compact([checked_json(each, needs[each.name], servers) for each in found]))
    else:
        for each in found:
            show_checked(stdout_console(), each, needs[each.name], servers)
        if not found:
            print("No server is enabled.")
    raise typer.Exit(1 if failed else 0)


def tools(
    name: Annotated[str | None, typer.Argument(help="A server.", show_default="all that are enabled")] = None,
    config: ConfigFile = None,
    data_dir: DataFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the schemas of the parameters.")] = False,
) -> None:
    """Start the servers and list their tools with the parameters they take; the exit code is as that of `check`."""
    servers = read_servers(config, data_dir)
    found = tried(servers, [name] if name else [])
    needs = servers.needs()
    if as_json:
        print(compact([checked_json(each, needs[each.name], servers) for each in found]))
    else:
        for each in found:
            _show_tools(stdout_console(), each, needs[each.name], servers)
    raise typer.Exit(1 if any(each.state != "ready" for each in found) else 0)


def tried(servers: ServersConfig, names: Sequence[str]) -> list[Surveyed]:
    """Start the servers of these names, or all that are enabled.

    Raises:
        ConfigError: there is no server of such a name.
    """
    for name in names:
        servers.expect(name)
    for warning in servers.mcp.warnings:
        sys.stderr.write(f"{warning}\n")
    # What goes wrong is said in our words.
    configure_logging(servers.settings.model_copy(update={"log_level": "ERROR"}))
    with trial_settings(servers.settings) as trial:
        configured = served_mcp_config(trial, tried=names).servers
        wanted = [each for each in configured if (each.name in names if names else each.enabled)]
        return asyncio.run(survey(wanted, servers.place, patience_s=PATIENCE_S, pinged=True))


def checked_json(found: Surveyed, needs: Needs, servers: ServersConfig) -> dict[str, Any]:
    """Write what was found as JSON."""
    to_do = None if found.state == "ready" else advice(found, needs, servers.variables_in)
    return {**asdict(found), "missing": list(needs.variables), "installed": not needs.to_install, "fix": to_do}


def show_checked(console: Console, found: Surveyed, needs: Needs, servers: ServersConfig) -> None:
    """Print how a server is, and what to do if it is not ready."""
    _show_head(console, found, needs, servers)
    if found.tools:
        console.print(styled(f"  {', '.join(tool.name for tool in found.tools)}"))


def _show_head(console: Console, found: Surveyed, needs: Needs, servers: ServersConfig) -> None:
    if found.state == "ready":
        pings = "" if found.ping_ms is None else f", a ping takes {found.ping_ms:g} ms"
        show_state(console, found.name, found.state, f"{len(found.tools)} tools in {found.ready_ms} ms{pings}")
        return
    show_state(console, found.name, found.state, found.reason or "no answer yet")
    if to_do := advice(found, needs, servers.variables_in):
        console.print(styled(f"  → {to_do}"))


def _show_tools(console: Console, found: Surveyed, needs: Needs, servers: ServersConfig) -> None:
    _show_head(console, found, needs, servers)
    for tool in found.tools:
        console.print(styled(f"  {signature(tool.name, tool.input_schema)}", "bold"))
        if tool.description:
            console.print(styled(f"      {shortened(tool.description, 160)}"))
