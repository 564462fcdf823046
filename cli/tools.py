"""List the MCP servers and their tools: `toolweave tools`."""

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console

from toolweave.cli.api_client import server_url
from toolweave.cli.configuration import read_configuration
from toolweave.cli.servers import ConfigFile, DataFolder, Surveyed, survey, trial_settings
from toolweave.cli.terminal import compact, harmless, shortened, stdout_console, styled
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import served_mcp_config
from toolweave.config.settings import load_settings
from toolweave.errors import ConfigError
from toolweave.servers.connections.oauth.place import token_place

COLOURS = {"ready": "green", "disabled": "dim", "connecting": "yellow", "misconfigured": "red", "down": "red"}
ANSWER_TIMEOUT_S = 10.0
REFUSALS = {
    "OPEN": "calls are refused because it failed too often",
    "HALF_OPEN": "it failed too often; the next call finds out whether it is back",
}


def tools(
    url: Annotated[str | None, typer.Option("--url", help="Ask this server for the state of its MCP servers.")] = None,
    config: ConfigFile = None,
    data_dir: DataFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the configured MCP servers, their state and their tools; a server that does not come up says why.

    The servers are started for this and stopped again, ours with a temporary database. With --url nothing is started: a
    running Toolweave says how its servers are.
    """
    if url is not None:
        health = _health(server_url(url, load_settings()))
        print(compact(health)) if as_json else _show_health(stdout_console(), health)
        return
    found = _survey(config, data_dir)
    if as_json:
        print(compact([asdict(server) for server in found]))
    else:
        for server in found:
            show(stdout_console(), server)


def show(console: Console, server: Surveyed) -> None:
    """Print one server and its tools."""
    about = f"{len(server.tools)} tools in {server.ready_ms} ms" if server.state == "ready" else server.reason or ""
    show_state(console, server.name, server.state, about)
    width = max((len(tool.name) for tool in server.tools), default=0)
    for tool in server.tools:
        console.print(harmless(f"  {tool.name:<{width}}  {shortened(tool.description, 90)}").rstrip())


def _survey(config: Path | None, data_dir: Path | None) -> list[Surveyed]:
    given = read_configuration(data_dir=data_dir).settings
    settings = load_settings(mcp_config=config, data_dir=given.data_dir, log_level="ERROR")
    configure_logging(settings)
    with trial_settings(settings) as trial:
        servers = served_mcp_config(trial)
        for warning in servers.warnings:
            sys.stderr.write(f"{warning}\n")
        return asyncio.run(survey(servers.servers, token_place(settings)))


def _health(url: str) -> dict[str, Any]:
    try:
        answer = httpx.get(f"{url}/health", timeout=ANSWER_TIMEOUT_S, trust_env=False)
        health = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        fix = "Start one with `toolweave dev`, or name another with --url."
        raise ConfigError("no Toolweave server answers here.", source=url, fix=fix) from error
    if not isinstance(health, dict) or "servers" not in health:
        raise ConfigError(f"GET /health answers {answer.status_code} without MCP servers.", source=url)
    return health


def _show_health(console: Console, health: dict[str, Any]) -> None:
    for name, server in health["servers"].items():
        show_state(console, name, server["state"], in_words(server))


def in_words(server: dict[str, Any]) -> str:
    """Say what /health tells of a server beside its state."""
    if server["state"] != "ready":
        return str(server["last_error"] or "")
    parts = [f"{server['tools']} tools"]
    if latency := server.get("latency_ms"):
        parts.append(f"calls take {latency['p50']:g} ms, 1 in 100 more than {latency['p99']:g} ms")
    if refusal := REFUSALS.get(server.get("breaker", "CLOSED")):
        parts.append(refusal)
    return "; ".join(parts)


def show_state(console: Console, name: str, state: str, about: str) -> None:
    """Print a server's state on a line."""
    parts = [styled(name, "bold"), styled(state, COLOURS.get(state, "")), *([styled(about)] if about else [])]
    console.print(*parts)
