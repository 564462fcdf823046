"""List the MCP servers and their tools, and call one: `toolweave tools` and `call`."""

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from toolweave.cli.api_client import did_you_mean, server_health, server_url
from toolweave.cli.chat import parse_field
from toolweave.cli.servers.probe import (
    ConfigFile,
    DataFolder,
    ProbeResult,
    ServersConfig,
    print_warnings,
    probe,
    read_servers,
    show_state,
)
from toolweave.cli.terminal import (
    compact_json,
    sanitize,
    sanitized_json,
    shorten,
    stdout_console,
)
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import served_mcp_config
from toolweave.config.settings import load_settings
from toolweave.errors import RequestError, ServerUnavailable
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.oauth import token_location
from toolweave.servers.connections.plane import open_tool_plane
from toolweave.servers.connections.results import error_text, text_content
from toolweave.servers.connections.status import ToolDetails

if TYPE_CHECKING:
    from mcp.types import CallToolResult

CALL_START_TIMEOUT_S = 30.0
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


def call(
    tool: Annotated[str, typer.Argument(metavar="SERVER.TOOL", help="A server of mcp.jsonc and one of its tools.")],
    pairs: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="The arguments.")] = None,
    json_text: Annotated[str | None, typer.Option("--json", metavar="OBJECT", help="The arguments as JSON.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print the whole result as JSON.")] = False,
    config: ConfigFile = None,
    data_dir: DataFolder = None,
) -> None:
    """Start a server, call one of its tools, print the result as text, and stop the server.

    Values are converted to the types of the tool's schema. The command is the approval of a tool that requires one. The
    exit code is 1 if the call failed.
    """
    servers = read_servers(config, data_dir)
    print_warnings(servers)
    # The names of servers may contain dots.
    name = max((each for each in servers.names if tool.startswith(f"{each}.")), key=len, default=tool.partition(".")[0])
    servers.require_known(name)
    configure_logging(servers.settings.model_copy(update={"log_level": "ERROR"}))
    try:
        arguments = dict(json.loads(json_text or "{}"))
    except (TypeError, ValueError) as error:
        raise RequestError(f"--json takes a JSON object, such as '{{\"key\": 1}}': {error}.") from None
    result = asyncio.run(_call(servers, name, tool[len(name) + 1 :], arguments, pairs or ()))
    if raw:
        print(sanitized_json(result.model_dump(mode="json", by_alias=True, exclude_none=True)))
    elif result.isError:
        sys.stderr.write(f"The call failed: {sanitize(error_text(text_content(result)))}\n")
    else:
        text = text_content(result) or "The result has no text; --raw prints it."
        if sys.stdout.isatty():
            with suppress(ValueError):
                text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        stdout_console().print(sanitize(text))
    raise typer.Exit(1 if result.isError else 0)


async def _call(
    servers: ServersConfig, name: str, tool: str, arguments: dict[str, Any], pairs: Sequence[str]
) -> "CallToolResult":
    [server] = [each for each in served_mcp_config(servers.settings, enable=[name]).servers if each.name == name]
    async with open_tool_plane([server], token_place=token_location(servers.settings)) as plane:
        await plane.wait_for_servers(timeout_s=CALL_START_TIMEOUT_S)
        health, details = plane.health()[name], plane.details(name)
        if health["state"] != "ready" or details is None:
            reason = health["last_error"] or "no answer yet"
            advice = servers.advice(ProbeResult(name, health["state"], reason)) or ""
            raise ServerUnavailable(f"{name} is {health['state']}: {reason} {advice}", server=name, executed="no")
        offers = {offer["own_name"]: offer for offer in details["offers"]}
        offer = offers.get(tool) or next((each for each in offers.values() if each["name"] == tool), None)
        if offer is None:
            raise RequestError(f"{name} has no tool {tool!r}. {did_you_mean(tool, offers)}")
        arguments |= _parse_pairs(offer, pairs)
        return await plane.call(name, offer["own_name"], arguments, CallContext())


def _parse_pairs(offer: ToolDetails, pairs: Sequence[str]) -> dict[str, Any]:
    """Parse KEY=VALUE texts by the tool's schema."""
    declared, arguments = offer["input_schema"].get("properties"), {}
    properties = declared if isinstance(declared, dict) else {}
    for key, equals, text in (pair.partition("=") for pair in pairs):
        if not equals:
            raise RequestError(f"{key!r} is not an argument: write KEY=VALUE.")
        if properties and key not in properties and not offer["input_schema"].get("additionalProperties"):
            raise RequestError(f"{offer['own_name']} has no argument {key!r}. {did_you_mean(key, properties)}")
        arguments[key] = parse_field(properties.get(key), text)
    return arguments
