"""List the MCP servers and their tools: `toolweave tools`."""

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console

from toolweave.cli.api_client import server_health, server_url
from toolweave.cli.servers import ConfigFile, DataFolder, ProbeResult, print_warnings, probe, read_servers, show_state
from toolweave.cli.terminal import compact_json, sanitize, shorten, stdout_console
from toolweave.config.logs import configure_logging
from toolweave.config.settings import load_settings

BREAKER_NOTES = {
    "OPEN": "calls are refused because it failed too often",
    "HALF_OPEN": "it failed too often; the next call tests whether it has recovered",
}


def tools(
    url: Annotated[str | None, typer.Option("--url", help="List the MCP servers of this running server.")] = None,
    config: ConfigFile = None,
    data_dir: DataFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the configured MCP servers, their state and their tools; show why a server does not start.

    The servers are started and stopped again, the todo server with a temporary database. With --url nothing is started:
    a running Toolweave reports the state of its servers.
    """
    if url is not None:
        health = server_health(server_url(url, load_settings()))
        print(compact_json(health)) if as_json else _show_health(stdout_console(), health)
        return
    servers = read_servers(config, data_dir)
    print_warnings(servers)
    # Failures are in the results; the log would repeat them.
    configure_logging(servers.settings.model_copy(update={"log_level": "ERROR"}))
    found = probe(servers)
    if as_json:
        print(compact_json([asdict(server) for server in found]))
    else:
        for server in found:
            show_server(stdout_console(), server)


def show_server(console: Console, server: ProbeResult) -> None:
    """Print one server and its tools."""
    about = f"{len(server.tools)} tools in {server.ready_ms} ms" if server.state == "ready" else server.reason or ""
    show_state(console, server.name, server.state, about)
    width = max((len(tool["name"]) for tool in server.tools), default=0)
    for tool in server.tools:
        console.print(sanitize(f"  {tool['name']:<{width}}  {shorten(tool['description'], 90)}").rstrip())


def _show_health(console: Console, health: dict[str, Any]) -> None:
    for name, server in health["servers"].items():
        show_state(console, name, server["state"], health_summary(server))


def health_summary(server: dict[str, Any]) -> str:
    """Return what /health reports about a server beside its state."""
    if server["state"] != "ready":
        return str(server["last_error"] or "")
    parts = [f"{server['tools']} tools"]
    if latency := server.get("latency_ms"):
        parts.append(f"calls take {latency['p50']:g} ms, 1 in 100 more than {latency['p99']:g} ms")
    if refusal := BREAKER_NOTES.get(server.get("breaker", "CLOSED")):
        parts.append(refusal)
    return "; ".join(parts)
