"""Call one tool of an MCP server: `toolweave call` (U-02)."""

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolweave.cli.api_client import did_you_mean
from toolweave.cli.chat import parse_field
from toolweave.cli.servers.probe import ConfigFile, DataFolder, ProbeResult, ServersConfig, print_warnings, read_servers
from toolweave.cli.terminal import parse_json, sanitize, stdout_console
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import served_mcp_config
from toolweave.errors import RequestError, ServerUnavailable
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.oauth import token_location
from toolweave.servers.connections.plane import open_tool_plane
from toolweave.servers.connections.results import error_text, text_content
from toolweave.servers.connections.status import ToolDetails

if TYPE_CHECKING:
    from mcp.types import CallToolResult

CALL_START_TIMEOUT_S = 30.0


def call(
    tool: Annotated[str, typer.Argument(metavar="SERVER.TOOL", help="A server of mcp.jsonc and one of its tools.")],
    pairs: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="The arguments.")] = None,
    json_text: Annotated[str | None, typer.Option("--json", metavar="OBJECT", help="The arguments as JSON.")] = None,
    config: ConfigFile = None,
    data_dir: DataFolder = None,
) -> None:
    """Start a server, call one of its tools, print the result, and stop the server.

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
        arguments = parse_json(json_text or "{}")
    except ValueError as error:
        raise RequestError(f"--json is not valid JSON: {error}.") from None
    if not isinstance(arguments, dict):
        raise RequestError("--json takes a JSON object, such as '{\"key\": 1}'.")
    result = asyncio.run(_call(servers, name, tool[len(name) + 1 :], arguments, pairs or ()))
    if result.isError:
        sys.stderr.write(f"The call failed: {sanitize(error_text(text_content(result)))}\n")
    else:
        # Images and links are in the whole result only.
        text = text_content(result) or result.model_dump_json(by_alias=True, exclude_none=True)
        with suppress(ValueError):
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False) if sys.stdout.isatty() else text
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
            reason = (health["last_error"] or "no answer yet").rstrip(".")
            advice = servers.advice(ProbeResult(name, health["state"], reason)) or ""
            raise ServerUnavailable(f"{name} is {health['state']}: {reason}. {advice}", server=name, executed="no")
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
